// Writes superblock records: one after the other into both super bands, with a flush after each,
// so that at every moment at least one band holds the newest record that was ever reported written.
// A session's first record begins both bands again, so that no session writes where an earlier one
// may have left a torn record.
#pragma once

#include <array>
#include <span>

#include "base/result.h"
#include "meta/log/superblock.h"

namespace lazyfs::meta {

// Invariants:
//   S1  current() is on the device, durable, in every band b with intact_[b]; there is at least one
//   S2  a band is reset only while the other one is intact
//   S3  the first record of a session is written to a band that was just reset, unless the other
//       band takes no records
//   S4  the first record of a session has the sequence of the newest one + 2: a crash may have lost
//       a record with + 1, and a block that a later power cut tears may show that record again
// Not thread-safe: the store's committing thread alone calls write().
class SuperblockLog {
 public:
  // Begins a session. `newest` is what read_superblock() returned.
  SuperblockLog(device::Device& device, Superblock newest);
  // Resets both bands and writes the first record. Durable on return. REQUIRES: no record that a
  // search would find has a higher sequence.
  static Result<> format(device::Device& device, const Superblock& first);

  const Superblock& current() const { return current_; }
  // Makes `next`, with the next sequence number, the newest record. Durable on return. Fails if
  // neither band takes it, or with kDeviceFlush. After a failure current() is the newest record
  // that is certainly on the device.
  Result<> write(Superblock next);
  // A write has failed, but its record may nevertheless be on the device, now or after a crash.
  // Until a write succeeds the caller must do nothing that only one of the two records allows.
  bool is_in_doubt() const { return is_in_doubt_; }

 private:
  Result<> write_to(std::size_t index, const Superblock& record);
  Result<> continue_band(std::size_t index);

  device::Device& device_;
  Superblock current_;
  std::array<bool, 2> intact_{};
  std::array<bool, 2> is_begun_{};     // in this session
  // Past the newest record that was found, and past one that may be torn.
  std::array<std::uint32_t, 2> found_end_{};
  std::array<bool, 2> has_refused_{};  // an append failed: the band is reset before the next append
  bool is_first_ = true;               // no record was written in this session
  bool is_in_doubt_ = false;
};

// Resets the bands so that no superblock is found in them. Durable on return. On a device without
// write pointers earlier contents stay readable, so the part that a search reads is overwritten.
Result<> erase_superblocks(device::Device& device, std::span<const BandId> bands);

// The highest sequence of the valid records that a search finds in a super band; 0: none.
std::uint64_t newest_sequence_in(device::Device& device, BandId band);

}  // namespace lazyfs::meta
