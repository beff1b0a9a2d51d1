// How the addresses of a volume become places on disks (HotOS 2005, "Stupid File Systems Are
// Better", figure 1). A value: thread-safe.
//
//   disk:   paddr = tbl[baddr / chunk] + baddr % chunk
//   array:  (disk, paddr) = stripe by `stripe_sectors` over the disks (RAID-0)
//   volume: the array's function of the disk's paddr
//
// tbl is a pseudo-random permutation of the chunks' bases. A Feistel network computes it, so that
// it takes no memory. Chunks that do not fit at the end of the volume keep their place.
#pragma once

#include <cstdint>
#include <functional>

#include "sim/request.h"

namespace lazyfs::sim {

// A permutation of the numbers below `count`, by a seed.
class Permutation {
 public:
  Permutation(std::uint64_t count, std::uint64_t seed);
  // REQUIRES: number < count.
  std::uint64_t operator()(std::uint64_t number) const;

 private:
  std::uint64_t round_trip(std::uint64_t number) const;

  std::uint64_t count_, seed_;
  unsigned half_bits_;
};

struct VolumeShape {
  std::uint32_t disks = 1;
  std::uint64_t disk_sectors = 0;
  std::uint64_t stripe_sectors = 128;  // with more than one disk
  std::uint64_t chunk_sectors = 0;     // 0: chunks are not permuted
  std::uint64_t permute_seed = 0;
  // Requests are cut into blocks of 8 sectors, and these blocks are permuted over the whole volume
  // first: a "stupid file system" of HotOS 2005.
  bool is_stupid = false;
  std::uint64_t stupid_seed = 0;
};

inline constexpr std::uint64_t kStupidBlockSectors = 8;

class VolumeMap {
 public:
  using Visit =
      std::function<void(std::uint32_t disk, std::uint64_t sector, std::uint32_t sectors)>;

  // REQUIRES: disks, disk_sectors and stripe_sectors are not 0.
  explicit VolumeMap(const VolumeShape& shape);

  std::uint64_t sectors() const { return sectors_; }
  // Calls `visit` for each piece of a range, in the order of addresses. Consecutive pieces that are
  // contiguous on one disk are joined, unless the shape is stupid.
  void pieces(std::uint64_t sector, std::uint32_t sectors, const Visit& visit) const;

 private:
  std::uint64_t permuted(std::uint64_t sector) const;
  // How many sectors from this one on keep their order on one disk.
  std::uint64_t straight(std::uint64_t sector) const;

  const VolumeShape shape_;
  std::uint64_t sectors_;
  Permutation chunks_, blocks_;
};

}  // namespace lazyfs::sim
