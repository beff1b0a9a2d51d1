// Which inodes are shared, and which are files.
#pragma once

#include <string_view>
#include <vector>

#include "fsck/context.h"

namespace lazyfs::fsck {

// An inode that files refer to, and that has no name, is shared; any other is a file.
class SharedInodes {
 public:
  explicit SharedInodes(Context& context) : c_(context) {}

  // Corrects the inode's type in Context::inodes. A repair also corrects its record, and removes
  // the items that it cannot have. REQUIRES: `names` and `targets` of the context are complete and
  // sorted.
  void settle(InodeFacts& inode);
  // Makes a file of an inode that no file refers to, or removes the inode if it has no contents. A
  // file without a name is put into /lost+found later.
  void make_file(InodeFacts& inode, bool has_name);
  // Takes the removed inodes off Context::inodes.
  void forget_removed();

 private:
  void make_shared(InodeFacts& inode);
  void refuse(InodeNo inode, std::string_view what);
  void remove_items(InodeNo inode, Kind first, Kind last, std::string_view what);
  void add_references(InodeNo inode);
  void write_file(InodeNo inode, bool called_itself_shared);
  void truncate(InodeNo inode, std::uint64_t limit);
  void remove(InodeNo inode);
  bool has_items(InodeNo inode, Kind first, Kind last);
  void erase_items(InodeNo inode, Kind first, Kind last);
  std::uint64_t end_of(InodeNo inode);

  Context& c_;
  std::vector<InodeNo> removed_;
};

}  // namespace lazyfs::fsck
