#include "fs/space/band_history.h"

#include <algorithm>

#include "fs/item/schema.h"
#include "fs/space/visit_items.h"

namespace lazyfs::fs {
namespace {

Result<> visit_log(meta::Store& store, BandId band, Kind log, const VisitItem& visit) {
  return visit_items(store, key_of(band, log), key_of(band, log, meta::kMaxOffset), visit);
}

// Adds to what is dead; ranges that follow one another become one.
void add_dead(std::vector<DeadBlocks>& dead, std::uint32_t rba, std::uint32_t blocks) {
  if (!dead.empty() && dead.back().rba + dead.back().blocks == rba) {
    dead.back().blocks += blocks;
  } else {
    dead.push_back({rba, blocks});
  }
}

// The append that all of these blocks lie in; null if there is none.
BandAppend* append_of(std::vector<BandAppend>& appends, std::uint32_t rba, std::uint32_t blocks) {
  const auto next = std::ranges::upper_bound(appends, rba, {}, &BandAppend::rba);
  if (next == appends.begin()) return nullptr;
  BandAppend& append = *std::prev(next);
  const std::uint32_t skipped = rba - append.rba;
  return skipped < append.blocks && blocks <= append.blocks - skipped ? &append : nullptr;
}

}  // namespace

Result<BandHistory> history_of(meta::Store& store, BandId band) {
  BandHistory history;
  std::vector<DeadBlocks> given_up, deleted;
  TRY(visit_log(store, band, Kind::kAppendRecord, [&](const meta::Item& item) -> Result<> {
    ASSIGN_OR_RETURN(const AppendRecord record, decode_append_record(item.value));
    const auto rba = static_cast<std::uint32_t>(item.key.offset);
    const bool is_lost = record.inode.value == 0;
    history.appends.push_back({record.inode, record.file_block, rba, record.blocks,
                               is_lost ? record.blocks : 0});
    if (is_lost) given_up.push_back({rba, record.blocks});
    return ok();
  }));
  TRY(visit_log(store, band, Kind::kDeleteRecord, [&](const meta::Item& item) -> Result<> {
    ASSIGN_OR_RETURN(const DeleteRecord record, decode_delete_record(item.value));
    BandAppend* const append = append_of(history.appends, record.rba, record.blocks);
    if (!append || record.blocks > append->blocks - append->dead) return fail(Errc::kItemBad);
    append->dead += record.blocks;
    deleted.push_back({record.rba, record.blocks});
    return ok();
  }));
  deleted.insert(deleted.end(), given_up.begin(), given_up.end());
  std::ranges::sort(deleted, {}, &DeadBlocks::rba);
  for (const DeadBlocks& range : deleted) add_dead(history.dead, range.rba, range.blocks);
  return history;
}

}  // namespace lazyfs::fs
