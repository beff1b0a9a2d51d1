#include "fs/volume/access_times.h"

namespace lazyfs::fs {
namespace {

constexpr std::int64_t kDaySeconds = 86'400;

}  // namespace

void AccessTimes::note(const InodeRef& inode) {
  if (mode_ == AccessTime::kNone) return;
  const Timestamp now = clock_.now();
  {
    ReaderLock lock(inode->mu);
    if (!is_due(inode->record, now)) return;
  }
  WriterLock lock(inode->mu);
  if (inode->deleted || !is_due(inode->record, now)) return;
  inode->record.access = now;
  inode->record_dirty = true;
  dirty_.add(inode, clock_.monotonic());
}

// kRelative: as Linux' relatime, when the access time is not newer than the last change, or is a
// day old.
bool AccessTimes::is_due(const InodeRecord& record, Timestamp now) const {
  if (mode_ == AccessTime::kStrict) return record.access != now;
  return record.access <= record.modification || record.access <= record.change ||
         now.seconds - record.access.seconds >= kDaySeconds;
}

}  // namespace lazyfs::fs
