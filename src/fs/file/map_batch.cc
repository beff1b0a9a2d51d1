#include "fs/file/map_batch.h"

#include <algorithm>

namespace lazyfs::fs {
namespace {

// A damaged inode may count fewer blocks than it maps.
std::uint64_t changed(std::uint64_t blocks, std::int64_t delta) {
  if (delta >= 0) return blocks + static_cast<std::uint64_t>(delta);
  return blocks - std::min(blocks, static_cast<std::uint64_t>(-delta));
}

}  // namespace

void MapBatch::put_inode(Inode& inode, const InodeRecord& record, std::uint64_t tree_size,
                         const MapChange& change) {
  inodes_.push_back({&inode, record, &change});
  inodes_.back().record.size = tree_size;
}

Result<> MapBatch::end_references() {
  for (MapChange& change : changes_) {
    for (const ReferenceRecord& reference : change.take_ended_references()) {
      TRY(shared_.remove(reference));
    }
  }
  return ok();
}

Result<> MapBatch::apply(meta::Reserve reserve) {
  TRY(end_references());
  for (Item& item : inodes_) {
    item.record.blocks = changed(item.record.blocks, item.change->blocks_delta());
    items_.put(key_of(item.inode->no, Kind::kInode), encode(item.record));
  }
  for (const MapChange& change : changes_) change.put_into(items_);
  shared_.put_into(items_);
  TRY(store_.try_apply(items_, reserve));

  for (const MapChange& change : changes_) change.account(bands_);
  shared_.account(bands_);
  for (const Item& item : inodes_) {
    Inode& inode = *item.inode;
    inode.assert_held();  // as put_inode() requires
    inode.record.blocks = item.record.blocks;
    inode.tree_size = item.record.size;
    ++inode.map_version;
  }
  return ok();
}

}  // namespace lazyfs::fs
