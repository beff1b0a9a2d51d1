// Keeps one kind of log line from filling the log, as a damaged file that is read again and again
// would.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/mutex.h"

namespace lazyfs {

// Of each kind at most `lines` pass in a period, which begins with the first of them. Kinds are
// few: a format string in the program each. Thread-safe. mu_ is a leaf lock.
class LogLimit {
 public:
  LogLimit(std::uint64_t lines, std::chrono::nanoseconds period)
      : lines_(lines), period_(period) {}

  // To be called for each line, with the monotonic time. nullopt: the line is to be left out. Else
  // the number of lines of this kind that were left out since the last one that was not.
  std::optional<std::uint64_t> note(const void* kind, std::chrono::nanoseconds now) EXCLUDES(mu_) {
    MutexLock lock(mu_);
    auto [found, is_new] = kinds_.try_emplace(kind, State{.begun = now});
    State& state = found->second;
    if (now - state.begun >= period_) state = {.begun = now, .left_out = state.left_out};
    if (state.passed < lines_) {
      ++state.passed;
      return std::exchange(state.left_out, 0);
    }
    ++state.left_out;
    return std::nullopt;
  }

 private:
  struct State {
    std::chrono::nanoseconds begun{};
    std::uint64_t passed = 0, left_out = 0;
  };
  const std::uint64_t lines_;
  const std::chrono::nanoseconds period_;
  Mutex mu_;
  std::unordered_map<const void*, State> kinds_ GUARDED_BY(mu_);
};

}  // namespace lazyfs
