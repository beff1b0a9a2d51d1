#include "fs/file/shared_extents.h"

#include <algorithm>
#include <set>

#include "base/check.h"
#include "base/log.h"

namespace lazyfs::fs {
namespace {

using Counts = std::map<std::uint64_t, ShareCountRecord>;

Result<Counts> read_counts(meta::Store& store, InodeNo inode, std::uint64_t first,
                           std::uint64_t blocks) {
  const std::uint64_t lowest = first - std::min<std::uint64_t>(first, kMaxExtentBlocks - 1);
  const std::size_t most = first - lowest + blocks;  // each count is of a block at least
  ASSIGN_OR_RETURN(const auto items,
                   store.scan(key_of(inode, Kind::kShareCount, lowest),
                              key_of(inode, Kind::kShareCount, first + blocks - 1), most));
  Counts counts;
  for (const meta::Item& item : items) {
    ASSIGN_OR_RETURN(const ShareCountRecord record, decode_share_count(item.value));
    if (item.key.offset + record.blocks > first) counts.emplace(item.key.offset, record);
  }
  return counts;
}

// So that a count begins at `block`, if one covers it.
void split(Counts& counts, std::uint64_t block) {
  auto at = counts.upper_bound(block);
  if (at == counts.begin()) return;
  --at;
  const std::uint64_t head = block - at->first;
  if (head == 0 || head >= at->second.blocks) return;
  const ShareCountRecord rest{at->second.blocks - static_cast<std::uint32_t>(head),
                              at->second.references};
  at->second.blocks = static_cast<std::uint32_t>(head);
  counts.emplace(block, rest);
}

Errc missing(const ReferenceRecord& reference, std::string_view what) {
  log::error("shared inode {}: {} for blocks from {} on, which are referred to",
             reference.shared.value, what, reference.block);
  return Errc::kItemBad;
}

}  // namespace

Result<InodeRef> SharedInodes::find(InodeNo number) {
  ASSIGN_OR_RETURN(const auto value, store_.get(key_of(number, Kind::kInode)));
  const auto record = value ? decode_inode(*value) : fail(Errc::kItemBad);
  if (!record || record->mode != kSharedMode) return fail(Errc::kItemBad);
  auto inode = inodes_.get(number);
  if (!inode && inode.error() == Errc::kStale) return fail(Errc::kItemBad);
  return inode;
}

// ---- Reading ------------------------------------------------------------------------------------

Result<std::vector<SharedInodes::Piece>> SharedInodes::resolve(std::uint64_t file_block,
                                                               const ReferenceRecord& reference,
                                                               data::BandTable& bands) {
  const auto inode = find(reference.shared);
  if (!inode && inode.error() != Errc::kItemBad) return fail(inode.error());
  if (!inode) return fail(missing(reference, "it is no shared inode"));
  ReaderLock lock((*inode)->mu);
  ASSIGN_OR_RETURN(auto extents,
                   read_extents(store_, reference.shared, reference.block, reference.count));
  std::vector<Piece> pieces;
  std::uint64_t next = reference.block;
  for (MappedExtent& extent : extents) {
    if (extent.file_block != next) break;
    next = extent.end();
    const BandId band = extent.extent.at.band;
    if (band.value >= bands.band_count()) return fail(Errc::kItemBad);
    extent.file_block = file_block + (extent.file_block - reference.block);
    pieces.push_back({std::move(extent), bands.pin(band)});
  }
  if (next != reference.block + reference.count) return fail(missing(reference, "no extent"));
  return pieces;
}

Result<std::uint64_t> SharedInodes::count_exclusive(const ReferenceRecord& reference) {
  ASSIGN_OR_RETURN(const Counts counts,
                   read_counts(store_, reference.shared, reference.block, reference.count));
  std::uint64_t blocks = 0;
  for (const auto& [first, record] : counts) {
    if (record.references > 1) continue;
    const std::uint64_t begin = std::max(first, reference.block);
    blocks += std::min(first + record.blocks, reference.block + reference.count) - begin;
  }
  return blocks;
}

// ---- Changing -----------------------------------------------------------------------------------

struct SharedChange::Change {
  Change(meta::Store& store, InodeNo number) : no(number), map(store, number, nullptr) {}

  const InodeNo no;
  InodeRef inode;  // none: it is new
  std::optional<WriterLock> lock;
  InodeRecord record;
  MapChange map;
  Counts before, after;  // of the blocks that were looked at
  std::vector<std::pair<BandAddress, AppendRecord>> appends;
  std::vector<std::pair<BandId, DeleteRecord>> deaths;

