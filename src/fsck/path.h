// Paths of inodes, for reports.
#pragma once

#include <string>

#include "fsck/context.h"

namespace lazyfs::fsck {

// "/a/b" of an inode (by any one of its names); "" when no name leads to it. If the path is too
// long, or runs in a circle, only its end, after "...". REQUIRES: names_pass() has run.
std::string path_of(Context& context, InodeNo inode);

}  // namespace lazyfs::fsck
