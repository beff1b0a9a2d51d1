// Writes superblock records: one after the other into both super bands, with a flush after each,
// so that at every moment at least one band holds the newest record that was ever reported written.
#pragma once

#include <array>

#include "base/result.h"
#include "meta/log/superblock.h"

namespace lazyfs::meta {

// Invariants:
//   S1  current() is on the device, durable, in every band b with intact_[b]; there is at least one
//   S2  a band is reset only while the other one is intact
// Not thread-safe: the store's committing thread alone calls write().
class SuperblockLog {
 public:
  // Continues after the records that exist. `newest` is what read_superblock() returned.
  SuperblockLog(device::Device& device, Superblock newest);
  // Resets both bands and writes the first record. Durable on return.
  static Result<> format(device::Device& device, const Superblock& first);

  const Superblock& current() const { return current_; }
  // Makes `next`, with the next sequence number, the newest record. Durable on return. Fails when
  // neither band takes it, or with kDeviceFlush; current() is then the newest that is certain.
  Result<> write(Superblock next);
  // A write has failed so that its record may be there all the same, now or after a crash: what
  // only one of the two records allows must not be done any more.
  bool is_in_doubt() const { return is_in_doubt_; }

 private:
  Result<> write_to(std::size_t index, const Superblock& record);

  device::Device& device_;
  Superblock current_;
  std::array<bool, 2> intact_{};
  std::array<bool, 2> has_refused_{};  // an append failed: it takes the next one after a reset
  bool is_in_doubt_ = false;
};

}  // namespace lazyfs::meta
