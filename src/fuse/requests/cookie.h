// Directory offsets as the kernel sees them. "." and ".." are ours, everything else the volume's,
// whose cookies may be any number above 0; so the kernel's offset of an entry is the volume's
// cookie plus 2.
//
//   offset 0      start
//   offset 1      behind "."
//   offset 2      behind ".."; the volume's cookie 0
//   offset c + 2  behind the volume's entry with cookie c
#pragma once

#include <cstdint>

namespace lazyfs::fuse {

inline constexpr std::uint64_t kBehindDot = 1;
inline constexpr std::uint64_t kBehindDotDot = 2;

constexpr std::uint64_t offset_of_cookie(std::uint64_t cookie) { return cookie + kBehindDotDot; }

// Requires offset >= kBehindDotDot.
constexpr std::uint64_t cookie_of_offset(std::uint64_t offset) { return offset - kBehindDotDot; }

}  // namespace lazyfs::fuse
