// Checks the pieces of one inode's inline block: all are of one block, which is inside the file,
// and which no extent maps.
#pragma once

#include <cstdint>

#include "fsck/context.h"

namespace lazyfs::fsck {

// begin(), then the inode's pieces in the order of their keys, then its extents and references;
// end_place(), and, unless the file may be shorter than its items say, end_size().
class InlineItems {
 public:
  explicit InlineItems(Context& context) : c_(context) {}

  void begin(InodeNo inode);
  void item(const meta::Item& item);
  void extent(const meta::Item& item);
  void end_place();
  void end_size(std::uint64_t file_bytes);

  // Returns the file offset where the bytes of the pieces end; 0 without pieces. For inodes that
  // the pass is done with.
  static std::uint64_t end_of(Context& context, InodeNo inode);
  // Erases the pieces of blocks [first, first + count).
  static void erase(Context& context, InodeNo inode, std::uint64_t first, std::uint64_t count);

 private:
  void cut(std::uint64_t file_bytes);

  Context& c_;
  InodeNo no_;
  bool has_pieces_ = false;
  bool is_mapped_ = false;
  std::uint64_t block_ = 0;
  std::uint64_t end_ = 0;  // in the file
};

}  // namespace lazyfs::fsck
