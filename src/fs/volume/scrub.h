// Scrubbing: reads file data from the device, past every cache, to find what no longer matches its
// checksums.
#pragma once

#include <cstddef>

#include "base/result.h"
#include "data/band_table.h"
#include "device/device.h"
#include "fs/file/counters.h"
#include "fs/file/shared_extents.h"
#include "fs/inode/inode.h"
#include "fs/volume/volume.h"
#include "meta/store/store.h"

namespace lazyfs::fs {

// Thread-safe; files may change meanwhile. Blocks are read without locks, and pinned.
class Scrubber {
 public:
  Scrubber(device::Device& device, meta::Store& store, data::BandTable& bands, InodeTable& inodes,
           SharedExtents& shared, Counters& counters)
      : device_(device),
        store_(store),
        bands_(bands),
        inodes_(inodes),
        shared_(shared),
        counters_(counters) {}

  // As Volume::scrub(). One step reads at most 32 MiB and 32,768 items, and a little more.
  Result<ScrubStep> step(ScrubPlace from, std::size_t max_damaged);

 private:
  class Step;

  device::Device& device_;
  meta::Store& store_;
  data::BandTable& bands_;
  InodeTable& inodes_;
  SharedExtents& shared_;
  Counters& counters_;
};

}  // namespace lazyfs::fs
