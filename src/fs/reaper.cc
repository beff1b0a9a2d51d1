#include "fs/reaper.h"

#include "base/log.h"
#include "fs/file_writer.h"
#include "fs/write_back.h"

namespace lazyfs::fs {
namespace {

constexpr std::size_t kItemsABatch = 512;

bool is_extent(const meta::Item& item) {
  return item.key.kind == static_cast<std::uint8_t>(Kind::kExtent);
}

}  // namespace

void Reaper::add(InodeRef inode) {
  bool first = false;
  {
    MutexLock lock(mu_);
    first = queue_.empty();
    queue_.push_back(std::move(inode));
  }
  if (first) wake_();
}

std::size_t Reaper::waiting() const {
  MutexLock lock(mu_);
  return queue_.size();
}

void Reaper::drop_all() {
  std::deque<InodeRef> queue;
  {
    MutexLock lock(mu_);
    queue.swap(queue_);
  }
  for (InodeRef& inode : queue) {
    WriterLock lock(inode->mu);
    inode->gone = true;  // else it would come back here when the reference ends
  }
}

void Reaper::run(const Core& core) {
  for (;;) {
    InodeRef inode;
    {
      MutexLock lock(mu_);
      if (queue_.empty()) return;
      inode = std::move(queue_.front());
      queue_.pop_front();
    }
    const auto done = delete_inode(core, inode);
    if (!done) {
      log::error("inode {}: cannot be deleted: {}", inode->no.value, describe(done.error()));
    }
  }
}

Result<> delete_inode(const Core& core, const InodeRef& ref) {
  const WriteBackToken token(ref);
  Inode& inode = *ref;
  WriterLock lock(inode.mu);
  if (inode.gone) return ok();
  inode.gone = true;  // whatever happens: the orphan record sees to the rest at the next mount
  if (inode.buffer) core.bands.release(inode.buffer->drop_from(0));
  inode.record_dirty = false;

  for (;;) {
    // Everything that the inode owns but its own item and what the map needs to free blocks.
    ASSIGN_OR_RETURN(const auto items, core.store.scan(meta::Key{inode.no.value, 0, 0},
                                                       meta::Key{inode.no.value, 0xFF, meta::kMaxOffset},
                                                       kItemsABatch));
    const bool complete = items.size() < kItemsABatch;
    meta::Batch batch;
    MapChange change(core.store, inode.no);
    std::uint64_t first = meta::kMaxOffset, end = 0;
    for (const meta::Item& item : items) {
      const bool own = item.key == key_of(inode.no, Kind::kInode);
      if (own && !complete) continue;
      if (!is_extent(item)) {
        batch.erase(item.key);
        continue;
      }
      ASSIGN_OR_RETURN(const auto extent, decode_extent(item.value));
      first = std::min(first, item.key.offset);
      end = std::max(end, item.key.offset + extent.blocks());
    }
    if (first < end) TRY(change.unmap(first, end - first));
    change.put_into(batch);
    if (complete) batch.erase(key_of(kVolumeOwner, Kind::kOrphan, inode.no.value));
    TRY(core.store.apply(batch, meta::Reserve::kDelete));
    change.account(core.bands);
    if (complete) return ok();
  }
}

}  // namespace lazyfs::fs
