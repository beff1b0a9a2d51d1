#include "fsck/lost_record.h"

#include <sys/stat.h>

#include <algorithm>

#include "fsck/inline_items.h"

namespace lazyfs::fsck {

bool LostRecord::has_items(Kind first, Kind last) {
  const auto found = c_.store.last_in(key_of(no_, first), key_of(no_, last, meta::kMaxOffset));
  if (!found) c_.fail_with(found.error());
  return found && found->has_value();
}

std::uint32_t LostRecord::mode_by_items() {
  if (has_items(Kind::kDentryName, Kind::kDentrySeq)) return S_IFDIR | 0700;
  if (has_items(Kind::kSymlink, Kind::kSymlink)) return S_IFLNK | 0777;
  const bool is_shared =
      c_.is_target(no_) || has_items(Kind::kReferenceCount, Kind::kReferenceCount);
  return is_shared ? kSharedMode : S_IFREG | 0600;
}

std::uint64_t LostRecord::size_by_items() {
  std::uint64_t end = 0;
  const auto last = c_.store.last_in(key_of(no_, Kind::kExtent),
                                     key_of(no_, Kind::kExtent, blocks_for(kMaxFileBytes)));
  if (last && *last) {
    const auto record = decode_map_record((**last).value);
    if (record) end = ((**last).key.offset + blocks_of(*record)) * kBlockBytes;
  }
  return std::max(end, InlineItems::end_of(c_, no_));
}

InodeRecord LostRecord::rebuilt() {
  InodeRecord r;
  r.mode = mode_by_items();
  r.links = 1;
  if (S_ISDIR(r.mode)) r.name_seed = c_.root_seed;
  r.access = r.modification = r.change = r.birth = c_.now;
  if (S_ISREG(r.mode) || r.mode == kSharedMode) {
    r.size = std::min(size_by_items(), largest_size(r.mode));
  }
  return r;
}

std::uint32_t LostRecord::mode_beside(const InodeRecord& record) {
  if (S_ISREG(record.mode) || no_ == kRootInode) return record.mode;
  if (record.mode != kSharedMode && !has_items(Kind::kExtent, Kind::kExtent)) return record.mode;
  const std::uint32_t mode = mode_by_items();
  const bool has_blocks = S_ISREG(mode) || mode == kSharedMode;
  const bool agrees = record.mode == kSharedMode ? has_blocks : mode != kSharedMode;
  return agrees ? record.mode : mode;
}

InodeRecord new_root(const Context& c) {
  InodeRecord r;
  r.mode = S_IFDIR | 0755;
  r.links = 2;
  r.parent = kRootInode;
  r.access = r.modification = r.change = r.birth = c.now;
  r.name_seed = c.root_seed;
  return r;
}

}  // namespace lazyfs::fsck
