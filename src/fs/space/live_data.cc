#include "fs/space/live_data.h"

#include <utility>

#include "base/log.h"
#include "fs/item/schema.h"
#include "fs/space/band_logs.h"

namespace lazyfs::fs {
namespace {

constexpr std::size_t kRecordsAScan = 64;

// Reads once more after an error, which may have been a temporary one.
template <class Read>
auto twice(Read read) {
  auto found = read();
  if (!found) found = read();
  return found;
}

}  // namespace

// ---- what is live -------------------------------------------------------------------------------

// Extents of the file blocks that the append brought, wherever they lie now. Reading takes several
// steps: a map that changed between them would look damaged.
Result<std::vector<MappedExtent>> LiveData::extents_of(const AppendRecord& record) {
  const auto read = [&] {
    return read_extents(store_, record.inode, record.file_block, record.blocks);
  };
  const auto owner = inodes_.get(record.inode);
  // The blocks of an owner that cannot be read are not copied, because its map cannot be changed.
  if (!owner && owner.error() != Errc::kStale) return fail(owner.error());
  if (!owner) return read();
  const Inode& inode = **owner;
  ReaderLock lock(inode.mu);
  return read();
}

Result<std::vector<gc::LiveRun>> LiveData::live_runs(BandId band, const meta::Item& append_item) {
  ASSIGN_OR_RETURN(const AppendRecord record, decode_append_record(append_item.value));
  std::vector<gc::LiveRun> runs;
  if (record.inode.value == 0) return runs;  // lost
  ASSIGN_OR_RETURN(auto extents, extents_of(record));
  for (MappedExtent& mapped : extents) {
    ExtentRecord& extent = mapped.extent;
    if (extent.at.band != band || extent.append_record != append_item.key.offset) continue;
    runs.push_back({record.inode, mapped.file_block, extent.at, std::move(extent.crcs)});
  }
  return runs;
}

gc::Port::Visit LiveData::visit_live(BandId band, std::uint32_t from_rba, std::size_t at_least) {
  const std::uint32_t last_rba = bands_.view(band).blocks - 1;
  Visit visit{.runs = {}, .next_rba = from_rba};
  const auto note_damage = [&](Errc why) {
    if (std::exchange(visit.is_damaged, true)) return;
    log::error("band {}: live blocks from {} on cannot be found: {}", band.value, visit.next_rba,
               describe(why));
  };
  std::size_t blocks = 0;
  while (!visit.is_end && blocks < at_least) {
    const auto records = twice([&] {
      return store_.scan(key_of(band, Kind::kAppendRecord, visit.next_rba),
                         key_of(band, Kind::kAppendRecord, last_rba), kRecordsAScan);
    });
    if (!records) {
      note_damage(records.error());
      visit.is_end = true;
      break;
    }
    visit.is_end = records->size() < kRecordsAScan;
    for (const meta::Item& item : *records) {
      if (blocks >= at_least) {
        visit.is_end = false;
        break;
      }
      auto found = twice([&] { return live_runs(band, item); });
      if (!found) note_damage(found.error());
      std::vector<gc::LiveRun> runs;
      if (found) runs = std::move(*found);
      for (gc::LiveRun& run : runs) {
        blocks += run.blocks();
        visit.runs.push_back(std::move(run));
      }
      visit.next_rba = static_cast<std::uint32_t>(item.key.offset) + 1;
    }
  }
  return visit;
}

Result<std::optional<gc::Port::AppendUse>> LiveData::last_append_before(BandId band,
                                                                       std::uint32_t rba) {
  if (rba == 0) return std::nullopt;
  ASSIGN_OR_RETURN(const auto item, store_.last_in(key_of(band, Kind::kAppendRecord, 0),
                                                   key_of(band, Kind::kAppendRecord, rba - 1)));
  if (!item) return std::nullopt;
  ASSIGN_OR_RETURN(const auto runs, live_runs(band, *item));
  AppendUse use{.rba = static_cast<std::uint32_t>(item->key.offset)};
  for (const gc::LiveRun& run : runs) use.live_blocks += run.blocks();
  return use;
}

// ---- moving -------------------------------------------------------------------------------------

Result<> LiveData::remap_if_unchanged(const gc::LiveRun& run, BandAddress to) {
  return meta::when_room(store_, [&] { return remap_once(run, to); });
}

Result<> LiveData::remap_once(const gc::LiveRun& run, BandAddress to) {
  const auto found = inodes_.get(run.owner);
  if (!found) {
    if (found.error() != Errc::kStale) return fail(found.error());
    return remap(run, to, false);
  }
  Inode& owner = **found;
  WriterLock lock(owner.mu);
  TRY(remap(run, to, !owner.deleted));
  if (!owner.deleted) ++owner.map_version;
  return ok();
}

// REQUIRES: the owner's lock is held exclusively, if the owner exists.
Result<> LiveData::remap(const gc::LiveRun& run, BandAddress to, bool owner_exists) {
  MapChange change(store_, run.owner);
  std::uint32_t done = 0;  // blocks of the run in `change`
  if (owner_exists) {
    ASSIGN_OR_RETURN(const auto extents,
                     read_extents(store_, run.owner, run.file_block, run.blocks()));
    for (const MappedExtent& mapped : extents) {
      const auto skip = static_cast<std::uint32_t>(mapped.file_block - run.file_block);
      const BandAddress was{run.at.band, run.at.rba + skip};
      if (mapped.extent.at != was) continue;  // overwritten meanwhile
      if (skip > done) change.lost({to.band, to.rba + done}, skip - done);
      ExtentRecord moved = mapped.extent;
      moved.at = {to.band, to.rba + skip};
      moved.append_record = moved.at.rba;
      TRY(change.map(mapped.file_block, moved));
      done = skip + moved.blocks();
    }
    // Only extents are replaced, unless the map is damaged.
    if (!change.take_ended_references().empty()) return fail(Errc::kItemBad);
  }
  if (done < run.blocks()) change.lost({to.band, to.rba + done}, run.blocks() - done);
  meta::Batch batch;
  add(batch, CounterChange{.collector_blocks = run.blocks()});
  change.put_into(batch);
  TRY(store_.try_apply(batch, meta::Reserve::kDelete));
  change.account(bands_);
  return ok();
}

// ---- bands' logs --------------------------------------------------------------------------------

Result<> LiveData::erase_log(BandId band) { return erase_band_logs(store_, band); }

Result<std::optional<gc::Port::LogTail>> LiveData::log_tail(BandId band, std::uint32_t from_rba,
                                                            std::size_t at_most) {
  const auto records = [&](Kind kind) {
    return store_.scan(key_of(band, kind, from_rba), key_of(band, kind, meta::kMaxOffset),
                       at_most + 1);
  };
  LogTail tail;
  ASSIGN_OR_RETURN(const auto appends, records(Kind::kAppendRecord));
  for (const meta::Item& item : appends) {
    ASSIGN_OR_RETURN(const AppendRecord record, decode_append_record(item.value));
    if (record.inode.value == 0) tail.dead_blocks += record.blocks;
  }
  ASSIGN_OR_RETURN(const auto deletes, records(Kind::kDeleteRecord));
  for (const meta::Item& item : deletes) {
    ASSIGN_OR_RETURN(const DeleteRecord record, decode_delete_record(item.value));
    tail.dead_blocks += record.blocks;
  }
  if (appends.size() > at_most || deletes.size() > at_most) return std::nullopt;
  tail.append_records = static_cast<std::uint32_t>(appends.size());
  tail.delete_records = static_cast<std::uint32_t>(deletes.size());
  return tail;
}

Result<> LiveData::erase_log_tail(BandId band, std::uint32_t from_rba, std::uint32_t blocks,
                                  const LogTail& tail) {
  meta::Batch batch;
  for (const auto& [kind, count] : {std::pair(Kind::kAppendRecord, tail.append_records),
                                    std::pair(Kind::kDeleteRecord, tail.delete_records)}) {
    ASSIGN_OR_RETURN(const auto items,
                     store_.scan(key_of(band, kind, from_rba),
                                 key_of(band, kind, meta::kMaxOffset), std::size_t{count} + 1));
    if (items.size() != count) return fail(Errc::kItemBad);
    for (const meta::Item& item : items) batch.erase(item.key);
  }
  add(batch, band,
      BandSummaryChange{-std::int64_t{blocks}, 0, -std::int64_t{tail.append_records},
                        -std::int64_t{tail.delete_records}});
  TRY(store_.apply(batch, meta::Reserve::kDelete));
  return ok();
}

}  // namespace lazyfs::fs
