// Reads the contents of files: from the write buffer, from inline items, from bands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/fork_join.h"
#include "base/result.h"
#include "data/band_table.h"
#include "device/device.h"
#include "fs/file/counters.h"
#include "fs/file/extent_map.h"
#include "fs/file/shared_extents.h"
#include "fs/inode/inode.h"
#include "meta/store/store.h"

namespace lazyfs::fs {

// Thread-safe. Bands are read without any lock; pins keep them from being reset meanwhile.
class FileReader {
 public:
  // Reads from bands that one call has under way at once: the length of a SATA disk's queue.
  static constexpr std::size_t kReadsAtOnce = 32;

  // `at_once`: whether the reader may have threads of its own that read beside the caller's thread.
  FileReader(device::Device& device, meta::Store& store, data::BandTable& bands,
             SharedExtents& shared, Counters& counters, bool at_once)
      : device_(device),
        store_(store),
        bands_(bands),
        shared_(shared),
        counters_(counters),
        threads_(at_once ? kReadsAtOnce - 1 : 0) {}

  // Reads up to to.size() bytes at `offset`; fewer at the end of the file. Fastest when `to` is
  // aligned to kBlockBytes. Errors: kDataChecksumBad, and those of the layers below. Other ranges
  // stay readable. kWouldWait: the thread must not wait (base/before_wait.h), and the disk has to
  // be read.
  Result<std::size_t> read(Inode& inode, std::uint64_t offset, std::span<std::byte> to);

  struct Block {
    AlignedBuffer bytes;
    std::uint64_t map_version = 0;  // the inode's, when the block was looked up
    bool had_rest = false;  // stored bytes past the end of the file are not zero, unlike in `bytes`
  };
  // One block as the tree and the bands have it, without the write buffer. Holes and bytes past the
  // end of the file (I6) are zero.
  Result<Block> stored_block(Inode& inode, std::uint64_t block);

 private:
  using Piece = SharedExtents::Piece;
  struct Plan;

  Result<> plan_entry(MapEntry& entry, Plan& plan);
  Result<> plan_range(Inode& inode, std::uint64_t first, std::uint64_t count, Plan& plan)
      REQUIRES_SHARED(inode.mu);
  Result<> read_planned(const Plan& plan, std::uint64_t offset, std::span<std::byte> to);
  Result<> read_pieces(std::span<const Piece> pieces, std::uint64_t offset,
                       std::span<std::byte> to);
  Result<> read_piece(const Piece& piece, std::uint64_t offset, std::span<std::byte> to);
  Result<> read_run(const MappedExtent& run, std::uint64_t offset, std::span<std::byte> to);

  device::Device& device_;
  meta::Store& store_;
  data::BandTable& bands_;
  SharedExtents& shared_;
  Counters& counters_;
  ForkJoin threads_;
};

// The size of a regular file. kInvalid: the inode is no regular file; kStale: it was deleted. Takes
// the inode's lock.
Result<std::uint64_t> file_size(Inode& inode);

}  // namespace lazyfs::fs
