// Cleans up in the background: deletes orphans, also those of earlier sessions, resets and discards
// empty bands, and collects garbage when it is due.
#pragma once

#include <chrono>

#include "base/clock.h"
#include "data/band_table.h"
#include "device/discarding.h"
#include "fs/file/orphan_cleanup.h"
#include "fs/file/orphan_recovery.h"
#include "fs/volume/periodic_thread.h"
#include "gc/collector.h"
#include "gc/pacer.h"

namespace lazyfs::fs {

// Deleting and resetting wait until users are quiet, wake() was called, or space is short, but at
// most half a minute: a program that removes a tree need not share the CPUs with the deletion of
// its files, and orphans do not wait forever on a volume that is always busy.
// Thread-safe, but run_due() requires that the thread was not started.
class Housekeeper {
 public:
  Housekeeper(data::BandTable& bands, OrphanCleanup& orphans, OrphanRecovery& recovery,
              gc::Collector& collector, gc::Pacer& pacer, device::DiscardingDevice& disk,
              Clock& clock);

  Result<> start() { return thread_.start(); }
  void stop() { thread_.stop(); }
  void wake() { thread_.wake(); }
  // Does all that is due, on the caller's thread. Cleans at most one band. For mounts without
  // threads.
  void run_due();

 private:
  bool step(bool woken);
  bool is_deletion_due(bool woken, gc::CleanPriority priority) const;
  bool delete_some();

  data::BandTable& bands_;
  OrphanCleanup& orphans_;
  OrphanRecovery& recovery_;
  gc::Collector& collector_;
  gc::Pacer& pacer_;
  device::DiscardingDevice& disk_;
  Clock& clock_;
  std::chrono::nanoseconds last_deletion_;  // of the thread
  PeriodicThread thread_;  // last: it ends before what it uses
};

}  // namespace lazyfs::fs
