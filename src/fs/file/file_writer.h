// Writes into files: from the caller's memory to the inode's write buffer.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "data/page_pool.h"
#include "fs/file/file_reader.h"
#include "fs/file/page_reserver.h"
#include "fs/file/truncation.h"
#include "fs/inode/dirty_list.h"
#include "fs/inode/inode.h"

namespace lazyfs::fs {

// A write goes one way: throttle; load the blocks that it covers in part, without a lock; then,
// under the inode's lock, reserve space and put the bytes into the buffer. It begins again if
// the map has changed between the last two steps, or if space had to be made.
// Thread-safe.
class FileWriter {
 public:
  FileWriter(FileReader& reader, Truncation& truncation, PageReserver& reserver,
             data::PagePool& pages, DirtyList& dirty, Clock& clock)
      : reader_(reader),
        truncation_(truncation),
        reserver_(reserver),
        pages_(pages),
        dirty_(dirty),
        clock_(clock) {}

  // Writes all of `from`. After an error a part may have been written; a write that touches at most
  // 256 blocks is done as a whole or not at all. Space is reserved here, so that write-back cannot
  // fail for lack of it. REQUIRES: the mount is writable. Errors: kNoSpace, kFileTooBig, kStale,
  // kInvalid (no regular file), kLogFailed (nothing can be written any more), and those of reading
  // blocks and of Truncation::finish().
  Result<> write(const InodeRef& inode, std::uint64_t offset, std::span<const std::byte> from,
                 WriteFlags flags);

 private:
  struct Write;
  using OldBlocks = std::vector<std::pair<std::uint64_t, const FileReader::Block*>>;

  std::vector<std::uint64_t> blocks_needed(const Inode& inode, const Write& write) const
      REQUIRES_SHARED(inode.mu);
  Result<> write_piece(const InodeRef& inode, std::uint64_t offset,
                       std::span<const std::byte> from, WriteFlags flags);
  Result<> load_blocks(const InodeRef& inode, Write& write);
  static void put_into_buffer(data::WriteBuffer& buffer, const Write& write,
                              const OldBlocks& old);
  Result<bool> store(const InodeRef& inode, const Write& write);

  FileReader& reader_;
  Truncation& truncation_;
  PageReserver& reserver_;
  data::PagePool& pages_;
  DirtyList& dirty_;
  Clock& clock_;
};

}  // namespace lazyfs::fs
