// A small generator of pseudo-random numbers (SplitMix64). The same seed gives the same sequence on
// each machine, which the distributions of <random> do not promise. Not thread-safe.
#pragma once

#include <cstdint>

namespace lazyfs::sim {

// A mixing step: each bit of the result depends on all bits of the value.
constexpr std::uint64_t mix64(std::uint64_t value) {
  value += 0x9E3779B97F4A7C15ull;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ull;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBull;
  return value ^ (value >> 31);
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(mix64(seed)) {}
  // A number below the limit. Numbers are equally likely, except for the remainder of 2^64 / limit.
  // REQUIRES: limit > 0.
  std::uint64_t below(std::uint64_t limit) {
    state_ += 0x9E3779B97F4A7C15ull;
    return mix64(state_) % limit;
  }

 private:
  std::uint64_t state_;
};

}  // namespace lazyfs::sim
