// When to clean, and how hard to slow writers meanwhile: pure policies, values in, decision out. No
// I/O, clock, lock or random number.
//
// Source: the ShingledFS thesis, section 6.3: the idle trigger and the free space trigger.
#pragma once

#include <chrono>
#include <cstdint>

namespace lazyfs::gc {

// How urgent cleaning is (section 6.3.2).
enum class CleanPriority : std::uint8_t {
  kNone,
  kLow,   // clean while users are idle; requests go first
  kHigh,  // clean now; writers are slowed
};

// Cleaning is due when fewer blocks than these can be appended without cleaning.
struct Thresholds {
  std::uint64_t low_blocks = 0;
  std::uint64_t high_blocks = 0;
};
// The thesis' thresholds are shares of the disk (section 6.3.2). If nearly everything is live, no
// cleaning could reach them. So neither is more than a share of the slack (all that is not live): a
// fourth (low), an eighth (high). The less room is kept, the more blocks die before their band is
// cleaned.
Thresholds thresholds(std::uint64_t total_blocks, std::uint64_t slack_blocks, unsigned low_percent,
                      unsigned high_percent);
// Room equal to a threshold is not below it. Without dead blocks there is nothing to clean.
CleanPriority clean_priority(std::uint64_t room_blocks, std::uint64_t dead_blocks,
                             const Thresholds& limits);

// The moving average of the rate at which data arrives, in blocks a second: the weight of the past
// falls to 1/e within `time_constant`, and the rate during `elapsed` takes the rest. Splitting a
// period of constant rate does not change the result.
double average_rate(double average, std::uint64_t arrived_blocks, std::chrono::nanoseconds elapsed,
                    std::chrono::nanoseconds time_constant);

// What the idle trigger looks at (section 6.3.1).
struct IdleSigns {
  std::chrono::nanoseconds since_last_request{0};
  double arrival_rate = 0;  // moving average, blocks a second
};
struct IdleLimits {
  std::chrono::nanoseconds quiet_for{std::chrono::seconds(2)};  // the timer
  double rate_below = 16;                                       // blocks a second
  std::chrono::nanoseconds pause{std::chrono::milliseconds(100)};
};
// Idle: no request has come for `quiet_for`; or so little data arrives that a program that writes a
// line now and then is not mistaken for a load. In both cases no request has come for `pause`.
bool is_idle(const IdleSigns& signs, const IdleLimits& limits);

struct ThrottleLimits {
  std::uint64_t start_blocks = 0;    // room at which slowing begins: the high threshold
  std::uint64_t reserve_blocks = 0;  // room at which it is strongest
  std::chrono::nanoseconds max_delay_a_block{std::chrono::microseconds(200)};
  std::chrono::nanoseconds max_delay{std::chrono::milliseconds(100)};  // of one write
};
// How long a write of `blocks` must wait when `room_blocks` can be written without cleaning. 0 from
// start_blocks up. Below, it grows with the square of the used-up share of the way from
// start_blocks to reserve_blocks, so that it neither starts nor ends with a jump.
std::chrono::nanoseconds throttle_delay(std::uint64_t room_blocks, std::uint64_t blocks,
                                        const ThrottleLimits& limits);

}  // namespace lazyfs::gc
