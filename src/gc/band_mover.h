// Moves live blocks out of a band.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "base/result.h"
#include "data/appender.h"
#include "data/band_table.h"
#include "device/device.h"
#include "gc/counters.h"
#include "gc/port.h"

namespace lazyfs::gc {

// Moving is optimistic: blocks are copied without a lock; then Port::remap_if_unchanged() maps the
// blocks that their owner has not replaced meanwhile to the copies. A crash at any step leaves
// either the old or the new place in the map.
//
// Not thread-safe: the collector's work_mu_ guards it.
class BandMover {
 public:
  BandMover(Port& port, device::Device& device, data::BandTable& bands, data::Appender& appender,
            Counters& counters);

  // Moves a unit of work: about unit_blocks() live blocks from `from_rba` on. Returns where the
  // next unit begins; nullopt if none remains, or if damaged metadata ends the move. Unless
  // `may_begin_last`, it stops before an append that would begin the last free band
  // (would_begin_last_band()), and returns `from_rba`. Blocks that cannot be moved because they or
  // their metadata cannot be read are no error: see has_unreadable().
  Result<std::optional<std::uint32_t>> move_unit(BandId band, std::uint32_t from_rba,
                                                 bool may_begin_last = false);
  // Moves all live blocks of the band to one band that is begun for them. Remaps nothing before
  // everything is copied, so a crash during the copying leaves the new band without live blocks.
  // Returns false, without moving anything, if no band has room for `live_blocks`.
  Result<bool> move_whole(BandId band, std::uint64_t live_blocks);
  // Moves unit by unit to the end of the band. False when the rest would begin the last free band.
  Result<bool> move_all(BandId band, std::uint32_t from_rba = 0);
  // Seals the band in the band table and on the device. Returns what BandTable::seal() returns.
  bool seal(BandId band);
  // Whether the next append of moved blocks would begin the last free band, on a device without
  // write pointers (C3 in collector.h).
  bool would_begin_last_band() const;
  // At most 8 MiB, and a 16th of a band.
  std::size_t unit_blocks() const { return unit_blocks_; }

  // ---- bands with blocks that could not be moved, as they or their metadata cannot be read ----
  bool has_unreadable(BandId band) const { return unreadable_.contains(band); }
  bool knows_unreadable() const { return !unreadable_.empty(); }
  // False when there was nothing to forget.
  bool forget_unreadable(BandId band) {
    damaged_.erase(band);
    return unreadable_.erase(band) > 0;
  }
  // For a band whose move has ended early: forgets what was unreadable in it, so that FailedBands
  // moves all of it. False when there was nothing to forget.
  bool leave_to_failed_bands(BandId band);
  // If the band has unreadable blocks, sets it aside with these blocks: it takes no appends any
  // more. Else returns false.
  bool set_aside_if_unreadable(BandId band);
  // Those of them whose metadata could not be read.
  const std::set<BandId>& damaged() const { return damaged_; }
  // Reads the metadata of all live blocks. True when some cannot be read: then the band is one of
  // damaged(), and moving the other blocks would not empty it.
  bool examine(BandId band);
  // Reads all live blocks. False when some, or their metadata, cannot be read: has_unreadable().
  bool can_read(BandId band);

 private:
  struct Copy;  // a live run, its contents, and its new place
  struct Unit;  // copies, and the memory of their contents

  Port::Visit visit(BandId band, std::uint32_t from_rba, std::size_t at_least);
  void note_damage(BandId band);
  Unit read(std::span<const LiveRun> runs);
  void read_run(const LiveRun& whole, std::span<std::byte> to, std::vector<Copy>& copies);
  enum class Appended : std::uint8_t { kAll, kPart, kDamaged };
  Result<Appended> append(std::vector<Copy>& copies, bool may_begin_last);
  bool has_begun_last_band(const data::Lease& lease) const;
  Result<> place(data::Lease& lease, std::span<Copy> copies);
  Result<bool> remap(std::span<Copy> copies, data::Lease& lease);

  Port& port_;
  device::Device& device_;
  data::BandTable& bands_;
  data::Appender& appender_;
  Counters& counters_;
  const std::size_t unit_blocks_;
  std::set<BandId> unreadable_;
  std::set<BandId> damaged_;  // a subset
};

}  // namespace lazyfs::gc
