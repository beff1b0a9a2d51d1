#include "fs/file/shared_change.h"

#include <algorithm>
#include <set>

#include "base/check.h"

namespace lazyfs::fs {
namespace {

using Counts = std::map<std::uint64_t, ReferenceCountRecord>;

// Splits the count that covers `block`, if any, so that one begins there.
void split(Counts& counts, std::uint64_t block) {
  auto at = counts.upper_bound(block);
  if (at == counts.begin()) return;
  --at;
  const std::uint64_t head = block - at->first;
  if (head == 0 || head >= at->second.blocks) return;
  const ReferenceCountRecord rest{at->second.blocks - static_cast<std::uint32_t>(head),
                              at->second.references};
  at->second.blocks = static_cast<std::uint32_t>(head);
  counts.emplace(block, rest);
}

}  // namespace

struct SharedChange::Change {
  Change(meta::Store& store, InodeNo number) : no(number), map(store, number) {}

  const InodeNo no;
  InodeRef inode;  // null: the shared-extent inode is new
  std::optional<WriterLock> lock;
  InodeRecord record;
  MapChange map;
  Counts before, after;  // of the blocks that were looked at: as in the tree, and after the change
  std::vector<std::pair<BandAddress, AppendRecord>> appends;
  std::vector<std::pair<BandId, DeleteRecord>> deaths;

  // Blocks that the shared-extent inode will map.
  std::uint64_t blocks() const {
    return record.blocks + static_cast<std::uint64_t>(map.blocks_delta());
  }
};

SharedChange::SharedChange(SharedExtents& shared) : shared_(shared) {}
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
  change->inode->assert_held();
  if (change->inode->deleted) return fail(Errc::kItemBad);
  change->record = change->inode->record;
  return changes_.emplace(number, std::move(change)).first->second.get();
}

// Changes the owner of the extent's append record and of the delete records of its blocks.
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
    change->after.emplace(extent.file_block, ReferenceCountRecord{record.blocks(), 1});
    change->record.size = std::max(change->record.size, extent.end() * kBlockBytes);
  }
  CHECK(changes_.emplace(inode, std::move(change)).second);
  return ok();
}

// Loads the blocks' counts into before and after, unless they were loaded already.
Result<> SharedChange::load(Change& change, std::uint64_t first, std::uint64_t blocks) {
  if (!change.inode) return ok();  // new: the tree has none
  ASSIGN_OR_RETURN(const Counts counts, shared_.read_counts(change.no, first, blocks));
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
    if (at == counts.end()) return fail(missing_from(reference, "no reference count"));
    const std::uint64_t first = at->first;
    next = first + at->second.blocks;
    at->second.references += static_cast<std::uint32_t>(delta);
    if (at->second.references > 0) continue;
    counts.erase(at);
    TRY(change->map.unmap(first, next - first));
    // References never lead to references.
    if (!change->map.take_ended_references().empty()) return fail(Errc::kItemBad);
  }
  return ok();
}

Result<> SharedChange::add(const ReferenceRecord& reference) { return count(reference, 1); }
Result<> SharedChange::remove(const ReferenceRecord& reference) { return count(reference, -1); }

void SharedChange::put_into(meta::Batch& batch) const {
  for (const auto& [number, change] : changes_) {
    for (const auto& [block, record] : change->before) {
      if (!change->after.contains(block)) batch.erase(key_of(number, Kind::kReferenceCount, block));
    }
    for (const auto& [block, record] : change->after) {
      const auto was = change->before.find(block);
      if (was != change->before.end() && was->second == record) continue;
      batch.put(key_of(number, Kind::kReferenceCount, block), encode(record));
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
    inode.assert_held();  // by change->lock
    inode.record.blocks = change->blocks();
    inode.deleted = inode.record.blocks == 0;
    ++inode.map_version;
  }
}

}  // namespace lazyfs::fs
