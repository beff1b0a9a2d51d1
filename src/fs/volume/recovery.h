// What a mount does before the first operation: brings the bands' accounts and the device together,
// and lists the work that a crash has left.
#pragma once

#include <vector>

#include "base/result.h"
#include "data/band_table.h"
#include "device/device.h"
#include "fs/item/schema.h"
#include "meta/store/store.h"

namespace lazyfs::fs {

// Fills `bands` from the summaries. For each data band, by what the summary accounts and where the
// device's write pointer stands:
//   written but nothing live   reset, logs erased: the crash came before or within its reset
//   pointer ahead              the blocks between were appended, never recorded: recorded as lost
//   pointer behind             blocks that are referred to are not there: the band is set aside
// With `read_only` nothing is written; such bands are only set aside or sealed in memory.
Result<> recover_bands(device::Device& device, meta::Store& store, data::BandTable& bands,
                       bool read_only);

struct Orphan {
  InodeNo inode;
  OrphanRecord record;
};
Result<std::vector<Orphan>> read_orphans(meta::Store& store);

// What an unfinished repair has noted to be lost; once a mount has written, files may have gone
// whose blocks it would take for lost ones.
Result<> forget_lost_ranges(meta::Store& store);

Result<CounterRecord> read_counters(meta::Store& store);

}  // namespace lazyfs::fs
