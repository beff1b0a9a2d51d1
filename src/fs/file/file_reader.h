// Reads the contents of files: from the write buffer, from inline items, from bands.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"
#include "fs/file/core.h"
#include "fs/file/extent_map.h"

namespace lazyfs::fs {

// Thread-safe. Bands are read without any lock; pins keep them from being reset meanwhile.
class FileReader {
 public:
  explicit FileReader(const Core& core) : core_(core) {}

  // Reads up to to.size() bytes at `offset`; fewer at the end of the file. Fastest when `to` is
  // aligned to kBlockBytes. Errors: kDataChecksumBad, and what the layers below give, for this
  // range alone.
  Result<std::size_t> read(Inode& inode, std::uint64_t offset, std::span<std::byte> to);

  struct Block {
    AlignedBuffer bytes;
    std::uint64_t map_version = 0;  // the inode's when the block was looked up
    bool had_rest = false;          // bytes behind the file's end were not zeros, as here they are
  };
  // One block as the tree and the bands have it, zeros where nothing is and behind the end of the
  // file (I6); the write buffer is not asked.
  Result<Block> stored_block(Inode& inode, std::uint64_t block);

 private:
  using Piece = SharedInodes::Piece;
  struct Plan;

  Result<> plan_entry(MapEntry& entry, Plan& plan);
  Result<> plan_range(Inode& inode, std::uint64_t first, std::uint64_t count, Plan& plan)
      REQUIRES_SHARED(inode.mu);
  Result<> read_planned(const Plan& plan, std::uint64_t offset, std::span<std::byte> to);
  Result<> read_run(const MappedExtent& run, std::uint64_t offset, std::span<std::byte> to);

  const Core& core_;
};

}  // namespace lazyfs::fs
