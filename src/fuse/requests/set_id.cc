#include "fuse/requests/set_id.h"

#include <sys/stat.h>

#include "fuse/requests/caller.h"

namespace lazyfs::fuse {

Result<> drop_foreign_set_group_id(fuse_req_t req, fs::Volume& volume, InodeNo inode) {
  const uid_t user = fuse_req_ctx(req)->uid;
  if (user == 0) return ok();
  ASSIGN_OR_RETURN(const fs::Attributes now, volume.get_attributes(inode));
  if (user == kUnknownUser && S_ISDIR(now.mode)) return ok();
  if ((now.mode & S_ISGID) == 0 || is_in_group(req, now.owner.gid)) return ok();
  fs::AttributeChange change;
  change.mode = now.mode & 07777 & ~static_cast<std::uint32_t>(S_ISGID);
  TRY(volume.set_attributes(inode, change));
  return ok();
}

Result<bool> prepare_set_id(fuse_req_t req, fs::Volume& volume, InodeNo inode, bool clear_set_id) {
  if (!clear_set_id) return false;
  ASSIGN_OR_RETURN(const fs::Attributes now, volume.get_attributes(inode));
  if (S_ISDIR(now.mode) || (now.mode & (S_ISUID | S_ISGID)) == 0) return false;
  if ((now.mode & S_IXGRP) == 0) TRY(drop_foreign_set_group_id(req, volume, inode));
  return true;
}

}  // namespace lazyfs::fuse
