// What `lazyfsctl stats` prints of a volume.
#pragma once

#include <string>
#include <string_view>

#include "base/time_histogram.h"
#include "data/appender.h"
#include "data/band_table.h"
#include "data/page_pool.h"
#include "device/discarding.h"
#include "fs/file/counters.h"
#include "fs/file/orphan_cleanup.h"
#include "fs/inode/dirty_list.h"
#include "fs/inode/inode.h"
#include "fs/item/volume_items.h"
#include "gc/collector.h"
#include "meta/store/store.h"

namespace lazyfs::fs {

// Reads the counters and states of the volume's parts. Thread-safe; figures read while others
// change them are of slightly different moments.
class VolumeStats {
 public:
  VolumeStats(const meta::Store& store, const data::BandTable& bands,
              const data::Appender& appender, const data::PagePool& pages, const DirtyList& dirty,
              const InodeTable& inodes, const OrphanCleanup& orphans,
              const gc::Collector& collector, const Counters& counters,
              const CounterRecord& at_mount, const TimeHistogram& stalls,
              const device::DiscardingDevice& disk)
      : store_(store),
        bands_(bands),
        appender_(appender),
        pages_(pages),
        dirty_(dirty),
        inodes_(inodes),
        orphans_(orphans),
        collector_(collector),
        counters_(counters),
        at_mount_(at_mount),
        stalls_(stalls),
        disk_(disk) {}

  // A JSON object, whose keys are INTERFACE: docs/stats.md.
  std::string json(std::string_view state) const;

 private:
  const meta::Store& store_;
  const data::BandTable& bands_;
  const data::Appender& appender_;
  const data::PagePool& pages_;
  const DirtyList& dirty_;
  const InodeTable& inodes_;
  const OrphanCleanup& orphans_;
  const gc::Collector& collector_;
  const Counters& counters_;
  const CounterRecord at_mount_;
  const TimeHistogram& stalls_;  // of writers that waited for memory or space
  const device::DiscardingDevice& disk_;
};

}  // namespace lazyfs::fs
