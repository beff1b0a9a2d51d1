#include "fs/inode/inode.h"

#include <sys/stat.h>

#include <algorithm>

#include "base/check.h"
#include "base/log.h"

namespace lazyfs::fs {

InodeRef::~InodeRef() {
  if (inode_) table_->drop(inode_, 1);
}

InodeTable::InodeTable(meta::Store& store, std::function<void(Unnamed)> unnamed,
                       std::size_t in_memory)
    : store_(store), unnamed_(std::move(unnamed)), shard_limit_(in_memory / kShards) {
  for (Shard& shard : shards_) {
    MutexLock lock(shard.mu);
    shard.inodes.reserve(shard_limit_);  // growing reads every inode, under the lock
  }
}

InodeTable::~InodeTable() = default;

InodeRef InodeTable::find_or_add(InodeNo inode) {
  Shard& shard = shard_of(inode);
  MutexLock lock(shard.mu);
  if (const auto found = shard.inodes.find(inode); found != shard.inodes.end()) {
    found->second->references.fetch_add(1, std::memory_order_relaxed);
    if (!found->second->used.load(std::memory_order_relaxed)) found->second->used = true;
    return InodeRef(this, found->second.get());
  }
  if (shard.inodes.size() >= shard_limit_) drop_unused(shard);
  auto added = std::make_unique<Inode>(inode);
  if (const auto kept = shard.remembered.find(inode); kept != shard.remembered.end()) {
    added->lookups = kept->second;
    shard.remembered.erase(kept);
  }
  added->references = added->lookups + 1;
  Inode* const raw = added.get();
  shard.inodes.emplace(inode, std::move(added));
  return InodeRef(this, raw);
}

// Whether the inode's lookups are all that must be remembered of it. REQUIRES: its shard's lock.
bool InodeTable::is_droppable(const Inode& inode) {
  // In this order: a thread that adds a lookup has an InodeRef, which `references` counts.
  const std::uint64_t lookups = inode.lookups.load(std::memory_order_acquire);
  if (lookups == 0 || inode.references.load(std::memory_order_acquire) != lookups) return false;
  inode.assert_held();  // no InodeRef exists, so no other thread reaches it
  const bool is_clean = !inode.record_dirty && !inode.on_dirty_list && !inode.truncate_pending &&
                        (!inode.buffer || inode.buffer->clean());
  return inode.loaded.load() && is_clean && !inode.deleted && inode.record.links > 0 &&
         inode.write_errors.load() == 0;
}

// Looks at some of the shard's inodes in turn, and drops those not used since the last turn.
void InodeTable::drop_unused(Shard& shard) {
  constexpr std::size_t kBucketsLookedAt = 8;
  const std::size_t buckets = shard.inodes.bucket_count();
  std::vector<InodeNo> unused;
  for (std::size_t i = 0; i < std::min(kBucketsLookedAt, buckets); ++i) {
    const std::size_t bucket = shard.hand++ % buckets;
    for (auto at = shard.inodes.begin(bucket); at != shard.inodes.end(bucket); ++at) {
      Inode& inode = *at->second;
      if (!inode.used.exchange(false) && is_droppable(inode)) unused.push_back(inode.no);
    }
  }
  for (const InodeNo number : unused) {
    const auto found = shard.inodes.find(number);
    shard.remembered.emplace(number, found->second->lookups.load());
    shard.inodes.erase(found);
  }
}

Result<> InodeTable::load(Inode& inode) {
  ASSIGN_OR_RETURN(const auto value, store_.get(key_of(inode.no, Kind::kInode)));
  if (!value) return fail(Errc::kStale);
  const auto record = decode_inode(*value);
  if (!record) {
    log::error("inode {}: item is damaged", inode.no.value);
    return fail(record.error());
  }
  inode.record = *record;
  inode.tree_size = record->size;
  // It may have been shown before it was dropped from memory.
  inode.shown_change_ns = to_nanoseconds(record->change);
  const bool truncations = looks_for_truncations_.load(std::memory_order_acquire);
  if (record->links > 0 && !truncations) return ok();
  ASSIGN_OR_RETURN(const auto orphan,
                   store_.get(key_of(kVolumeOwner, Kind::kOrphan, inode.no.value)));
  if (record->links == 0 && !orphan) {
    log::error("inode {}: counts no link, and is not to be deleted", inode.no.value);
    return fail(Errc::kItemBad);
  }
  if (!truncations) return ok();
  const auto work = orphan ? decode_orphan(*orphan) : fail(Errc::kItemBad);
  inode.truncate_pending =
      S_ISREG(record->mode) && work && work->work == OrphanRecord::Work::kTruncate;
  return ok();
}

namespace {

std::uint64_t dirty_blocks(const Inode& inode) REQUIRES_SHARED(inode.mu) {
  return inode.buffer ? inode.buffer->dirty_blocks() : 0;
}

}  // namespace

std::uint64_t blocks_held(const Inode& inode) { return inode.record.blocks + dirty_blocks(inode); }

std::uint64_t blocks_freed(const Inode& inode) {
  const bool has_shared = (inode.record.flags & kHasShared) != 0;
  return has_shared ? dirty_blocks(inode) : blocks_held(inode);
}

Result<InodeRef> InodeTable::get(InodeNo number) {
  if (number.value == 0 || number.value > kMaxInode) return fail(Errc::kStale);
  InodeRef inode = find_or_add(number);
  if (inode->loaded.load(std::memory_order_acquire)) {
    ReaderLock lock(inode->mu);
    if (inode->deleted) return fail(Errc::kStale);
    return inode;
  }
  WriterLock lock(inode->mu);
  if (inode->deleted) return fail(Errc::kStale);
  if (!inode->loaded.load(std::memory_order_relaxed)) {
    TRY(load(*inode));
    inode->loaded.store(true, std::memory_order_release);
  }
  return inode;
}

void InodeTable::fill(Inode& inode, const InodeRecord& record) {
  CHECK(!inode.loaded.load());
  inode.record = record;
  inode.tree_size = record.size;
  inode.inline_state.is_known = true;  // a new inode has no inline block
  inode.loaded.store(true, std::memory_order_release);
}

namespace {

// Shared-extent inodes are not shown, nor are inodes that wait to be deleted.
Result<> check_shown(const Inode& inode) REQUIRES_SHARED(inode.mu) {
  const bool is_shown = inode.record.links > 0 && inode.record.mode != kSharedMode;
  return is_shown ? ok() : fail(Errc::kStale);
}

}  // namespace

// False, and nothing is done, if the inode is in memory.
bool InodeTable::remember_lookup(InodeNo number) {
  Shard& shard = shard_of(number);
  MutexLock lock(shard.mu);
  if (shard.inodes.contains(number)) return false;
  ++shard.remembered[number];
  return true;
}

Result<LookedUp> InodeTable::look_up_in_memory(InodeNo number) {
  ASSIGN_OR_RETURN(InodeRef inode, get(number));
  {
    ReaderLock lock(inode->mu);
    TRY(check_shown(*inode));
  }
  take_lookup(*inode);
  return LookedUp(std::move(inode));
}

Result<std::unique_ptr<Inode>> InodeTable::copy_from_tree(InodeNo number) {
  auto copy = std::make_unique<Inode>(number);
  WriterLock lock(copy->mu);
  TRY(load(*copy));
  TRY(check_shown(*copy));
  return copy;
}

// Another thread may bring the inode into memory and change it meanwhile. The copy is then as the
// inode was at some moment since the lookup was taken.
Result<LookedUp> InodeTable::look_up(InodeNo number) {
  if (number.value == 0 || number.value > kMaxInode) return fail(Errc::kStale);
  if (!remember_lookup(number)) return look_up_in_memory(number);
  auto copy = copy_from_tree(number);
  if (copy) return LookedUp(std::move(*copy));
  give_back_lookups(number, 1);
  return fail(copy.error());
}

void InodeTable::give_back_lookups(InodeNo number, std::uint64_t count) {
  InodeRef inode;
  {
    Shard& shard = shard_of(number);
    MutexLock lock(shard.mu);
    if (const auto kept = shard.remembered.find(number); kept != shard.remembered.end()) {
      kept->second -= std::min(count, kept->second);
      if (kept->second == 0) shard.remembered.erase(kept);
      return;
    }
    const auto found = shard.inodes.find(number);
    if (found == shard.inodes.end()) return;
    Inode& it = *found->second;
    it.references.fetch_add(1, std::memory_order_relaxed);
    inode = InodeRef(this, &it);
    // A count that is higher than what the kernel was given must not free an inode in use.
    count = std::min<std::uint64_t>(count, it.lookups.load());
    it.lookups.fetch_sub(count);
    it.references.fetch_sub(count);
  }
  // An inode without a name and without users is not written back but deleted.
  if (inode->references.load() != 2) return;  // `inode` and the dirty list
  bool useless = false;
  std::uint64_t blocks = 0;
  {
    ReaderLock lock(inode->mu);
    useless = inode->on_dirty_list && inode->record.links == 0 && !inode->deleted;
    blocks = blocks_freed(*inode);
  }
  if (useless && unnamed_) unnamed_({number, std::move(inode), blocks});
}

// `inode` may be freed by another thread as soon as the count has been lowered.
void InodeTable::drop(Inode* inode, std::uint64_t count) {
  const InodeNo number = inode->no;
  if (inode->references.fetch_sub(count, std::memory_order_acq_rel) == count) {
    last_reference_dropped(number);
  }
}

void InodeTable::last_reference_dropped(InodeNo number) {
  Unnamed unnamed{.number = number, .held = {}};
  {
    Shard& shard = shard_of(number);
    MutexLock lock(shard.mu);
    const auto found = shard.inodes.find(number);
    if (found == shard.inodes.end()) return;
    Inode& inode = *found->second;
    if (inode.references.load(std::memory_order_acquire) != 0) return;  // referenced again
    // No reference exists and shard.mu is held: no other thread reaches the inode, as if this one
    // held its lock.
    inode.assert_held();
    const bool is_orphan =
        inode.loaded.load() && !inode.deleted && inode.record.links == 0 && unnamed_;
    unnamed.blocks = blocks_freed(inode);
    if (is_orphan && inode.buffer && !inode.buffer->clean()) {
      inode.references.store(1, std::memory_order_relaxed);
      unnamed.held = InodeRef(this, &inode);
    } else {
      shard.inodes.erase(found);
    }
    if (!is_orphan) return;
  }
  unnamed_(std::move(unnamed));
}

void InodeTable::adopt_lookups(InodeNo number, std::uint64_t count) {
  Shard& shard = shard_of(number);
  MutexLock lock(shard.mu);
  shard.remembered[number] += count;
}

std::vector<std::pair<InodeNo, std::uint64_t>> InodeTable::lookups() const {
  std::vector<std::pair<InodeNo, std::uint64_t>> held;
  for (const Shard& shard : shards_) {
    MutexLock lock(shard.mu);
    for (const auto& [number, inode] : shard.inodes) {
      if (const auto count = inode->lookups.load(); count > 0) held.emplace_back(number, count);
    }
    held.insert(held.end(), shard.remembered.begin(), shard.remembered.end());
  }
  return held;
}

std::size_t InodeTable::size() const {
  std::size_t count = 0;
  for (const Shard& shard : shards_) {
    MutexLock lock(shard.mu);
    count += shard.inodes.size();
  }
  return count;
}

InodeLocks::InodeLocks(std::initializer_list<Inode*> inodes) {
  CHECK(inodes.size() <= inodes_.size());
  std::copy(inodes.begin(), inodes.end(), inodes_.begin());
  // Null pointers go to the end and are not locked.
  std::sort(inodes_.begin(), inodes_.end(), [](const Inode* a, const Inode* b) {
    if (!a || !b) return a != nullptr && b == nullptr;
    return a->no < b->no;
  });
  const auto end = std::unique(inodes_.begin(), inodes_.end());
  std::fill(end, inodes_.end(), nullptr);
  for (Inode* inode : inodes_) {
    if (inode) inode->mu.lock();
  }
}

InodeLocks::~InodeLocks() {
  for (Inode* inode : inodes_) {
    if (inode) inode->mu.unlock();
  }
}

void drop_set_id(InodeRecord& record) {
  record.mode &= ~static_cast<std::uint32_t>(S_ISUID);
  if (record.mode & S_IXGRP) record.mode &= ~static_cast<std::uint32_t>(S_ISGID);
}

Timestamp change_time(Clock& clock, std::initializer_list<const Inode*> inodes) {
  std::int64_t shown_ns = INT64_MIN;
  for (const Inode* inode : inodes) {
    if (!inode) continue;
    shown_ns = std::max(shown_ns, inode->shown_change_ns.load(std::memory_order_relaxed));
  }
  return clock.now_after(from_nanoseconds(shown_ns));
}

// Threads that look at one inode at once write only after a change.
void note_shown(const Inode& inode) {
  const std::int64_t ns = to_nanoseconds(inode.record.change);
  if (inode.shown_change_ns.load(std::memory_order_relaxed) != ns) {
    inode.shown_change_ns.store(ns, std::memory_order_relaxed);
  }
}

InodeRecord for_tree(const Inode& inode, InodeRecord record) {
  record.size = inode.tree_size;
  return record;
}

}  // namespace lazyfs::fs
