// The superblock of an open store.
#pragma once

#include <optional>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "device/device.h"
#include "meta/log/log.h"
#include "meta/log/superblock.h"
#include "meta/log/superblock_log.h"
#include "meta/store/store_failure.h"

namespace lazyfs::meta {

// Names the transaction whose last part is `newest` as durable.
void set_durable(Superblock& superblock, const PartPlace& newest);

// Thread-safe; only the committing thread calls the functions that write. mu_ is a leaf lock.
class StoreSuperblock {
 public:
  StoreSuperblock(device::Device& device, const Log& log, StoreFailure& failure,
                  Superblock superblock)
      : device_(device), log_(log), failure_(failure), current_(std::move(superblock)) {}

  Superblock current() const EXCLUDES(mu_);
  // REQUIRED before the first write.
  void open_for_writing() { records_.emplace(device_, current()); }
  // Sets what the record of a clean end says (Superblock::kDataEndsKnown).
  void set_data_ends_known(bool known) EXCLUDES(mu_);
  // Writes a record that names the newest durable transaction. Error: kLogFailed after the store
  // has failed, because the newest transaction may not be durable then.
  Result<> write() { return write(current()); }
  // The same, and says that the volume ended cleanly. Nothing may be written after it.
  Result<> write_clean_end();
  // The same as write(), with another list of the log's bands.
  Result<> write_log_bands(std::vector<BandId> bands);
  // The same as write(), with the number of bands that the device has now.
  Result<> write_band_count();

 private:
  Result<> write(Superblock next) EXCLUDES(mu_);

  device::Device& device_;
  const Log& log_;
  StoreFailure& failure_;
  std::optional<SuperblockLog> records_;  // the committing thread's
  mutable Mutex mu_;
  Superblock current_ GUARDED_BY(mu_);
};

}  // namespace lazyfs::meta
