// The persistent cache of a drive-managed disk: a log of writes that have not reached their bands,
// the map of their extents, and the bands that they make dirty, oldest first. Holds no data; its
// memory is in proportion to the extents in the map. Not thread-safe.
//
// Invariants:
//   P1  extents in the map do not overlap, and none crosses the boundary of a band
//   P2  a band is in the queue exactly if it has an extent in the map, at the place of its first
//       write since it was clean
//   P3  the log's used part reaches from the first write of the oldest dirty band to the head
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

#include "sim/bands.h"

namespace lazyfs::sim {

class PersistentCache {
 public:
  // A dirty band, and what the map holds of it.
  struct DirtyBand {
    Band band;
    std::uint64_t extents = 0, sectors = 0;
    std::uint64_t first_sector = 0;  // the lowest one that is in the cache
    std::uint64_t log_sectors = 0;   // of the log that become free when the band is clean
  };
  // A part of a range of sectors: in the cache at a place of the log, or not.
  struct Piece {
    std::uint64_t sector = 0, sectors = 0;
    std::optional<std::uint64_t> log_sector;
  };

  PersistentCache(const Bands& bands, std::uint64_t log_sectors)
      : bands_(bands), log_sectors_(log_sectors) {}

  // Appends the sectors to the log; what the map held of them before is dead.
  void write(std::uint64_t sector, std::uint64_t sectors);
  // Wastes space at the head of the log.
  void skip(std::uint64_t sectors) { head_ += sectors; }
  // The sectors were written elsewhere or discarded.
  void forget(std::uint64_t sector, std::uint64_t sectors);
  // How many extents a write within one band adds to the map, at least.
  std::uint64_t new_extents(std::uint64_t sector, std::uint64_t sectors) const;
  // Returns the piece that begins at the sector. It has at most `sectors` sectors, and does not
  // pass the end of its band. REQUIRES: sectors > 0.
  Piece find(std::uint64_t sector, std::uint64_t sectors) const;

  // The band that became dirty first.
  std::optional<DirtyBand> oldest() const;
  // Removes the band's extents from the map: they are in the band now.
  void clean(const Band& band);

  std::uint64_t extents() const { return extents_; }
  std::uint64_t used_sectors() const;
  std::uint64_t log_sectors() const { return log_sectors_; }
  std::uint64_t dirty_bands() const { return dirty_.size(); }

 private:
  struct Extent {
    std::uint64_t sector, sectors, log_sector;
    std::uint64_t end() const { return sector + sectors; }
  };
  using Extents = std::vector<Extent>;  // in the order of their sectors
  struct Dirty {
    std::uint64_t sequence = 0;
    Extents extents;  // of one band
  };
  struct Queued {
    Band band;
    std::uint64_t sequence, first_log_sector;
  };
  Dirty& make_dirty(const Band& band);
  // Puts an extent into the map, in place of what the map holds of its sectors.
  void put(Dirty& dirty, const Extent& extent);
  // Removes what the map holds of the sectors up to `end`.
  void cut(Dirty& dirty, std::uint64_t sector, std::uint64_t end);
  const Dirty* dirty_band(const Band& band) const;
  void drop_from_queue() const;

  const Bands& bands_;
  const std::uint64_t log_sectors_;
  std::uint64_t head_ = 0;  // sectors appended or skipped since the beginning
  std::uint64_t sequence_ = 0;
  std::uint64_t extents_ = 0;
  std::unordered_map<std::uint64_t, Dirty> dirty_;  // by the band's first sector
  mutable std::deque<Queued> queue_;  // may have entries of bands cleaned since
};

}  // namespace lazyfs::sim
