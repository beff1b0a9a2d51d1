// Ranges of a file: freeing their blocks, growing a file for them, finding data and holes.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "fs/file/core.h"
#include "fs/file/file_writer.h"

namespace lazyfs::fs {

// Thread-safe. Nothing here is atomic towards readers and writers of the same range: the kernel
// keeps those away.
class FileRanges {
 public:
  FileRanges(const Core& core, FileWriter& writer) : core_(core), writer_(writer) {}

  // As Volume::punch() and zero().
  Result<> punch(const InodeRef& inode, std::uint64_t offset, std::uint64_t length,
                 RangeFlags flags);
  Result<> zero(const InodeRef& inode, std::uint64_t offset, std::uint64_t length,
                RangeFlags flags);

  // Where data, or a hole, begins at `offset` or behind it; the end of the file counts as a hole.
  // kNoSuchRange: there is none, or `offset` is not inside the file.
  Result<std::uint64_t> find_data(Inode& inode, std::uint64_t offset);
  Result<std::uint64_t> find_hole(Inode& inode, std::uint64_t offset);

 private:
  Result<> grow(const InodeRef& inode, std::uint64_t size);
  Result<> clear(const InodeRef& inode, std::uint64_t offset, std::uint64_t end);
  Result<> clear_part(const InodeRef& inode, std::uint64_t offset, std::uint64_t end);
  Result<> free_whole_blocks(const InodeRef& inode, std::uint64_t first, std::uint64_t end);
  Result<> unmap(Inode& inode, std::uint64_t first, std::uint64_t end) REQUIRES(inode.mu);
  Result<> erase_inline(Inode& inode) REQUIRES(inode.mu);
  Result<> touch(const InodeRef& inode, RangeFlags flags);
  Result<bool> has_inline(Inode& inode) REQUIRES_SHARED(inode.mu);
  Result<std::uint64_t> end_of_data(Inode& inode, std::uint64_t block) REQUIRES_SHARED(inode.mu);

  const Core& core_;
  FileWriter& writer_;
};

}  // namespace lazyfs::fs
