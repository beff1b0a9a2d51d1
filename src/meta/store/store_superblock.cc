#include "meta/store/store_superblock.h"

#include <algorithm>
#include <new>

namespace lazyfs::meta {

void set_durable(Superblock& superblock, const PartPlace& newest) {
  superblock.durable_seq = newest.address.seq.value;
  superblock.head_slot = newest.address.slot;
  superblock.head_rba = newest.address.rba;
  superblock.head_blocks = newest.blocks;
}

Superblock StoreSuperblock::current() const {
  MutexLock lock(mu_);
  return current_;
}

void StoreSuperblock::set_data_ends_known(bool known) {
  MutexLock lock(mu_);
  current_.set_data_ends_known(known);
}

// If memory lacks, it is not known whether the disk has the record.
Result<> StoreSuperblock::write(Superblock next) try {
  if (failure_.has_failed()) return fail(Errc::kLogFailed);
  const PartPlace newest = log_.newest();
  set_durable(next, newest);
  if (auto written = records_->write(std::move(next)); !written) {
    if (records_->is_in_doubt()) {
      failure_.set(written.error(), "the superblock", newest.address.seq);
    }
    return written;
  }
  MutexLock lock(mu_);
  current_ = records_->current();
  return ok();
} catch (const std::bad_alloc&) {
  failure_.set(Errc::kNoMemory, "the superblock", log_.newest().address.seq);
  return fail(Errc::kNoMemory);
}

Result<> StoreSuperblock::write_clean_end() {
  Superblock next = current();
  next.set_clean_end(true, log_.head().is_open);
  return write(std::move(next));
}

Result<> StoreSuperblock::write_log_bands(std::vector<BandId> bands) {
  Superblock next = current();
  std::ranges::sort(bands);
  next.log_bands = std::move(bands);
  return write(std::move(next));
}

Result<> StoreSuperblock::write_band_count() {
  Superblock next = current();
  next.band_count = device_.geometry().band_count();
  return write(std::move(next));
}

}  // namespace lazyfs::meta
