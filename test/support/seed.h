// The seed of a random test: LAZYFS_SEED if it is set, otherwise a random one. A failing test
// prints it.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>

namespace lazyfs {

inline std::uint64_t test_seed() {
  static const std::uint64_t seed = [] {
    const char* given = std::getenv("LAZYFS_SEED");
    return given ? std::strtoull(given, nullptr, 0) : std::uint64_t{std::random_device{}()};
  }();
  return seed;
}

// A random test begins with SCOPED_TRACE(seed_trace());
inline std::string seed_trace() { return "LAZYFS_SEED=" + std::to_string(test_seed()); }

}  // namespace lazyfs
