// What the pass over inodes needs of an inode's extents and references: a check compares them with
// bands and append logs, a repair makes them right.
#pragma once

#include "fsck/context.h"

namespace lazyfs::fsck {

struct ExtentTotals {
  std::uint64_t blocks = 0;
  std::uint64_t end = 0;  // the file block after the last of them
  bool maps_first_block = false;
};

// begin(), then the inode's extents and references in the order of their file blocks, then end();
// finish() after the last inode.
class ExtentItems {
 public:
  virtual ~ExtentItems() = default;
  virtual void begin(InodeNo inode, const std::optional<InodeRecord>& record) = 0;
  virtual void item(const meta::Item& item) = 0;
  virtual ExtentTotals end() const = 0;
  virtual void finish() {}
};

}  // namespace lazyfs::fsck
