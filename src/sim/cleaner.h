// Cleans the bands that a persistent cache makes dirty, the oldest first, in slices. Not
// thread-safe.
//
// Invariants:
//   L1  a band that is being cleaned stays in the map until its cleaning is complete
//   L2  what cleaning has earned so far is the share of the band's extents, and of the log's
//       space, that its progress stands for
#pragma once

#include <cstdint>
#include <optional>

#include "sim/mechanics.h"
#include "sim/persistent_cache.h"

namespace lazyfs::sim {

struct CleaningParameters {
  // True: a band is cleaned in place, so its contents go to a scratch area first. False: it is
  // written to a free band.
  bool is_static = true;
  double extent_ms = 0;              // to read one extent from the cache, in the best order
  std::uint64_t sorted_extents = 0;  // this many are put into the best order
  double further_extent_ms = 0;      // to read each further extent
  double scan_ms = 0;                // to read the whole cache instead
  double position_ms = 0;            // to bring the heads to the cache, the scratch area or a band
};

// How long cleaning takes, and how many bytes it moves.
struct CleaningCost {
  double time_ms = 0;
  std::uint64_t moved_sectors = 0;
};

// Static mapping: the band is read from its first changed sector on and merged with the cached
// extents; sectors that the cache does not hold go to the scratch area; then this part of the band
// is written. Dynamic mapping: the whole band is read, and written once. `shift`: the sector of the
// geometry where the band with sector 0 begins.
CleaningCost cleaning_cost(const PersistentCache::DirtyBand& dirty, const Geometry& geometry,
                           std::uint64_t shift, double revolution_ms,
                           const CleaningParameters& parameters);

class Cleaner {
 public:
  struct Counters {
    std::uint64_t bands = 0, moved_sectors = 0;
  };

  Cleaner(PersistentCache& cache, const Mechanics& mechanics, std::uint64_t shift,
          const CleaningParameters& parameters)
      : cache_(cache), mechanics_(mechanics), shift_(shift), parameters_(parameters) {}

  // Cleans for at most `at_most_ms`. Returns how long it has worked: less if no dirty band is left.
  double work(double at_most_ms);
  // L2: extents and sectors of the log that can be used although their band is not clean yet.
  double earned_extents() const;
  double earned_log_sectors() const;
  const Counters& counters() const { return counters_; }

 private:
  struct Job {
    PersistentCache::DirtyBand dirty;
    CleaningCost cost;
    double done_ms = 0;
    double share() const { return done_ms / cost.time_ms; }
  };
  bool begin();
  void complete();

  PersistentCache& cache_;
  const Mechanics& mechanics_;
  const std::uint64_t shift_;
  const CleaningParameters& parameters_;
  std::optional<Job> job_;
  Counters counters_;
};

}  // namespace lazyfs::sim
