// Copies of blocks that two extents claim: for repairs.
#pragma once

#include <optional>
#include <span>

#include "fs/file/extent_map.h"
#include "fsck/context.h"

namespace lazyfs::fsck {

class BlockCopies {
 public:
  explicit BlockCopies(Context& context) : c_(context) {}

  // Gives the inode copies of those blocks of another inode's extent that can be read and for which
  // a band has room. Reports the other blocks as lost.
  void copy(InodeNo inode, const MappedExtent& from, meta::Batch& batch);

 private:
  void find_unused_bands();
  std::optional<BandAddress> place_for(std::uint32_t blocks);
  bool append(InodeNo inode, const MappedExtent& run, std::span<const std::byte> bytes,
              meta::Batch& batch);

  Context& c_;
  bool knows_unused_bands_ = false;  // find_unused_bands() has run
};

}  // namespace lazyfs::fsck
