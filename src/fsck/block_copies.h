// Copies of blocks that two extents claim: for repairs.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "fs/file/extent_map.h"
#include "fsck/context.h"

namespace lazyfs::fsck {

class BlockCopies {
 public:
  explicit BlockCopies(Context& context) : c_(context) {}

  // Gives each extent of Context::claimed_twice copies of its blocks.
  void copy_claimed();
  // Gives the inode copies of those blocks of another inode's extent that can be read and for which
  // a band has room. The others are left to report_lost().
  void copy(InodeNo inode, const MappedExtent& from, meta::Batch& batch);
  // Reports the blocks as lost that have no copies, and that their inodes do not map either.
  // REQUIRES: the batches of copy() are applied.
  void report_lost();

 private:
  // Blocks that have no copies.
  struct Uncopied {
    InodeNo inode;
    std::uint64_t file_block = 0, blocks = 0;
    std::string_view why;
  };
  void report_unmapped(const Uncopied& run);
  void find_unused_bands();
  std::optional<BandAddress> place_for(std::uint32_t blocks);
  bool append(InodeNo inode, const MappedExtent& run, std::span<const std::byte> bytes,
              meta::Batch& batch);

  Context& c_;
  std::vector<Uncopied> uncopied_;
  bool knows_unused_bands_ = false;  // find_unused_bands() has run
};

}  // namespace lazyfs::fsck