  // Blocks that the shared inode will map.
  std::uint64_t blocks() const {
    return record.blocks + static_cast<std::uint64_t>(map.blocks_delta());
  }
};

SharedChange::SharedChange(SharedInodes& shared) : shared_(shared) {}
SharedChange::~SharedChange() = default;

void SharedChange::lock_all() {
  if (!lock_) lock_.emplace(shared_.change_mu_);
}

Result<SharedChange::Change*> SharedChange::change_of(InodeNo number) {
  lock_all();
  const auto found = changes_.find(number);
  if (found != changes_.end()) return found->second.get();
  ASSIGN_OR_RETURN(InodeRef inode, shared_.find(number));
  auto change = std::make_unique<Change>(shared_.store_, number);
  change->inode = std::move(inode);
  change->lock.emplace(change->inode->mu);
  if (change->inode->deleted) return fail(Errc::kItemBad);
  change->record = change->inode->record;
  return changes_.emplace(number, std::move(change)).first->second.get();
}

// The append record that the extent came with and the records of what has died of it.
Result<> SharedChange::move_logs(Change& change, InodeNo from, const ExtentRecord& extent) {
  const BandId band = extent.at.band;
  ASSIGN_OR_RETURN(const auto value,
                   shared_.store_.get(key_of(band, Kind::kAppendRecord, extent.append_record)));
  if (!value) return fail(Errc::kItemBad);
  ASSIGN_OR_RETURN(AppendRecord append, decode_append_record(*value));
  if (append.inode != from) return fail(Errc::kItemBad);
  append.inode = change.no;
  change.appends.push_back({{band, extent.append_record}, append});
  ASSIGN_OR_RETURN(
      const auto deletes,
      shared_.store_.scan(key_of(band, Kind::kDeleteRecord, extent.append_record),
                          key_of(band, Kind::kDeleteRecord,
                                 std::uint64_t{extent.append_record} + append.blocks - 1),
                          append.blocks));
  for (const meta::Item& item : deletes) {
    ASSIGN_OR_RETURN(DeleteRecord record, decode_delete_record(item.value));
    if (record.append_record != extent.append_record) return fail(Errc::kItemBad);
    record.inode = change.no;
    change.deaths.emplace_back(band, record);
  }
  return ok();
}

Result<> SharedChange::take_over(InodeNo inode, InodeNo from,
                                 std::span<const MappedExtent> extents) {
  if (extents.empty()) return ok();
  lock_all();
  auto change = std::make_unique<Change>(shared_.store_, inode);
  change->record.mode = kSharedMode;
  change->record.links = 1;
  std::set<BandAddress> moved;  // append records
  for (const MappedExtent& extent : extents) {
    const ExtentRecord& record = extent.extent;
    if (moved.insert({record.at.band, record.append_record}).second) {
      TRY(move_logs(*change, from, record));
    }
    change->map.take_over(extent);
    change->after.emplace(extent.file_block, ShareCountRecord{record.blocks(), 1});
    change->record.size = std::max(change->record.size, extent.end() * kBlockBytes);
  }
  CHECK(changes_.emplace(inode, std::move(change)).second);
  return ok();
}

// Brings the counts that the tree has of the blocks into before and after, unless they are there.
Result<> SharedChange::load(Change& change, std::uint64_t first, std::uint64_t blocks) {
  if (!change.inode) return ok();  // new: nothing is in the tree
  ASSIGN_OR_RETURN(const Counts counts, read_counts(shared_.store_, change.no, first, blocks));
  for (const auto& entry : counts) {
    if (change.before.insert(entry).second) change.after.insert(entry);
  }
  return ok();
}

Result<> SharedChange::count(const ReferenceRecord& reference, std::int32_t delta) {
  ASSIGN_OR_RETURN(Change* const change, change_of(reference.shared));
  TRY(load(*change, reference.block, reference.count));
  Counts& counts = change->after;
  const std::uint64_t end = reference.block + reference.count;
  split(counts, reference.block);
  split(counts, end);
  std::uint64_t next = reference.block;
  for (auto at = counts.find(next); next < end; at = counts.find(next)) {
    if (at == counts.end()) return fail(missing(reference, "no share count"));
    const std::uint64_t first = at->first;
    next = first + at->second.blocks;
    at->second.references += static_cast<std::uint32_t>(delta);
    if (at->second.references > 0) continue;
    counts.erase(at);
    TRY(change->map.unmap(first, next - first));
  }
  return ok();
}

Result<> SharedChange::add(const ReferenceRecord& reference) { return count(reference, 1); }
Result<> SharedChange::remove(const ReferenceRecord& reference) { return count(reference, -1); }

void SharedChange::put_into(meta::Batch& batch) const {
  for (const auto& [number, change] : changes_) {
    for (const auto& [block, record] : change->before) {
      if (!change->after.contains(block)) batch.erase(key_of(number, Kind::kShareCount, block));
    }
    for (const auto& [block, record] : change->after) {
      const auto was = change->before.find(block);
      if (was != change->before.end() && was->second == record) continue;
      batch.put(key_of(number, Kind::kShareCount, block), encode(record));
    }
    InodeRecord record = change->record;
    record.blocks = change->blocks();
    if (record.blocks > 0) {
      batch.put(key_of(number, Kind::kInode), encode(record));
    } else {
      batch.erase(key_of(number, Kind::kInode));
    }
    for (const auto& [at, append] : change->appends) {
      batch.put(key_of(at.band, Kind::kAppendRecord, at.rba), encode(append));
    }
    for (const auto& [band, death] : change->deaths) {
      batch.put(key_of(band, Kind::kDeleteRecord, death.rba), encode(death));
    }
    change->map.put_into(batch);
  }
}

void SharedChange::account(data::BandTable& bands) {
  for (const auto& [number, change] : changes_) {
    change->map.account(bands);
    if (!change->inode) continue;
    Inode& inode = *change->inode;
    inode.record.blocks = change->blocks();
    inode.deleted = inode.record.blocks == 0;
    ++inode.map_version;
  }
}

}  // namespace lazyfs::fs
