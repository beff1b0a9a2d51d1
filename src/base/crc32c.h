// CRC-32C (Castagnoli, as in iSCSI and ext4). ISA-L computes it with the fastest instructions that
// the CPU has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace lazyfs {

// Returns the checksum of `bytes`. If `seed` is the checksum of earlier bytes, returns the checksum
// of the earlier bytes followed by `bytes`. crc32c("123456789") == 0xE3069283.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t seed = 0);

}  // namespace lazyfs
