// Frees space at once: for a writer that finds none, and for `lazyfsctl gc`.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "base/clock.h"
#include "base/rate_limit.h"
#include "base/result.h"
#include "base/time_histogram.h"
#include "data/band_table.h"
#include "fs/file/orphan_cleanup.h"
#include "fs/file/orphan_recovery.h"
#include "fs/file/write_back.h"
#include "fs/volume/throttle.h"
#include "gc/collector.h"
#include "meta/store/store.h"

namespace lazyfs::fs {

// Thread-safe; to be called without locks.
class SpaceMaker {
 public:
  // `kernel_forgets`: another thread than the one that asks for space gives lookups back.
  SpaceMaker(meta::Store& store, data::BandTable& bands, OrphanCleanup& orphans,
             OrphanRecovery& recovery, WriteBack& write_back, gc::Collector& collector,
             Throttle& throttle, TimeHistogram& stalls, Clock& clock, bool kernel_forgets);

  // Finishes pending deletions and write-back, and makes the metadata log give back bands where few
  // blocks are available. True if blocks were freed or have died, or if the log now has room for a
  // write that it may have lacked; another writer may have taken them meanwhile.
  bool make_space();
  // Calls `change`, which uses Store::try_apply(), without locks. While the metadata log has no
  // room for the change and room can be made, makes room and calls it again.
  template <class Change>
  std::invoke_result_t<Change> with_log_room(const Change& change) {
    auto changed = meta::when_room(store_, change);
    for (int tries = 0;
         !changed && changed.error() == Errc::kLogFull && make_log_room(tries); ++tries) {
      changed = meta::when_room(store_, change);
    }
    if (!changed && changed.error() == Errc::kLogFull) note_full();
    return changed;
  }
  // To be called whenever a name was removed: its inode's space may be freed soon.
  void note_unlink() { last_unlink_ns_ = clock_.monotonic().count(); }
  // What collect_garbage() does before it cleans.
  Result<> prepare_cleaning();
  // Deletes, writes back, shrinks the metadata log, and cleans every band that is worth it.
  Result<> collect_garbage();

 private:
  bool make_log_room(int tries);

  void note_full();

  meta::Store& store_;
  data::BandTable& bands_;
  OrphanCleanup& orphans_;
  OrphanRecovery& recovery_;
  WriteBack& write_back_;
  gc::Collector& collector_;
  Throttle& throttle_;
  TimeHistogram& stalls_;
  Clock& clock_;
  const bool kernel_forgets_;
  RateLimit full_{std::chrono::minutes(1)};
  std::atomic<std::int64_t> last_unlink_ns_{std::numeric_limits<std::int64_t>::min() / 2};
};

}  // namespace lazyfs::fs
