#include "fs/volume/attribute_changes.h"

#include <sys/stat.h>

#include "fs/inode/inode.h"

namespace lazyfs::fs {
namespace {

Result<> set_flags(InodeRecord& record, std::uint32_t flags) {
  const bool takes_all = S_ISREG(record.mode) || S_ISDIR(record.mode);
  const std::uint32_t possible = takes_all ? kAllFlags : kNoDump | kNoAccessTime;
  if ((flags & ~possible) != 0) return fail(Errc::kNotSupported);
  record.flags = (record.flags & ~kAllFlags) | flags;
  return ok();
}

}  // namespace

Result<> change_attributes(meta::Store& store, Xattrs& xattrs, Clock& clock, Inode& inode,
                           const AttributeChange& change) {
  WriterLock lock(inode.mu);
  if (inode.deleted) return fail(Errc::kStale);
  InodeRecord record = inode.record;
  if (change.flags) TRY(set_flags(record, *change.flags));
  const Timestamp now = change_time(clock, {&inode});
  if (change.clear_set_id && !S_ISDIR(record.mode)) drop_set_id(record);  // as Linux does
  if (change.mode) record.mode = (record.mode & S_IFMT) | (*change.mode & 07777);
  if (change.uid) record.owner.uid = *change.uid;
  if (change.gid) record.owner.gid = *change.gid;
  if (change.access) record.access = *change.access;
  if (change.access_now) record.access = now;
  if (change.modification) record.modification = *change.modification;
  if (change.modification_now) record.modification = now;
  meta::Batch batch;
  if (change.mode) TRY(xattrs.follow_mode(batch, inode, record));
  record.change = change.change.value_or(now);
  batch.put(key_of(inode.no, Kind::kInode), encode(for_tree(inode, record)));
  TRY(store.try_apply(batch));
  inode.record = record;
  inode.record_dirty = inode.tree_size != record.size;
  return ok();
}

}  // namespace lazyfs::fs
