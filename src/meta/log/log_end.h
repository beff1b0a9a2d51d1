// Where the log ends, on a device that keeps no write pointers (device/device.h, W1).
//
// The superblock names a place that was durable. From there a walk follows the parts of the log
// forwards, each by its first descriptor. Where no part begins, the walk searches the next
// kLookAheadBlocks blocks for blocks written since the band's last reset. So a damaged descriptor
// does not end the walk. Past the end a band may hold anything: parts that a power cut has torn,
// and leftovers from before the reset.
#pragma once

#include <cstdint>
#include <optional>

#include "device/device.h"
#include "meta/log/log_reader.h"
#include "meta/log/recovered_log.h"
#include "meta/log/superblock.h"

namespace lazyfs::meta {

// This many blocks in a row that do not belong to the present life of a band end the walk.
inline constexpr std::uint32_t kLookAheadBlocks = 256;

// Invariants:
//   E1  every part that was durable when the power failed lies before search_end() of its band,
//       unless kLookAheadBlocks blocks in a row are damaged, also when they are read again
//   E2  search_end() reads no block that lies kLookAheadBlocks or more past the last block that
//       belongs to the present life of the band, and none before the place that the superblock
//       names
// On a device that keeps write pointers the answers are those of the device. Not thread-safe.
class LogEnd {
 public:
  LogEnd(device::Device& device, const Superblock& superblock, const LogReader& log);

  // Whether a session later than the superblock's has begun a band, or has continued the log at the
  // end that the superblock names. Then the newest superblock is lost, because a session's record
  // is durable before the session writes to the log. Always false on a device that keeps write
  // pointers.
  bool log_is_newer();
  // Whether the band can hold the transaction that the superblock names, or a newer one. False for
  // bands that a session began later and lost.
  bool may_hold_newest(const FoundBand& band) const;
  // The search for the newest transaction goes backwards from this block.
  std::uint32_t search_end(const FoundBand& band);
  // The last block that the last search_end() could not read.
  const std::optional<BandAddress>& unread() const { return unread_; }
  // Where the log continues in its newest band, if `newest` is the last part of the log. The size
  // of the band means nowhere, because a crash may have left blocks there.
  std::uint32_t append_place(const FoundBand& band, const PartPlace& newest) const;

 private:
  std::uint64_t durable_end() const;
  std::uint32_t walk(const FoundBand& band, std::uint32_t from);
  std::uint64_t written_at(const FoundBand& band, std::uint32_t rba);

  const Superblock& superblock_;
  const LogReader& log_;
  const bool keeps_write_pointers_;
  BackwardReader blocks_;
  std::uint32_t read_ahead_;  // blocks that the walk reads at once
  std::optional<BandAddress> unread_;
};

}  // namespace lazyfs::meta
