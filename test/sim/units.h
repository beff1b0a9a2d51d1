// Sizes in sectors, for tests.
#pragma once

#include <cstdint>

namespace lazyfs::sim {

inline constexpr std::uint64_t kMib = 2048;
inline constexpr std::uint64_t kGib = 1024 * kMib;

}  // namespace lazyfs::sim
