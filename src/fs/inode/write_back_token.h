// The right to change which blocks an inode has on the device.
#pragma once

#include <optional>

#include "fs/inode/inode.h"

namespace lazyfs::fs {

// At most one thread holds an inode's token (I4): write-back, truncation, punching, sharing and
// deletion take it, so that none of them frees a block that another one is writing. Held over the
// holder's appends. Taken before any inode's lock. A thread that holds a token does not wait for
// another token.
class WriteBackToken {
 public:
  explicit WriteBackToken(InodeRef inode);  // waits
  // nullopt: another thread holds the token.
  static std::optional<WriteBackToken> try_take(InodeRef inode);
  WriteBackToken(WriteBackToken&&) = default;
  ~WriteBackToken();

 private:
  WriteBackToken() = default;

  InodeRef inode_;
};

}  // namespace lazyfs::fs
