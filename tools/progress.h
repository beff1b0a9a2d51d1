// Shows the progress of long work on standard error: percent, rate and time left.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lazyfs {

enum class Unit : std::uint8_t { kBytes, kItems };

// How much of a stage is done.
struct Done {
  std::string_view stage;
  std::uint64_t done = 0;
  std::uint64_t total = 0;  // 0: unknown
  Unit unit = Unit::kItems;
};

// "inodes     42%, 1200 of 2857, 600/s, 3 s left", as far as it is known. `seconds`: since the
// stage began.
std::string progress_text(const Done& done, double seconds);
// The same as one JSON object.
std::string progress_json(const Done& done, double seconds);

// The values of the option --progress.
inline const std::vector<std::string> kProgressForms{"never", "auto", "json"};

// Not thread-safe.
class ProgressLine {
 public:
  // One of kProgressForms; "auto": a line on a terminal, and nothing elsewhere.
  explicit ProgressLine(std::string_view form);
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // May be called often: shows the first state of a stage, then a few states a second.
  void show(const Done& done);
  // Removes the line, so that other output can follow.
  void clear();

 private:
  using SteadyClock = std::chrono::steady_clock;
  enum class Form : std::uint8_t { kNever, kLine, kJson };

  const Form form_;
  std::string stage_;
  SteadyClock::time_point begun_;
  std::optional<SteadyClock::time_point> shown_;
  bool is_on_screen_ = false;
};

}  // namespace lazyfs
