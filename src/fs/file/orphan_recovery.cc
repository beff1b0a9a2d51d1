#include "fs/file/orphan_recovery.h"

#include "base/log.h"
#include "fs/file/retry_pause.h"

namespace lazyfs::fs {
namespace {

constexpr std::size_t kRecordsAStep = 64;
constexpr std::size_t kPartsAStep = 16;  // of a truncation

meta::Key record_key(std::uint64_t inode) { return key_of(kVolumeOwner, Kind::kOrphan, inode); }

}  // namespace

Result<> OrphanRecovery::begin() {
  ASSIGN_OR_RETURN(const auto last, store_.last_in(record_key(0), record_key(meta::kMaxOffset)));
  if (!last) return ok();
  MutexLock lock(step_mu_);
  last_ = last->key.offset;
  done_ = false;
  inodes_.look_for_truncations(true);
  return ok();
}

void OrphanRecovery::end_locked() {
  inodes_.look_for_truncations(false);
  done_.store(true, std::memory_order_release);
  log::info("{} orphans of earlier sessions were found and finished", found_);
}

// Ends one reading of the records. The next one begins with the first orphan that has failed.
void OrphanRecovery::end_reading_locked() {
  if (!first_failed_) return end_locked();
  next_ = *first_failed_;
  first_failed_.reset();
  if (++failures_ < kMostFailures) {
    due_ = clock_.monotonic() + pause_after(failures_);
    return;
  }
  log::error("orphans from inode {} on cannot be read: left to the next mount", next_);
  // Inodes are still loaded with their pending truncations.
  done_.store(true, std::memory_order_release);
}

void OrphanRecovery::note_failure_locked(std::uint64_t inode, Errc error) {
  log::warn("orphan {}: {}; it will be tried again", inode, describe(error));
  if (!first_failed_) first_failed_ = inode;
}

void OrphanRecovery::step() {
  MutexLock lock(step_mu_);
  if (!is_due()) return;
  // Orphans of this session are among them: older inodes, in use or queued already, so that looking
  // at them changes nothing.
  const auto found = store_.scan(record_key(next_), record_key(last_), kRecordsAStep);
  if (!found) {
    note_failure_locked(next_, found.error());
    return end_reading_locked();
  }
  for (const meta::Item& item : *found) {
    if (!continue_one(item)) return;
    next_ = item.key.offset + 1;
    if (next_ <= counted_) continue;
    counted_ = next_;
    ++found_;
  }
  if (found->size() < kRecordsAStep || next_ > last_) end_reading_locked();
}

// False: the truncation is not done yet.
bool OrphanRecovery::continue_one(const meta::Item& item) {
  const std::uint64_t number = item.key.offset;
  const auto record = decode_orphan(item.value);
  if (!record) {
    log::error("inode {}: its orphan record is damaged", number);
    return true;
  }
  const auto inode = inodes_.get(InodeNo{number});
  if (!inode) {
    const bool was_deleted = inode.error() == Errc::kStale;  // since the records were read
    if (!was_deleted) note_failure_locked(number, inode.error());
    return true;
  }
  // A deleted inode is queued for cleanup when this reference, its last one, ends.
  if (record->work == OrphanRecord::Work::kDelete) return true;
  const auto resumed = truncation_.resume(*inode, kPartsAStep);
  if (resumed) return *resumed;
  note_failure_locked(number, resumed.error());
  return true;
}

}  // namespace lazyfs::fs
