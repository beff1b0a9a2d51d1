// Ids and addresses that every layer uses. An id of one kind does not convert to another kind and
// cannot be compared with one.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace lazyfs {

template <class Tag, class Rep = std::uint64_t>
struct Id {
  Rep value = 0;
  friend constexpr auto operator<=>(Id, Id) = default;
};

using InodeNo = Id<struct InodeNoTag>;                // 0 is "no inode"; the root is 1
using BandId = Id<struct BandIdTag, std::uint32_t>;   // index of a band on the device, from 0
using NodeNo = Id<struct NodeNoTag>;                  // number of a metadata node; 0 is "no node"
using Seq = Id<struct SeqTag>;                        // number of a metadata transaction, from 1

// A block on the device: band number and block number within the band (RBA).
struct BandAddress {
  BandId band;
  std::uint32_t rba = 0;
  friend constexpr auto operator<=>(const BandAddress&, const BandAddress&) = default;
  // The 64-bit form of the T13 Banded Device Feature Set: band << 32 | RBA (thesis, section 4.2).
  constexpr std::uint64_t packed() const { return std::uint64_t{band.value} << 32 | rba; }
  static constexpr BandAddress unpack(std::uint64_t packed) {
    return {BandId{static_cast<std::uint32_t>(packed >> 32)}, static_cast<std::uint32_t>(packed)};
  }
};

// lazyfs allocates space in blocks of this size. mkfs refuses a device with another block size.
inline constexpr std::uint32_t kBlockBytes = 4096;

constexpr std::uint64_t blocks_for(std::uint64_t bytes) {
  return bytes / kBlockBytes + (bytes % kBlockBytes != 0);
}

}  // namespace lazyfs

template <class Tag, class Rep>
struct std::hash<lazyfs::Id<Tag, Rep>> {
  std::size_t operator()(lazyfs::Id<Tag, Rep> id) const noexcept {
    return id.value;  // ids are allocated in sequence, so neighbouring ids share a cache line
  }
};
