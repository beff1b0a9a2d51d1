// Changes the contents of files: writing into the write buffer, truncating.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/result.h"
#include "fs/file/core.h"
#include "fs/file/file_reader.h"

namespace lazyfs::fs {

// Thread-safe.
class FileWriter {
 public:
  // `make_room` is called without locks when no space can be reserved; false: nothing helped.
  // `throttle` is called without locks before each write, with its bytes, and may wait for memory
  // and for the collector; it fails when memory is full of what cannot be written.
  FileWriter(const Core& core, FileReader& reader, std::function<bool()> make_room,
             std::function<Result<>(std::size_t)> throttle)
      : core_(core),
        reader_(reader),
        make_room_(std::move(make_room)),
        throttle_(std::move(throttle)) {}

  // Space is reserved here, so that writing back later cannot fail for it. All or nothing.
  Result<> write(const InodeRef& inode, std::uint64_t offset, std::span<const std::byte> from,
                 bool clear_set_id);
  // Sets the size; what is cut off is freed, what is added reads as zeros. After an error either
  // nothing has changed, or the size has and some of what was cut off is freed later (I7).
  Result<> truncate(const InodeRef& inode, std::uint64_t size);

 private:
  enum class Step : std::uint8_t { kDone, kNeedsSpace, kNeedsBlocks, kNeedsCut };
  struct Write;

  Result<Step> try_write(const InodeRef& inode, Write& write);
  Result<std::uint64_t> count_overwritten(const Inode& inode, const Write& write) const
      REQUIRES_SHARED(inode.mu);
  Result<> load_missing(Inode& inode, Write& write);
  Result<> truncate_locked(const InodeRef& inode, std::uint64_t size, std::uint64_t last_size,
                           const FileReader::Block& last);
  Result<> put_size(Inode& inode, const InodeRecord& record) REQUIRES(inode.mu);
  Result<> finish_cut(const InodeRef& inode);

  const Core& core_;
  FileReader& reader_;
  const std::function<bool()> make_room_;
  const std::function<Result<>(std::size_t)> throttle_;
};

// The size of a regular file; kInvalid: it is none, kStale: it is gone. Takes the inode's lock.
Result<std::uint64_t> file_size(Inode& inode);

// A program that may not keep set-ID bits loses them: set-user-ID always, set-group-ID when the
// group may execute (else the bit means something else).
void drop_set_id(InodeRecord& record);

// Frees what an inode that is uncut has behind its end, and ends its orphan record. Requires its
// token.
Result<> free_behind_end(const Core& core, Inode& inode) REQUIRES(inode.mu);
// Goes on with a truncation of a file that a crash has interrupted. If that fails the inode stays
// uncut (I7), and its end is freed when it is written back.
Result<> resume_cut(const Core& core, const InodeRef& inode);

}  // namespace lazyfs::fs
