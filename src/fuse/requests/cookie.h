// Directory offsets as the kernel sees them. The handlers add "." and ".."; all other entries are
// the volume's, whose cookies may be any number above 0. So the kernel's offset of an entry is the
// volume's cookie plus 2.
//
//   offset 0      start
//   offset 1      after "."
//   offset 2      after ".."; the volume's cookie 0
//   offset c + 2  after the volume's entry with cookie c
#pragma once

#include <cstdint>

namespace lazyfs::fuse {

inline constexpr std::uint64_t kAfterDot = 1;
inline constexpr std::uint64_t kAfterDotDot = 2;

constexpr std::uint64_t offset_of_cookie(std::uint64_t cookie) { return cookie + kAfterDotDot; }

// REQUIRES: offset >= kAfterDotDot.
constexpr std::uint64_t cookie_of_offset(std::uint64_t offset) { return offset - kAfterDotDot; }

}  // namespace lazyfs::fuse
