#include "fs/inode/protection.h"

namespace lazyfs::fs {
namespace {

bool is_immutable(const InodeRecord& inode) { return (inode.flags & kImmutable) != 0; }
bool is_protected(const InodeRecord& inode) {
  return (inode.flags & (kImmutable | kAppendOnly)) != 0;
}

Result<> permitted(bool is_permitted) { return is_permitted ? ok() : fail(Errc::kNotPermitted); }

}  // namespace

Result<> check_takes_name(const InodeRecord& directory) {
  return permitted(!is_immutable(directory));
}

Result<> check_gives_up_name(const InodeRecord& directory, const InodeRecord& child) {
  return permitted(!is_protected(directory) && !is_protected(child));
}

Result<> check_unprotected(const InodeRecord& inode) { return permitted(!is_protected(inode)); }

Result<> check_change(const InodeRecord& inode, const AttributeChange& change) {
  const bool sets_access = change.access && !change.access_now;
  if (change.mode || change.uid || change.gid || change.size || sets_access) {
    return check_unprotected(inode);
  }
  return permitted(!is_immutable(inode) || !(change.access_now || change.modification_now));
}

bool is_ignored(const InodeRecord& inode, const AttributeChange& change) {
  return is_immutable(inode) && (change.modification || change.change) && !change.flags;
}

}  // namespace lazyfs::fs
