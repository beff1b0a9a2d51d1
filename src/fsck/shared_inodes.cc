#include "fsck/shared_inodes.h"

#include <sys/stat.h>

#include <algorithm>

#include "fs/file/extent_map.h"

namespace lazyfs::fsck {

void SharedInodes::settle(InodeFacts& inode) {
  const bool is_target = c_.is_target(inode.inode);
  const bool is_counted = std::ranges::binary_search(c_.counted, inode.inode);
  if (inode.type != kSharedType && (inode.type != kRegularType || !(is_target || is_counted))) {
    return;
  }
  const bool has_name = std::ranges::binary_search(c_.names, inode.inode, {}, &NameFacts::inode);
  if (is_target && !has_name) {
    make_shared(inode);
  } else {
    make_file(inode, has_name);
  }
}

void SharedInodes::make_shared(InodeFacts& inode) {
  auto record = c_.inode(inode.inode);
  if (!record) return;
  if (record->mode != kSharedMode) {
    c_.repaired("Inode {} was a {}, but files refer to its blocks: it is shared",
                inode.inode.value, type_name(inode.type));
    record->mode = kSharedMode;
    c_.put_inode(inode.inode, *record);
  }
  inode.type = kSharedType;
  erase_items(inode.inode, Kind::kXattrName, Kind::kInline, "attributes or inline data");
  c_.visit_kind(inode.inode, Kind::kExtent, [&](const meta::Item& item) {
    if (!reference_of(item)) return;
    c_.repaired("Shared-extent inode {} had a reference at block {}: removed", inode.inode.value,
                item.key.offset);
    c_.erase(item.key);
  });
}

void SharedInodes::make_file(InodeFacts& inode, bool has_name) {
  erase_items(inode.inode, Kind::kReferenceCount, Kind::kReferenceCount, "reference counts");
  auto record = c_.inode(inode.inode);
  if (!record) return;
  const std::uint64_t end = end_of(inode.inode);
  const bool has_size = record->mode != kSharedMode;
  if (record->mode == kSharedMode) {
    if (!has_name && end == 0 && !c_.get(key_of(inode.inode, Kind::kInline))) {
      return remove(inode);
    }
    c_.repaired("Inode {} called itself shared, but {}: it is a file", inode.inode.value,
                has_name ? "has a name" : "no file refers to its blocks");
    record->mode = S_IFREG | 0600;
  }
  if (!c_.orphan_work(inode.inode) && end > blocks_for(record->size)) {
    if (has_size) {
      truncate(inode.inode, blocks_for(record->size));
    } else {
      record->size = end * kBlockBytes;
    }
  }
  c_.put_inode(inode.inode, *record);
  inode.type = kRegularType;
}

// A file whose size is known keeps no blocks past its end, also where other files refer to them.
void SharedInodes::truncate(InodeNo inode, std::uint64_t limit) {
  const std::uint64_t from = limit - std::min<std::uint64_t>(limit, kMaxExtentBlocks - 1);
  c_.visit(key_of(inode, Kind::kExtent, from), key_of(inode, Kind::kExtent, meta::kMaxOffset), "",
           [&](const meta::Item& item) {
             auto record = decode_map_record(item.value);
             const std::uint64_t first = item.key.offset;
             if (!record || first + blocks_of(*record) <= limit) return;
             c_.repaired("Inode {}: what it had at file block {} lay past the end: truncated",
                         inode.value, first);
             if (first >= limit) return c_.erase(item.key);
             c_.put(item.key, encode(part_of(MapEntry{first, std::move(*record)}, 0,
                                             static_cast<std::uint32_t>(limit - first))
                                         .record));
           });
}

void SharedInodes::remove(const InodeFacts& inode) {
  c_.repaired("Shared-extent inode {} had no blocks: removed", inode.inode.value);
  erase_items(inode.inode, Kind::kXattrName, Kind{255}, "attributes");
  c_.erase(key_of(inode.inode, Kind::kInode));
  removed_.push_back(inode.inode);
}

void SharedInodes::erase_items(InodeNo inode, Kind first, Kind last, std::string_view what) {
  bool any = false;
  c_.visit(key_of(inode, first), key_of(inode, last, meta::kMaxOffset), "",
           [&](const meta::Item& item) {
             c_.erase(item.key);
             any = true;
           });
  if (any) c_.repaired("Inode {} had {}, which it cannot have: removed", inode.value, what);
}

// The block after the last one that it maps.
std::uint64_t SharedInodes::end_of(InodeNo inode) {
  const auto last = c_.store.last_in(key_of(inode, Kind::kExtent),
                                     key_of(inode, Kind::kExtent, meta::kMaxOffset));
  if (!last) c_.fail_with(last.error());
  if (!last || !*last) return 0;
  const auto record = decode_map_record((**last).value);
  return record ? (**last).key.offset + blocks_of(*record) : 0;
}

void SharedInodes::forget_removed() {
  std::ranges::sort(removed_);
  std::erase_if(c_.inodes, [&](const InodeFacts& inode) {
    return std::ranges::binary_search(removed_, inode.inode);
  });
}

}  // namespace lazyfs::fsck
