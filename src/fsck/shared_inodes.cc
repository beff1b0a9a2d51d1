#include "fsck/shared_inodes.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "fs/file/extent_map.h"
#include "fsck/inline_items.h"

namespace lazyfs::fsck {

void SharedInodes::settle(InodeFacts& inode) {
  const bool is_target = c_.is_target(inode.inode);
  const bool is_misfit = std::ranges::binary_search(c_.misfits, inode.inode);
  const bool is_shared = inode.type == kSharedType;
  if (!is_shared && (inode.type != kRegularType || !(is_target || is_misfit))) return;
  const bool has_name = std::ranges::binary_search(c_.names, inode.inode, {}, &NameFacts::inode);
  if (!is_target || has_name) {
    make_file(inode, has_name);
    if (is_shared && !c_.repairs()) add_references(inode.inode);
  } else if (!is_shared || is_misfit) {
    make_shared(inode);
  }
}

void SharedInodes::make_shared(InodeFacts& inode) {
  const InodeNo no = inode.inode;
  if (inode.type != kSharedType && !inode.is_mended) {
    c_.finding(Action::kCorrect, "Inode {} is a {}, but has no name, and files refer to its blocks",
               no.value, type_name(inode.type));
  }
  inode.type = kSharedType;
  remove_items(no, Kind::kXattrName, Kind::kXattrValue, "attributes");
  remove_items(no, Kind::kInline, Kind::kInline, "inline data");
  bool has_reference = false;
  c_.visit_kind(no, Kind::kExtent, [&](const meta::Item& item) {
    if (!reference_of(item)) return;
    if (!std::exchange(has_reference, true)) refuse(no, "a reference");
    if (c_.repairs()) c_.erase(item.key);
  });
  auto record = c_.repairs() ? c_.inode(no) : std::nullopt;
  if (!record) return;
  record->mode = kSharedMode;
  c_.put_inode(no, *record);
}

void SharedInodes::refuse(InodeNo inode, std::string_view what) {
  c_.finding(Action::kRemove, "Inode {} is a {}, but has {}", inode.value, type_name(kSharedType),
             what);
}

void SharedInodes::remove_items(InodeNo inode, Kind first, Kind last, std::string_view what) {
  if (!has_items(inode, first, last)) return;
  refuse(inode, what);
  if (c_.repairs()) erase_items(inode, first, last);
}

void SharedInodes::make_file(InodeFacts& inode, bool has_name) {
  const InodeNo no = inode.inode;
  const bool called_itself_shared = inode.type == kSharedType;
  if (called_itself_shared) {
    if (!has_name && !has_items(no, Kind::kInline, Kind::kExtent)) return remove(no);
    if (!inode.is_mended) {
      c_.finding(Action::kCorrect, "Inode {} calls itself shared, but {}", no.value,
                 has_name ? "has a name" : "no file refers to its blocks");
    }
  } else if (has_items(no, Kind::kReferenceCount, Kind::kReferenceCount)) {
    c_.finding(Action::kRemove, "Inode {} is a file, but has reference counts", no.value);
  }
  inode.type = kRegularType;
  if (c_.repairs()) write_file(no, called_itself_shared);
}

// A check has taken the inode for a shared one until now.
void SharedInodes::add_references(InodeNo inode) {
  c_.visit_kind(inode, Kind::kExtent, [&](const meta::Item& item) {
    if (const auto reference = reference_of(item)) c_.references.add(*reference);
  });
}

void SharedInodes::write_file(InodeNo inode, bool called_itself_shared) {
  erase_items(inode, Kind::kReferenceCount, Kind::kReferenceCount);
  auto record = c_.inode(inode);
  if (!record) return;
  const std::uint64_t end = end_of(inode);
  const bool reaches_past_end = !c_.orphan_work(inode) && end > blocks_for(record->size);
  if (called_itself_shared) {
    if (reaches_past_end) record->size = end * kBlockBytes;
    if (end > 0) InlineItems::erase(c_, inode, 0, end);  // readers see the extents
    record->size = std::max(record->size, InlineItems::end_of(c_, inode));
  }
  if (reaches_past_end && !called_itself_shared) {
    c_.finding(Action::kTruncate, "Inode {} has {} bytes, but an extent reaches to block {}",
               inode.value, record->size, end);
    truncate(inode, blocks_for(record->size));
  }
  if (called_itself_shared) {
    record->mode = S_IFREG | 0600;
    record->size = std::min(record->size, largest_size(record->mode));
  }
  c_.put_inode(inode, *record);
}

// Removes blocks past the end of a file whose size is known, even if other files refer to them.
void SharedInodes::truncate(InodeNo inode, std::uint64_t limit) {
  const std::uint64_t from = limit - std::min<std::uint64_t>(limit, kMaxExtentBlocks - 1);
  c_.visit(key_of(inode, Kind::kExtent, from), key_of(inode, Kind::kExtent, meta::kMaxOffset), "",
           [&](const meta::Item& item) {
             auto record = decode_map_record(item.value);
             const std::uint64_t first = item.key.offset;
             if (!record || first + blocks_of(*record) <= limit) return;
             if (const auto* extent = std::get_if<ExtentRecord>(&*record)) {
               c_.touch(extent->at.band);
             }
             if (first >= limit) return c_.erase(item.key);
             c_.put(item.key, encode(part_of(MapEntry{first, std::move(*record)}, 0,
                                             static_cast<std::uint32_t>(limit - first))
                                         .record));
           });
}

void SharedInodes::remove(InodeNo inode) {
  removed_.push_back(inode);
  if (!c_.finding(Action::kRemove, "Shared-extent inode {} has no blocks", inode.value)) return;
  erase_items(inode, Kind::kInode, Kind{255});
}

bool SharedInodes::has_items(InodeNo inode, Kind first, Kind last) {
  const auto found =
      c_.store.last_in(key_of(inode, first), key_of(inode, last, meta::kMaxOffset));
  if (!found) c_.unreadable(key_of(inode, first), found.error());
  return found && found->has_value();
}

void SharedInodes::erase_items(InodeNo inode, Kind first, Kind last) {
  c_.visit(key_of(inode, first), key_of(inode, last, meta::kMaxOffset), "",
           [&](const meta::Item& item) { c_.erase(item.key); });
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
