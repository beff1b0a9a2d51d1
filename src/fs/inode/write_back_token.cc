#include "fs/inode/write_back_token.h"

#include <utility>

namespace lazyfs::fs {

WriteBackToken::WriteBackToken(InodeRef inode) : inode_(std::move(inode)) {
  MutexLock lock(inode_->write_back_mu);
  while (inode_->writing_back) inode_->write_back_done.wait(inode_->write_back_mu);
  inode_->writing_back = true;
}

std::optional<WriteBackToken> WriteBackToken::try_take(InodeRef inode) {
  {
    MutexLock lock(inode->write_back_mu);
    if (inode->writing_back) return std::nullopt;
    inode->writing_back = true;
  }
  WriteBackToken token;
  token.inode_ = std::move(inode);
  return token;
}

WriteBackToken::~WriteBackToken() {
  if (!inode_) return;
  MutexLock lock(inode_->write_back_mu);
  inode_->writing_back = false;
  inode_->write_back_done.notify_all();
}

}  // namespace lazyfs::fs
