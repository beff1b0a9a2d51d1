// The right to change which blocks an inode has on the device.
#pragma once

#include "fs/inode/inode.h"

namespace lazyfs::fs {

// At most one thread holds an inode's token (I4): write-back, truncation, punching, sharing and
// deletion take it, so that none of them frees a block that another one is writing. Held over the
// holder's appends. Taken before any inode's lock; a thread waits for a second token only in
// write-back's pass, which holds WriteBack::pass_mu_.
class WriteBackToken {
 public:
  explicit WriteBackToken(InodeRef inode);  // waits
  WriteBackToken(WriteBackToken&&) = default;
  ~WriteBackToken();

 private:
  InodeRef inode_;
};

}  // namespace lazyfs::fs
