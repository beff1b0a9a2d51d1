// lazyfsctl scrub: reads all file contents of a mount and verifies their checksums.
#pragma once

#include <cstdint>
#include <string>

namespace lazyfs {

struct ScrubPlan {
  std::string mount_point;
  std::uint64_t rate = 0;  // bytes a second at most; 0: no limit
  std::string progress = "auto";  // of kProgressForms
  bool json = false;
  // Of scrubs in the background: where their state is kept (ScrubFiles).
  std::string folder = "/var/lib/lazyfs";
};

// All of these throw std::runtime_error("what: why"). Functions that return bool return true if no
// damage has been found (so far).

// Scrubs, and prints what is damaged.
bool scrub_command(const ScrubPlan& plan);
// start_scrub() begins a scrub in the background. resume_scrub() continues one that was cancelled,
// or interrupted by a crash or an unmount; a rate of 0 keeps its earlier rate.
void start_scrub(const ScrubPlan& plan);
void resume_scrub(const ScrubPlan& plan);
// Ends the scrub in the background, and waits for its end.
void cancel_scrub(const ScrubPlan& plan);
// Prints how far the last scrub in the background is.
bool scrub_status(const ScrubPlan& plan);

}  // namespace lazyfs
