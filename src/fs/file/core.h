// What the parts of a mounted volume share.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"
#include "data/appender.h"
#include "data/band_table.h"
#include "data/page_pool.h"
#include "device/device.h"
#include "fs/inode/dirty_list.h"
#include "fs/inode/inode.h"
#include "fs/file/shared_extents.h"
#include "fs/space/stall_times.h"
#include "fs/volume/mount_options.h"
#include "meta/store/store.h"

namespace lazyfs::fs {

// Counters of work, for stats. Since the mount unless said otherwise.
struct Counters {
  std::atomic<std::uint64_t> user_blocks{0};       // data blocks appended for users
  std::atomic<std::uint64_t> inline_files{0};      // files written into the tree
  std::atomic<std::uint64_t> shared_blocks{0};     // that copies refer to instead of being written
  std::atomic<std::uint64_t> copy_steps{0};        // of copies of whole blocks, see FileCopier
  StallTimes stalls;  // of writers that waited for memory or space
  std::atomic<std::uint64_t> checksum_errors{0};
  std::atomic<std::uint64_t> read_errors{0};        // reads of file data that the device failed
  std::atomic<std::uint64_t> write_back_errors{0};  // inodes whose writing back failed, each time
};

// Constant after the mount, but for the states behind the references, each thread-safe by itself.
struct Core {
  device::Device& device;
  meta::Store& store;
  Clock& clock;
  const MountOptions& options;
  data::BandTable& bands;
  data::Appender& appender;
  data::PagePool& pages;
  InodeTable& inodes;
  SharedInodes& shared;
  DirtyList& dirty;
  Counters& counters;
};

}  // namespace lazyfs::fs
