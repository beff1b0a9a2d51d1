// Writes into files: from the caller's memory to the inode's write buffer.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "data/band_table.h"
#include "data/page_pool.h"
#include "fs/file/file_reader.h"
#include "fs/file/shared_extents.h"
#include "fs/file/truncation.h"
#include "fs/inode/dirty_list.h"
#include "fs/inode/inode.h"
#include "meta/store/store.h"

namespace lazyfs::fs {

// A write goes one way: throttle; load the blocks that it covers in part, without a lock; then,
// under the inode's lock, reserve space and put the bytes into the buffer. It begins again if
// the map has changed between the last two steps, or if space had to be made.
// Thread-safe.
class FileWriter {
 public:
  // The functions are called without locks. `throttle(bytes)` is called before each write. It may
  // wait for memory and for the collector, and fails if memory is full of data that cannot be
  // written back. `make_space()` is called if no space can be reserved, and returns false if it
  // freed none.
  struct Pressure {
    std::function<Result<>(std::size_t)> throttle;
    std::function<bool()> make_space;
  };
  FileWriter(meta::Store& store, FileReader& reader, Truncation& truncation, SharedExtents& shared,
             data::BandTable& bands, data::PagePool& pages, DirtyList& dirty, Clock& clock,
             Pressure pressure)
      : store_(store),
        reader_(reader),
        truncation_(truncation),
        shared_(shared),
        bands_(bands),
        pages_(pages),
        dirty_(dirty),
        clock_(clock),
        pressure_(std::move(pressure)) {}

  // Writes all of `from`. After an error a part may have been written; a write that touches at most
  // 256 blocks is done as a whole or not at all. Space is reserved here, so that write-back cannot
  // fail for lack of it. REQUIRES: the mount is writable. Errors: kNoSpace, kFileTooBig, kStale,
  // kInvalid (no regular file), kLogFailed (nothing can be written any more), and those of reading
  // blocks and of Truncation::finish().
  Result<> write(const InodeRef& inode, std::uint64_t offset, std::span<const std::byte> from,
                 WriteFlags flags);

 private:
  enum class Stored : std::uint8_t { kDone, kMapChanged, kNoSpace };
  struct Write;

  std::vector<std::uint64_t> blocks_needed(const Inode& inode, const Write& write) const
      REQUIRES_SHARED(inode.mu);
  Result<> write_piece(const InodeRef& inode, std::uint64_t offset,
                       std::span<const std::byte> from, WriteFlags flags);
  Result<> load_blocks(const InodeRef& inode, Write& write);
  Result<Stored> store(const InodeRef& inode, const Write& write);
  Result<bool> reserve(const Inode& inode, const Write& write, std::uint64_t pages)
      REQUIRES(inode.mu);
  Result<std::uint64_t> count_overwritten(const Inode& inode, const Write& write) const
      REQUIRES_SHARED(inode.mu);

  meta::Store& store_;
  FileReader& reader_;
  Truncation& truncation_;
  SharedExtents& shared_;
  data::BandTable& bands_;
  data::PagePool& pages_;
  DirtyList& dirty_;
  Clock& clock_;
  const Pressure pressure_;
};

}  // namespace lazyfs::fs
