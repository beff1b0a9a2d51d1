// The progress of a scrub of a volume, in a file that outlives the program. So the state of a
// background scrub can be shown, and the scrub cancelled and resumed, even after a crash of the
// machine.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fuse/requests/control.h"

namespace lazyfs {

struct ScrubState {
  enum class Status : std::uint8_t { kRunning, kDone, kCancelled, kFailed };
  // Entries of `found` that are kept; all damage is counted.
  static constexpr std::size_t kMaxFound = 1000;

  Status status = Status::kRunning;
  std::string failure;              // of kFailed: why
  std::string mount_point;          // absolute
  std::int64_t pid = 0;             // of the program that scrubs, or did
  std::uint64_t started_seconds = 0;  // since 1970
  double seconds = 0;               // of scrubbing, without breaks
  std::uint64_t rate = 0;           // bytes a second at most; 0: no limit
  std::uint64_t inode = 1, file_block = 0;  // where it continues; inode 0: nowhere
  std::uint64_t blocks = 0;         // read
  std::uint64_t total_blocks = 0;   // live when it began
  std::uint64_t damaged = 0;
  std::vector<fuse::ScrubPiece::Found> found;  // the first kMaxFound
};

std::string to_json(const ScrubState& state);
// nullopt: the text is no state.
std::optional<ScrubState> parse_scrub_state(std::string_view text);

// The files of one volume in a folder: the state, and a file for two locks. One lets a scrub begin
// only when no other one runs. The other one, which the scrubbing process takes, says its number:
// the number in the state may be that of a process which has ended. Only lock() and announce() take
// locks: questions leave them alone, and so keep no scrub from beginning.
// All functions throw std::runtime_error("what: why").
class ScrubFiles {
 public:
  // Makes the folder if it does not exist.
  ScrubFiles(const std::string& folder, const std::string& uuid);
  ~ScrubFiles();
  ScrubFiles(const ScrubFiles&) = delete;
  ScrubFiles& operator=(const ScrubFiles&) = delete;

  // Lets no other scrub begin as long as this process or a child of fork() keeps the files open.
  // Returns false when another program has done so.
  bool lock();
  // Makes this process the one that scrubs. REQUIRES: lock() in this process or its parent.
  void announce() const;
  // The process that scrubs; nullopt: none, or this one.
  std::optional<pid_t> scrubber() const;
  bool is_running() const { return scrubber().has_value(); }
  std::optional<ScrubState> read() const;
  void write(const ScrubState& state) const;  // replaces the file at once

 private:
  const std::string path_;
  const int lock_fd_;
};

}  // namespace lazyfs
