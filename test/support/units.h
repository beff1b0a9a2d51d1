// Short names for sizes that tests count in.
#pragma once

#include <cstdint>

#include "base/types.h"

namespace lazyfs {

inline constexpr std::uint64_t kB = kBlockBytes;
inline constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

}  // namespace lazyfs
