#include "fs/file/file_maps.h"

#include <algorithm>

namespace lazyfs::fs {
namespace {

constexpr std::size_t kEntriesFreedAtOnce = 128;

}  // namespace

// Where the last `at_most` entries begin that map blocks of [first, end); `first` if there are
// fewer.
Result<std::uint64_t> FileMaps::begin_of_last(InodeNo inode, std::uint64_t first,
                                              std::uint64_t end, std::size_t at_most) {
  // An entry that begins earlier ends before `first`.
  const std::uint64_t lowest = first - std::min<std::uint64_t>(first, kMaxExtentBlocks - 1);
  for (std::size_t found = 0; found < at_most; ++found) {
    if (end <= lowest) return first;
    ASSIGN_OR_RETURN(const auto item, store_.last_in(key_of(inode, Kind::kExtent, lowest),
                                                     key_of(inode, Kind::kExtent, end - 1)));
    if (!item) return first;
    end = item->key.offset;
  }
  return std::max(first, end);
}

Result<bool> FileMaps::free_in_parts(const Inode& inode, std::uint64_t first, std::uint64_t end,
                                     std::size_t max_parts, const FreePart& free_part) {
  for (std::size_t at_most = kEntriesFreedAtOnce, parts = 0; first < end;) {
    if (parts == max_parts) return false;
    std::uint64_t begin = first;
    {
      ReaderLock lock(inode.mu);
      ASSIGN_OR_RETURN(begin, begin_of_last(inode.no, first, end, at_most));
    }
    const auto freed = meta::when_room(store_, [&] { return free_part(begin, end); });
    if (freed) {
      end = begin;
      ++parts;
      continue;
    }
    if (freed.error() != Errc::kBatchTooLarge || at_most == 1) return fail(freed.error());
    at_most /= 2;  // the entries' blocks lie in many bands
  }
  return true;
}

Result<> FileMaps::free_blocks(Inode& inode, std::uint64_t first, std::uint64_t end,
                               meta::Reserve reserve) {
  MapBatch batch = this->batch();
  MapChange& change = batch.change(inode.no);
  TRY(change.unmap(first, end - first));
  if (change.blocks_delta() == 0) return ok();
  batch.put_inode(inode, inode.record, inode.tree_size, change);
  return batch.apply(reserve);
}

}  // namespace lazyfs::fs
