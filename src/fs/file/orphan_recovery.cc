#include "fs/file/orphan_recovery.h"

#include "base/log.h"

namespace lazyfs::fs {
namespace {

constexpr std::size_t kRecordsAStep = 64;
constexpr std::size_t kPartsAStep = 16;  // of a truncation

Result<std::vector<meta::Item>> records(meta::Store& store, std::uint64_t first,
                                        std::size_t at_most) {
  return store.scan(key_of(kVolumeOwner, Kind::kOrphan, first),
                    key_of(kVolumeOwner, Kind::kOrphan, meta::kMaxOffset), at_most);
}

}  // namespace

Result<> OrphanRecovery::begin() {
  ASSIGN_OR_RETURN(const auto first, records(store_, 0, 1));
  if (first.empty()) return ok();
  done_ = false;
  inodes_.look_for_truncations(true);
  return ok();
}

void OrphanRecovery::end_locked() {
  inodes_.look_for_truncations(false);
  done_.store(true, std::memory_order_release);
  log::info("{} orphans of earlier sessions were found and finished", found_);
}

void OrphanRecovery::step() {
  MutexLock lock(step_mu_);
  if (is_done()) return;
  // Orphans of this session are among them. These are in use or queued already, so that looking at
  // them changes nothing.
  const auto found = records(store_, next_, kRecordsAStep);
  if (!found) {
    log::error("orphans from inode {} on cannot be read: {}", next_, describe(found.error()));
    // Inodes are still loaded with their pending truncations.
    done_.store(true, std::memory_order_release);
    return;
  }
  for (const meta::Item& item : *found) {
    if (!continue_one(item)) return;
    next_ = item.key.offset + 1;
    ++found_;
  }
  if (found->size() < kRecordsAStep) end_locked();
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
    if (!was_deleted) log::error("orphan {}: {}", number, describe(inode.error()));
    return true;
  }
  // A deleted inode is queued for cleanup when this reference, its last one, ends.
  if (record->work == OrphanRecord::Work::kDelete) return true;
  const auto resumed = truncation_.resume(*inode, kPartsAStep);
  if (resumed) return *resumed;
  log::warn("inode {}: blocks past its end are not freed yet: {}", number,
            describe(resumed.error()));
  return true;
}

}  // namespace lazyfs::fs
