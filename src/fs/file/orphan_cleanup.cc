#include "fs/file/orphan_cleanup.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/log.h"
#include "fs/file/retry_pause.h"
#include "fs/inode/write_back_token.h"

namespace lazyfs::fs {
namespace {

constexpr std::size_t kItemsABatch = 512;
constexpr std::size_t kItemsABatchMin = 2;  // an inode's own item is erased with its last other one
constexpr std::size_t kInodesATime = 64;
constexpr std::size_t kMostFailed = 16384;  // that wait to be retried: each takes memory

bool is_extent(const meta::Item& item) {
  return item.key.kind == static_cast<std::uint8_t>(Kind::kExtent);
}

}  // namespace

// ---- The queue ----------------------------------------------------------------------------------

void OrphanCleanup::add(Unnamed inode) noexcept {
  const InodeNo number = inode.number;
  InodeRef held = inode.held;
  try {
    queue(std::move(inode));
  } catch (const std::bad_alloc&) {
    log::error("inode {}: cannot be deleted, left to the next mount: {}", number.value,
               describe(Errc::kNoMemory));
    if (held) drop_pages(*held);
  }
}

// Of an inode that is not queued, so that the end of its last reference does not queue it again.
void OrphanCleanup::drop_pages(Inode& inode) {
  WriterLock lock(inode.mu);
  if (inode.references.load() > 1 || inode.deleted) return;  // others have it: it is queued later
  if (inode.buffer) bands_.release(inode.buffer->drop_from(0));
  inode.record_dirty = false;
  inode.deleted = true;  // for this object; the next one is read from the tree
}

void OrphanCleanup::queue(Unnamed inode) {
  bool many = false;
  InodeRef not_needed;  // its end may queue the inode: not under the lock
  {
    MutexLock lock(mu_);
    const auto [at, is_new] = waiting_.try_emplace(inode.number);
    try {
      if (is_new) queue_.push_back(inode.number);
    } catch (...) {
      waiting_.erase(at);
      throw;
    }
    Entry& entry = at->second;
    if (entry.held) {
      not_needed = std::move(inode.held);
    } else {
      entry.held = std::move(inode.held);
    }
    if (is_new) {
      entry.blocks = inode.blocks;
      blocks_ += inode.blocks;
      many = queue_.size() % kMany == 0;
    }
  }
  if (many) wake_();
}

OrphanCleanup::Waiting OrphanCleanup::waiting() const {
  MutexLock lock(mu_);
  return {waiting_.size(), blocks_};
}

void OrphanCleanup::drop_all() {
  std::unordered_map<InodeNo, Entry> waiting;
  {
    MutexLock lock(mu_);
    waiting.swap(waiting_);
    queue_.clear();
    left_.clear();
    later_.clear();
    blocks_ = 0;
  }
  for (auto& [number, entry] : waiting) {
    if (!entry.held) continue;
    WriterLock lock(entry.held->mu);
    entry.held->deleted = true;  // else it would be queued again when the reference ends
  }
}

void OrphanCleanup::help() {
  {
    MutexLock lock(mu_);
    if (queue_.size() < kMost) return;
  }
  run(1);
}

void OrphanCleanup::count_down(InodeNo number, std::uint64_t blocks) {
  MutexLock lock(mu_);
  const auto found = waiting_.find(number);
  if (found == waiting_.end()) return;
  const std::uint64_t less = std::min(blocks, found->second.blocks);
  found->second.blocks -= less;
  blocks_ -= less;
}

void OrphanCleanup::finish(InodeNo number) {
  InodeRef held;  // ends without the lock
  MutexLock lock(mu_);
  const auto found = waiting_.find(number);
  if (found == waiting_.end()) return;
  blocks_ -= found->second.blocks;
  held = std::move(found->second.held);
  waiting_.erase(found);
}

void OrphanCleanup::finish(const Marked& marked) {
  if (marked.failed) return try_later(marked.inode->no, marked.inode, *marked.failed);
  finish(marked.inode->no);
}

// False: memory lacks.
bool OrphanCleanup::put_later(std::chrono::nanoseconds when, Failed failed) try {
  later_.emplace(when, failed);
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

// `marked`: null if the inode is not marked as deleted.
void OrphanCleanup::try_later(InodeNo number, const InodeRef& marked, Errc error) {
  const auto now = clock_.monotonic();
  int failures = 0;
  {
    MutexLock lock(mu_);
    Entry& entry = waiting_[number];
    if (later_.size() >= kMostFailed) entry.failures = kMostFailures;
    failures = ++entry.failures;
    if (failures < kMostFailures) {
      if (marked) entry.held = marked;
      failures = put_later(now + pause_after(failures), {number, static_cast<bool>(marked)})
                     ? failures
                     : kMostFailures;
    }
  }
  if (failures == 1) {
    log::warn("inode {}: cannot be deleted now: {}", number.value, describe(error));
  }
  if (failures < kMostFailures) return;
  log::error("inode {}: cannot be deleted, left to the next mount: {}", number.value,
             describe(error));
  finish(number);
}

void OrphanCleanup::leave(const InodeRef& inode) {
  MutexLock lock(mu_);
  waiting_[inode->no].held = inode;
  left_.push_back(inode->no);
}

// The inodes that are marked already. Queues the others that are due.
std::vector<OrphanCleanup::Marked> OrphanCleanup::take_left() {
  const auto now = clock_.monotonic();
  std::vector<Marked> marked;
  MutexLock lock(mu_);
  const auto due = later_.upper_bound(now);
  for (auto at = later_.begin(); at != due; at = later_.erase(at)) {
    if (at->second.is_marked) {
      left_.push_back(at->second.number);
    } else {
      queue_.push_back(at->second.number);
    }
  }
  marked.reserve(left_.size());
  for (const InodeNo number : std::exchange(left_, {})) marked.push_back({waiting_[number].held});
  return marked;
}

std::vector<InodeNo> OrphanCleanup::take() {
  std::vector<InodeNo> numbers;
  numbers.reserve(kInodesATime);
  MutexLock lock(mu_);
  while (!queue_.empty() && numbers.size() < kInodesATime) {
    numbers.push_back(queue_.front());
    queue_.pop_front();
  }
  return numbers;
}

OrphanCleanup::Running::Running(OrphanCleanup& cleanup) : cleanup_(cleanup) {
  MutexLock lock(cleanup_.mu_);
  ++cleanup_.running_;
}

OrphanCleanup::Running::~Running() {
  MutexLock lock(cleanup_.mu_);
  --cleanup_.running_;
  cleanup_.progress_.notify_all();
}

void OrphanCleanup::count_batch() {
  MutexLock lock(mu_);
  ++batches_;
  progress_.notify_all();
}

bool OrphanCleanup::await_others() {
  MutexLock lock(mu_);
  const std::uint64_t before = batches_;
  while (running_ > 0 && batches_ == before) progress_.wait(mu_);
  return batches_ != before;
}

bool OrphanCleanup::run(std::size_t max_batches) {
  const Running running(*this);
  std::vector<Marked> marked = take_left();
  for (std::size_t batches = max_batches;;) {
    delete_inodes(marked, batches);
    if (batches == 0) return true;
    marked.clear();
    marked.reserve(kInodesATime);  // before inodes are taken from the queue
    const std::vector<InodeNo> numbers = take();
    if (numbers.empty()) return false;
    for (const InodeNo number : numbers) {
      auto inode = mark_deleted(number);
      if (inode) {
        marked.push_back({std::move(*inode)});
      } else if (inode.error() == Errc::kStale) {
        finish(number);
      } else {
        try_later(number, {}, inode.error());
      }
    }
  }
}

// ---- Deleting -----------------------------------------------------------------------------------

// Marks the inode as deleted. From then on only the deletion changes its items: every other thread
// looks at `deleted` first, under the inode's lock (I3). kStale: it was marked before.
Result<InodeRef> OrphanCleanup::mark_deleted(InodeNo number) try {
  ASSIGN_OR_RETURN(InodeRef inode, inodes_.get(number));
  const WriteBackToken token(inode);
  Inode& it = *inode;
  WriterLock lock(it.mu);
  if (it.deleted) return fail(Errc::kStale);
  it.deleted = true;
  if (it.buffer) {
    const std::uint64_t blocks = it.buffer->drop_from(0);
    bands_.release(blocks);
    count_down(number, blocks);
  }
  it.record_dirty = false;
  return inode;
} catch (const std::bad_alloc&) {
  return fail(Errc::kNoMemory);
}

// Puts the deletion of up to `max_items` of the inode's items into the batch and adds their number
// to `items`. kPart: there are more; the inode's own item and its orphan record then stay.
// kPostponed: nothing was put, because the inode has references and the batch has other inodes. (A
// reference that cannot be counted down fails the batch; so that inode is the first.) After an
// error nothing was put.
Result<OrphanCleanup::Gathered> OrphanCleanup::gather(Marked& marked, std::size_t max_items,
                                                      MapBatch& batch, std::size_t& items) {
  const InodeNo inode = marked.inode->no;
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
  marked.freed = static_cast<std::uint64_t>(-change.blocks_delta());
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

// Puts as many of the inodes into one batch as have room, and applies it. False: none could be put
// into it. Raises `at` past the inodes that are deleted, or that cannot be. kMustWait,
// kBatchTooLarge, kLogFull: fewer items may have room, and nothing has changed but `at`.
Result<bool> OrphanCleanup::delete_next(std::span<Marked> inodes, std::size_t max_items,
                                        std::size_t& at) try {
  MapBatch batch = maps_.batch();
  std::size_t next = at, items = 0;
  bool has_part = false;
  while (next < inodes.size() && items < max_items) {
    const auto gathered = gather(inodes[next], max_items, batch, items);
    has_part = gathered && *gathered == Gathered::kPart;
    if (gathered && *gathered != Gathered::kAll) break;
    inodes[next].failed = gathered ? std::nullopt : std::optional(gathered.error());
    ++next;
    if (!batch.has_changes()) {
      finish(inodes[at]);
      at = next;
    }
  }
  if (!batch.has_changes()) return false;
  TRY(batch.apply(meta::Reserve::kDelete));
  for (; at < next; ++at) finish(inodes[at]);
  if (has_part) count_down(inodes[at].inode->no, inodes[at].freed);
  return true;
} catch (const std::bad_alloc&) {
  return fail(Errc::kNoMemory);
}

// Deletes inodes with all their items, in at most `batches`, which it lowers, also by batches into
// which no inode could be put. Inodes that remain then, and those for which the log has no room,
// are left to the next run. Each turn deletes items, halves `max_items` or `max_inodes`, or
// postpones inodes. One whose batch failed is postponed only when it was alone in the batch: the
// damage of another inode may have failed a larger one.
void OrphanCleanup::delete_inodes(std::span<Marked> inodes, std::size_t& batches) {
  std::size_t max_items = kItemsABatch, max_inodes = inodes.size(), at = 0;
  while (at < inodes.size() && batches > 0) {
    const std::size_t count = std::min(max_inodes, inodes.size() - at);
    const auto some = inodes.first(at + count);  // `at` may rise before a repetition
    const auto done =
        meta::when_room(store_, [&] { return delete_next(some, max_items, at); });
    if (done) {
      --batches;
      if (*done) count_batch();
      continue;
    }
    const bool too_large =
        done.error() == Errc::kBatchTooLarge || done.error() == Errc::kLogFull;
    if (too_large && max_items > kItemsABatchMin) {
      max_items /= 2;  // the items lie all over the tree
      continue;
    }
    if (done.error() == Errc::kLogFull) {
      leave(inodes[at].inode);
    } else if (count > 1) {
      max_inodes = count / 2;
      continue;
    } else {
      try_later(inodes[at].inode->no, inodes[at].inode, done.error());
      max_inodes = inodes.size();
    }
    ++at;
  }
  for (; at < inodes.size(); ++at) leave(inodes[at].inode);
}

}  // namespace lazyfs::fs
