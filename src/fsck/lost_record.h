// Rebuilds or corrects the record of an inode from its items, if the record is lost or contradicts
// them.
#pragma once

#include "fsck/context.h"

namespace lazyfs::fsck {

class LostRecord {
 public:
  LostRecord(Context& context, InodeNo inode) : c_(context), no_(inode) {}

  // A record made from the items alone.
  InodeRecord rebuilt();
  // The mode of a record, corrected if the record calls the inode shared while its items show a
  // directory or a link, or the other way round. shared_extents_pass() decides whether
  // an inode with blocks is shared or a file.
  std::uint32_t mode_beside(const InodeRecord& record);

 private:
  bool has_items(Kind first, Kind last);
  std::uint32_t mode_by_items();
  std::uint64_t size_by_items();

  Context& c_;
  const InodeNo no_;
};

// A root directory without names.
InodeRecord new_root(const Context& context);

}  // namespace lazyfs::fsck
