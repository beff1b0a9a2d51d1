// CRC-32C (Castagnoli, as iSCSI and ext4 use it), by ISA-L, which picks the CPU's instructions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace lazyfs {

// The checksum of `bytes`; with `seed` the checksum of what gave `seed` followed by `bytes`.
// crc32c("123456789") == 0xE3069283.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t seed = 0);

}  // namespace lazyfs
