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

  // Gives the inode copies of what can be read of an extent of another one, where a band has room;
  // reports the rest as lost.
  void copy(InodeNo inode, const MappedExtent& from, meta::Batch& batch);

 private:
  void find_unused_bands();
  std::optional<BandAddress> place_for(std::uint32_t blocks);
  bool append(InodeNo inode, const MappedExtent& run, std::span<const std::byte> bytes,
              meta::Batch& batch);

  Context& c_;
  bool knows_unused_bands_ = false;  // of a device without write pointers
};

}  // namespace lazyfs::fsck
