// /lost+found: a repair gives inodes without a name a name there.
#pragma once

#include "fsck/context.h"

namespace lazyfs::fsck {

class LostAndFound {
 public:
  explicit LostAndFound(Context& context) : c_(context) {}

  // Gives each inode a name in /lost+found, which is made if it does not exist. Context::names and
  // Context::inodes stay sorted. REQUIRES: `names` and `inodes` of the context are sorted.
  void adopt(const std::vector<InodeFacts>& nameless);

 private:
  InodeNo find_or_make();
  void adopt(InodeNo home, const InodeFacts& inode);

  Context& c_;
};

}  // namespace lazyfs::fsck
