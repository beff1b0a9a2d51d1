#include "fs/file/page_reserver.h"

#include <algorithm>
#include <vector>

#include "fs/file/extent_map.h"

namespace lazyfs::fs {

Result<> PageReserver::reserve(const Inode& inode, std::uint64_t first, std::uint64_t end,
                               std::uint64_t pages) {
  if (pages == 0) return ok();
  if (!bands_.reserve(pages)) {
    ASSIGN_OR_RETURN(const std::uint64_t overwriting, count_overwritten(inode, first, end));
    if (!bands_.reserve_to_overwrite(pages - overwriting, overwriting)) {
      return fail(Errc::kNoSpace);
    }
  }
  if (store_.has_room_to_record(0)) return ok();
  bands_.release(pages);
  return fail(Errc::kNoSpace);
}

// How many of the pages replace blocks that have their space on the device.
Result<std::uint64_t> PageReserver::count_overwritten(const Inode& inode, std::uint64_t first,
                                                      std::uint64_t end) const {
  std::vector<bool> has_space(end - first);
  ASSIGN_OR_RETURN(const auto entries, read_map(store_, inode.no, first, end - first));
  for (const MapEntry& entry : entries) {
    if (const auto* reference = std::get_if<ReferenceRecord>(&entry.record)) {
      // Overwriting a block that others refer to frees nothing.
      ASSIGN_OR_RETURN(const auto exclusive, shared_.count_exclusive(*reference));
      if (exclusive < entry.blocks()) continue;
    }
    std::fill_n(has_space.begin() + static_cast<std::ptrdiff_t>(entry.file_block - first),
                entry.blocks(), true);
  }
  std::uint64_t count = 0;
  for (std::uint64_t block = first; block < end; ++block) {
    const bool is_buffered = inode.buffer->has(block);  // has_dirty() ones need no page
    count += !inode.buffer->has_dirty(block) && (is_buffered || has_space[block - first]);
  }
  return count;
}

}  // namespace lazyfs::fs
