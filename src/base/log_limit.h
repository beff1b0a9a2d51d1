// Keeps one kind of log line from filling the log, for example when a program reads a damaged file
// again and again.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/mutex.h"

namespace lazyfs {

// At most `lines` lines of each kind pass in a period. A period begins with the first line after
// the last period. A kind is a format string of the program, so there are few kinds. Thread-safe.
// mu_ is a leaf lock.
class LogLimit {
 public:
  LogLimit(std::uint64_t lines, std::chrono::nanoseconds period)
      : lines_(lines), period_(period) {}

  // The caller calls it for each line, with the monotonic time. Returns nullopt if the line must be
  // left out, else how many lines of this kind were left out since the last one that passed.
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
