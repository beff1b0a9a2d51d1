#include "fs/file/orphan_cleanup.h"

#include <algorithm>

#include "base/log.h"
#include "fs/inode/write_back_token.h"

namespace lazyfs::fs {
namespace {

constexpr std::size_t kItemsABatch = 512;
constexpr std::size_t kItemsABatchMin = 2;  // an inode's own item is erased with its last other one
constexpr std::size_t kInodesATime = 64;

bool is_extent(const meta::Item& item) {
  return item.key.kind == static_cast<std::uint8_t>(Kind::kExtent);
}

void log_failure(const Inode& inode, Errc error) {
  log::error("inode {}: cannot be deleted: {}", inode.no.value, describe(error));
}

}  // namespace

// ---- The queue ----------------------------------------------------------------------------------

void OrphanCleanup::add(InodeRef inode) {
  bool many = false;
  {
    MutexLock lock(mu_);
    queue_.push_back(std::move(inode));
    many = queue_.size() % kMany == 0;
  }
  if (many) wake_();
}

std::size_t OrphanCleanup::waiting() const {
  MutexLock lock(mu_);
  return queue_.size() + left_.size();
}

void OrphanCleanup::drop_all() {
  std::deque<InodeRef> queue;
  std::vector<InodeRef> left;
  {
    MutexLock lock(mu_);
    queue.swap(queue_);
    left.swap(left_);
  }
  for (InodeRef& inode : queue) {
    WriterLock lock(inode->mu);
    inode->deleted = true;  // else it would be queued again when the reference ends
  }
}

void OrphanCleanup::run() {
  std::vector<InodeRef> retried;
  {
    MutexLock lock(mu_);
    retried.swap(left_);
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
    std::vector<InodeRef> marked = std::exchange(retried, {});
    for (InodeRef& inode : inodes) {
      if (mark_deleted(inode)) marked.push_back(std::move(inode));
    }
    const std::vector<InodeRef> left = delete_inodes(marked);
    MutexLock lock(mu_);
    left_.insert(left_.end(), left.begin(), left.end());
  }
}

// ---- Deleting -----------------------------------------------------------------------------------

// From here on only the deletion changes the inode's items: every other thread looks at `deleted`
// first, under the inode's lock (I3). False: it was marked before.
bool OrphanCleanup::mark_deleted(const InodeRef& inode) {
  const WriteBackToken token(inode);
  WriterLock lock(inode->mu);
  if (inode->deleted) return false;
  inode->deleted = true;
  if (inode->buffer) bands_.release(inode->buffer->drop_from(0));
  inode->record_dirty = false;
  return true;
}

// Puts the deletion of up to `max_items` of the inode's items into the batch and adds their number
// to `items`. kPart: there are more; the inode's own item and its orphan record then stay.
// kPostponed: nothing was put, because the inode has references and the batch has other inodes. (A
// reference that cannot be counted down fails the batch; so that inode is the first.) After an
// error nothing was put.
Result<OrphanCleanup::Gathered> OrphanCleanup::gather(InodeNo inode, std::size_t max_items,
                                                      MapBatch& batch, std::size_t& items) {
  ASSIGN_OR_RETURN(const auto found,
                   store_.scan(meta::Key{inode.value, 0, 0},
                               meta::Key{inode.value, 0xFF, meta::kMaxOffset}, max_items));
  std::uint64_t first = meta::kMaxOffset, end = 0;
  for (const meta::Item& item : found) {
    if (!is_extent(item)) continue;
    ASSIGN_OR_RETURN(const auto record, decode_map_record(item.value));
    const bool is_reference = std::holds_alternative<ReferenceRecord>(record);
    if (is_reference && batch.has_changes()) return Gathered::kPostponed;
    first = std::min(first, item.key.offset);
    end = std::max(end, item.key.offset + blocks_of(record));
  }
  MapChange& change = batch.change(inode);
  const auto unmapped = first < end ? change.unmap(first, end - first) : ok();
  if (!unmapped) {
    batch.drop_last_change();
    return fail(unmapped.error());
  }
  const bool all = found.size() < max_items;
  for (const meta::Item& item : found) {
    const bool own = item.key == key_of(inode, Kind::kInode);
    if (!is_extent(item) && (all || !own)) batch.items().erase(item.key);  // unmap() erases extents
    if (own && all) fs::add(batch.items(), CounterChange{.inodes = -1});
  }
  if (all) batch.items().erase(key_of(kVolumeOwner, Kind::kOrphan, inode.value));
  items += found.size();
  return all ? Gathered::kAll : Gathered::kPart;
}

// Puts as many of the inodes into one batch as have room, and applies it. Raises `at` past the
// inodes that are deleted, or that cannot be. kMustWait, kBatchTooLarge, kLogFull: fewer items may
// have room, and nothing has changed but `at`.
Result<> OrphanCleanup::delete_next(std::span<const InodeRef> inodes, std::size_t max_items,
                                    std::size_t& at) {
  MapBatch batch = maps_.batch();
  std::size_t next = at, items = 0;
  while (next < inodes.size() && items < max_items) {
    const auto gathered = gather(inodes[next]->no, max_items, batch, items);
    if (gathered && *gathered != Gathered::kAll) break;
    if (!gathered) log_failure(*inodes[next], gathered.error());
    ++next;
    if (!batch.has_changes()) at = next;
  }
  if (!batch.has_changes()) return ok();
  TRY(batch.apply(meta::Reserve::kDelete));
  at = next;
  return ok();
}

// Deletes inodes with all their items. Returns those for which the log had no room. Each turn
// deletes items, halves `max_items`, or gives an inode up.
std::vector<InodeRef> OrphanCleanup::delete_inodes(std::span<const InodeRef> inodes) {
  std::vector<InodeRef> left;
  std::size_t max_items = kItemsABatch;
  for (std::size_t at = 0; at < inodes.size();) {
    const auto done =
        meta::when_room(store_, [&] { return delete_next(inodes, max_items, at); });
    if (done) continue;
    const bool too_large =
        done.error() == Errc::kBatchTooLarge || done.error() == Errc::kLogFull;
    if (too_large && max_items > kItemsABatchMin) {
      max_items /= 2;  // the items lie all over the tree
      continue;
    }
    if (done.error() == Errc::kLogFull) {
      left.push_back(inodes[at]);
    } else {
      log_failure(*inodes[at], done.error());
    }
    ++at;
  }
  return left;
}

}  // namespace lazyfs::fs
