#include "fs/file/reaper.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "base/log.h"
#include "fs/file/file_writer.h"
#include "fs/file/write_back.h"

namespace lazyfs::fs {
namespace {

constexpr std::size_t kItemsABatch = 512;
constexpr std::size_t kInodesATime = 64;

bool is_extent(const meta::Item& item) {
  return item.key.kind == static_cast<std::uint8_t>(Kind::kExtent);
}

}  // namespace

void Reaper::add(InodeRef inode) {
  bool many = false;
  {
    MutexLock lock(mu_);
    queue_.push_back(std::move(inode));
    many = queue_.size() % kMany == 0;
  }
  if (many) wake_();
}

std::size_t Reaper::waiting() const {
  MutexLock lock(mu_);
  return queue_.size() + left_.size();
}

void Reaper::drop_all() {
  std::deque<InodeRef> queue;
  std::vector<InodeRef> left;
  {
    MutexLock lock(mu_);
    queue.swap(queue_);
    left.swap(left_);
  }
  for (InodeRef& inode : queue) {
    WriterLock lock(inode->mu);
    inode->deleted = true;  // else it would come back here when the reference ends
  }
}

namespace {

// From here on nobody but the deletion changes what the tree has of the inode: whoever else wants
// to, looks at `deleted` first, under the inode's lock. Whatever happens, the orphan record sees to
// the rest at the next mount. False: it is being deleted already.
bool condemn(const Core& core, const InodeRef& ref) {
  const WriteBackToken token(ref);
  WriterLock lock(ref->mu);
  if (ref->deleted) return false;
  ref->deleted = true;
  if (ref->buffer) core.bands.release(ref->buffer->drop_from(0));
  ref->record_dirty = false;
  return true;
}

// Puts the end of up to `max_items` of the inode's items into the batch; of its own item, and of
// the record that says that it is to be deleted, when nothing else is left. Nothing is put in when
// it fails.
struct Gathered {
  std::size_t items = 0;
  bool complete = false;
  bool postponed = false;  // it refers to shared blocks, and is not the first of its batch
};
Result<Gathered> gather(const Core& core, InodeNo inode, std::size_t max_items, meta::Batch& batch,
                        std::vector<MapChange>& changes, SharedChange& shared) {
  ASSIGN_OR_RETURN(const auto items,
                   core.store.scan(meta::Key{inode.value, 0, 0},
                                   meta::Key{inode.value, 0xFF, meta::kMaxOffset}, max_items));
  const bool complete = items.size() < max_items;
  MapChange change(core.store, inode, &shared);
  std::uint64_t first = meta::kMaxOffset, end = 0;
  for (const meta::Item& item : items) {
    if (!is_extent(item)) continue;
    ASSIGN_OR_RETURN(const auto record, decode_map_record(item.value));
    if (std::holds_alternative<ReferenceRecord>(record) && !changes.empty()) {
      return Gathered{.postponed = true};
    }
    first = std::min(first, item.key.offset);
    end = std::max(end, item.key.offset + blocks_of(record));
  }
  if (first < end) TRY(change.unmap(first, end - first));
  for (const meta::Item& item : items) {
    // The map's change erases the extents.
    const bool own = item.key == key_of(inode, Kind::kInode);
    if (!is_extent(item) && (complete || !own)) batch.erase(item.key);
  }
  if (complete) batch.erase(key_of(kVolumeOwner, Kind::kOrphan, inode.value));
  change.put_into(batch);
  changes.push_back(std::move(change));
  return Gathered{items.size(), complete};
}

// Deletes inodes with everything they have. Returns those for which the log had no room.
std::vector<InodeRef> delete_inodes(const Core& core, std::span<const InodeRef> inodes) {
  std::vector<InodeRef> left;
  const auto give_up = [&](const InodeRef& inode, Errc error) {
    if (error == Errc::kLogFull) return left.push_back(inode);
    log::error("inode {}: cannot be deleted: {}", inode->no.value, describe(error));
  };
  std::size_t max_items = kItemsABatch;
  for (std::size_t at = 0; at < inodes.size();) {
    meta::Batch batch;
    std::vector<MapChange> changes;
    SharedChange shared(core.shared);
    std::size_t next = at, items = 0;
    while (next < inodes.size() && items < max_items) {
      const auto gathered = gather(core, inodes[next]->no, max_items, batch, changes, shared);
      if (!gathered) give_up(inodes[next], gathered.error());
      if (!gathered && changes.empty() && !shared.empty()) break;  // references, by halves
      if (gathered && (!gathered->complete || gathered->postponed)) break;
      if (gathered) items += gathered->items;
      ++next;
    }
    if (changes.empty() && !shared.empty()) {  // given up
      ++at;
      continue;
    }
    shared.put_into(batch);
    const auto applied = core.store.apply(batch, meta::Reserve::kDelete);
    if (applied) {
      for (const MapChange& change : changes) change.account(core.bands);
      shared.account(core.bands);
      at = next;
    } else if (max_items > 2 &&
               (applied.error() == Errc::kBatchTooLarge || applied.error() == Errc::kLogFull)) {
      max_items /= 2;  // items that lie all over the tree
    } else {
      give_up(inodes[at], applied.error());
      ++at;
    }
  }
  return left;
}

}  // namespace

void Reaper::run(const Core& core) {
  std::vector<InodeRef> again;
  {
    MutexLock lock(mu_);
    again.swap(left_);
  }
  for (bool more = true; more;) {
    std::vector<InodeRef> inodes;
    {
      MutexLock lock(mu_);
      while (!queue_.empty() && inodes.size() < kInodesATime) {
        inodes.push_back(std::move(queue_.front()));
        queue_.pop_front();
      }
      more = !queue_.empty();
    }
    std::vector<InodeRef> condemned = std::exchange(again, {});
    for (InodeRef& inode : inodes) {
      if (condemn(core, inode)) condemned.push_back(std::move(inode));
    }
    const std::vector<InodeRef> left = delete_inodes(core, condemned);
    MutexLock lock(mu_);
    left_.insert(left_.end(), left.begin(), left.end());
  }
}

}  // namespace lazyfs::fs
