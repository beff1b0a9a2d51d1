// Decides whether the leader spins before it sleeps: asks again and again for the next request.
// Spinning pays if requests come soon, and the CPU would be idle.
//
// A pure state machine: its times come from the caller. Not thread-safe: belongs to the leader.
#pragma once

#include <chrono>

namespace lazyfs::fuse {

class SpinPolicy {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // A yield that takes so long gave the CPU to a thread that computes.
  static constexpr auto kCpuWanted = std::chrono::microseconds(20);

  bool should_spin(Time now) const { return score_ >= kWorthIt && now >= not_before_; }
  // A request has come: `soon` if spinning would have met it.
  void note_request(bool soon) { score_ = score_ - score_ / 8 + (soon ? 32 : 0); }
  // Another thread wanted the CPU meanwhile: no spinning for 1 ms. If a thread wants the CPU again
  // soon after the leader spins again, it computes: the pause doubles, up to 1 s. A thread that
  // only did something short, such as a background thread of the daemon, does not double it.
  void note_busy_cpu(Time now);
  // The leader has spun for so long, and no other thread wanted the CPU.
  void note_idle_cpu(std::chrono::nanoseconds spun) { idle_ += spun; }

 private:
  static constexpr int kWorthIt = 96;

  int score_ = 128;  // 0..256: how often requests came soon lately
  Time not_before_{};
  std::chrono::milliseconds pause_{0};
  std::chrono::nanoseconds idle_{0};  // spun on an idle CPU since the last pause
};

// Calls ask() and yield() in turn until ask() returns true, another thread wants the CPU, or the
// time that now() returns has reached `deadline`. Returns whether ask() did, and notifies the
// policy of what it has seen. ask() is called at least once if the deadline is not past.
template <typename Now, typename Ask, typename Yield>
bool spin(SpinPolicy& policy, SpinPolicy::Time deadline, Now now, Ask ask, Yield yield) {
  for (SpinPolicy::Time before = now(); before < deadline;) {
    if (ask()) {
      policy.note_request(true);
      return true;
    }
    yield();
    const SpinPolicy::Time after = now();
    if (after - before > SpinPolicy::kCpuWanted) {
      if (ask()) return true;
      policy.note_busy_cpu(now());
      return false;
    }
    policy.note_idle_cpu(after - before);
    before = after;
  }
  return false;
}

}  // namespace lazyfs::fuse
