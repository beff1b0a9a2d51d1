#include "fs/volume/access_times.h"

namespace lazyfs::fs {
namespace {

constexpr std::int64_t kDaySeconds = 86'400;

// kRelative: as Linux' relatime, when the access time is not newer than the last change, or is a
// day old.
bool is_access_due(const InodeRecord& record, Timestamp now, AccessTime when) {
  if ((record.flags & kNoAccessTime) != 0) return false;
  if (when == AccessTime::kStrict) return record.access != now;
  return record.access <= record.modification || record.access <= record.change ||
         now.seconds - record.access.seconds >= kDaySeconds;
}

}  // namespace

void AccessTimes::note(const InodeRef& inode, AccessTime when) {
  if (when == AccessTime::kNone) return;
  const Timestamp now = clock_.now();
  {
    ReaderLock lock(inode->mu);
    if (!is_access_due(inode->record, now, when)) return;
  }
  WriterLock lock(inode->mu);
  if (inode->deleted || !is_access_due(inode->record, now, when)) return;
  inode->record.access = now;
  inode->record_dirty = true;
  dirty_.add(inode, clock_.monotonic());
}

}  // namespace lazyfs::fs
