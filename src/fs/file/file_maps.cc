#include "fs/file/file_maps.h"

#include <algorithm>

namespace lazyfs::fs {
namespace {

constexpr std::size_t kEntriesFreedAtOnce = 128;

}  // namespace

// The last entries that map blocks of [first, end), the very last one first.
Result<std::vector<MapEntry>> FileMaps::last_entries(InodeNo inode, std::uint64_t first,
                                                     std::uint64_t end, std::size_t at_most) {
  std::vector<MapEntry> entries;
  // An entry that begins earlier ends before `first`.
  const std::uint64_t lowest = first - std::min<std::uint64_t>(first, kMaxExtentBlocks - 1);
  while (entries.size() < at_most && end > lowest) {
    ASSIGN_OR_RETURN(const auto item, store_.last_in(key_of(inode, Kind::kExtent, lowest),
                                                     key_of(inode, Kind::kExtent, end - 1)));
    if (!item) break;
    ASSIGN_OR_RETURN(auto record, decode_map_record(item->value));
    MapEntry entry{item->key.offset, std::move(record)};
    if (entry.end() <= first) break;
    end = entry.file_block;
    entries.push_back(std::move(entry));
  }
  return entries;
}

Result<> FileMaps::free_blocks(Inode& inode, std::uint64_t first, std::uint64_t end) {
  std::size_t at_most = kEntriesFreedAtOnce;
  while (first < end) {  // each turn lowers `end`, or `at_most`
    ASSIGN_OR_RETURN(const auto entries, last_entries(inode.no, first, end, at_most));
    if (entries.empty()) return ok();
    const std::uint64_t begin = std::max(first, entries.back().file_block);
    MapBatch batch(store_, bands_, shared_);
    MapChange& change = batch.change(inode.no);
    TRY(change.unmap(begin, end - begin));
    batch.put_inode(inode, inode.record, inode.tree_size, change);
    const auto applied = batch.apply(meta::Reserve::kDelete);
    if (applied) {
      end = begin;
      continue;
    }
    if (applied.error() != Errc::kBatchTooLarge || entries.size() == 1) return applied;
    at_most = entries.size() / 2;  // the entries' blocks lie in many bands
  }
  return ok();
}

}  // namespace lazyfs::fs
