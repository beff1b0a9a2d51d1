// Cleaning the end of a band (fs/space/collector.h): thesis, section 6.2.2. Where the device can
// set a write pointer back, moving the few live blocks behind a band's last hole frees both at
// once.
#include <algorithm>

#include "base/log.h"
#include "fs/space/collector.h"

namespace lazyfs::fs {
namespace {

constexpr std::size_t kBandsLookedAt = 4;
constexpr std::size_t kRecordsLookedAt = 64;  // of a band, from its end
constexpr std::uint64_t kLargestTail = 2048;  // blocks moved: one unit of work, 8 MiB
constexpr std::size_t kLargestCut = 512;      // records of each kind: one batch
constexpr std::size_t kOpenBands = 8;         // what is cut is open again; more are not made
constexpr std::uint32_t kLeastShare = 16;     // of the band is gained, or it is not worth a commit

}  // namespace

// nullopt when the end of the band has no hole, or one too far from its write pointer.
Result<std::optional<Collector::Tail>> Collector::look_at_tail(const data::BandView& band) const {
  const auto end = static_cast<std::uint32_t>(band.counters.appended);
  Tail tail{.use = {.band = band.band}, .start = end, .end = end};
  bool in_hole = false;
  for (std::size_t records = 0; tail.start > 0 && records < kRecordsLookedAt; ++records) {
    ASSIGN_OR_RETURN(const auto item,
                     core_.store.last_in(key_of(band.band, Kind::kAppendRecord, 0),
                                         key_of(band.band, Kind::kAppendRecord, tail.start - 1)));
    if (!item) return std::nullopt;
    InodeNo inode;
    ASSIGN_OR_RETURN(const auto live, live_of(band.band, *item, &inode));
    std::uint64_t live_blocks = 0;
    for (const MappedExtent& extent : live) live_blocks += extent.extent.blocks();
    if (in_hole && live_blocks > 0) break;
    in_hole = live_blocks == 0;
    tail.use.tail_blocks += live_blocks;
    tail.start = static_cast<std::uint32_t>(item->key.offset);
  }
  if (!in_hole || tail.start == 0 || tail.use.tail_blocks > kLargestTail) return std::nullopt;
  tail.use.hole_blocks = tail.end - tail.start - tail.use.tail_blocks;
  return tail;
}

// The tail to clean, if that is better than cleaning all of `whole`.
Result<std::optional<Collector::Tail>> Collector::pick_tail(
    const std::optional<gc::BandUse>& whole) const {
  const CleanChoice choice = core_.options.clean;
  if (choice == CleanChoice::kWhole || !core_.device.capabilities().set_write_pointer) {
    return std::nullopt;
  }
  // A cut makes room, but no free band; the log and the collector need those of the reserve.
  if (!core_.bands.has_reserve()) return std::nullopt;
  std::vector<data::BandView> bands = core_.bands.all();
  const auto is_open = [](const data::BandView& b) { return b.state == data::BandState::kOpen; };
  // A full band that is cut goes on with data of another age than what stays in it: that costs more
  // later than the cut saves (docs/garbage-collection.md).
  const bool only_open =
      choice == CleanChoice::kAuto ||
      static_cast<std::size_t>(std::ranges::count_if(bands, is_open)) >= kOpenBands;
  std::erase_if(bands, [&](const data::BandView& b) REQUIRES(work_mu_) {
    const bool fit = is_open(b) || (!only_open && b.state == data::BandState::kFull);
    return !fit || b.counters.live == 0 || b.counters.live == b.counters.appended ||
           unmovable_.contains(b.band) ||
           core_.device.geometry().band_kinds[b.band.value] == device::BandKind::kConventional;
  });
  const auto dead = [](const data::BandView& b) { return b.counters.appended - b.counters.live; };
  std::ranges::sort(bands, [&](const data::BandView& a, const data::BandView& b) {
    return dead(a) != dead(b) ? dead(a) > dead(b) : a.band < b.band;
  });
  std::vector<Tail> tails;
  std::vector<gc::TailUse> uses;
  for (std::size_t i = 0; i < std::min(bands.size(), kBandsLookedAt); ++i) {
    ASSIGN_OR_RETURN(const auto tail, look_at_tail(bands[i]));
    const std::uint32_t least = std::max(bands[i].blocks / kLeastShare, 1u);
    const auto better_than = choice == CleanChoice::kTail ? std::nullopt : whole;
    if (!tail || !gc::tail_pays(tail->use, better_than, least)) continue;
    tails.push_back(*tail);
    uses.push_back(tail->use);
  }
  const auto best = gc::pick_tail(uses);
  const auto at = std::ranges::find_if(tails, [&](const Tail& t) { return t.use.band == best; });
  return at == tails.end() ? std::nullopt : std::optional(*at);
}

// False when somebody was faster: appended to the band, or reads from it. It is sealed then.
Result<bool> Collector::clean_tail(const Tail& tail) {
  const BandId band = tail.use.band;
  if (!core_.bands.seal(band)) return false;
  if (core_.bands.view(band).counters.appended != tail.end) return false;
  if (tail.use.tail_blocks > 0) TRY(evacuate(band, tail.start));
  if (unmovable_.erase(band) > 0) {  // whoever tends failed bands looks at all of it
    core_.bands.note_unreadable(band);
    return false;
  }
  ASSIGN_OR_RETURN(const bool done, cut(tail));
  if (done) ++core_.counters.tails_cleaned;
  return done;
}

Result<bool> Collector::cut(const Tail& tail) {
  const BandId band = tail.use.band;
  meta::Batch batch;
  data::BandTable::Cut cut{.blocks = tail.end - tail.start};
  std::uint64_t dead = 0;
  const auto records = [&](Kind kind) {
    return core_.store.scan(key_of(band, kind, tail.start), key_of(band, kind, meta::kMaxOffset),
                            kLargestCut + 1);
  };
  ASSIGN_OR_RETURN(const auto appends, records(Kind::kAppendRecord));
  for (const meta::Item& item : appends) {
    ASSIGN_OR_RETURN(const AppendRecord record, decode_append_record(item.value));
    if (record.inode.value == 0) dead += record.blocks;
    batch.erase(item.key);
  }
  ASSIGN_OR_RETURN(const auto deletes, records(Kind::kDeleteRecord));
  for (const meta::Item& item : deletes) {
    ASSIGN_OR_RETURN(const DeleteRecord record, decode_delete_record(item.value));
    dead += record.blocks;
    batch.erase(item.key);
  }
  if (appends.size() > kLargestCut || deletes.size() > kLargestCut) return false;
  if (dead != cut.blocks) return false;  // something there could not be moved
  if (!core_.bands.begin_cut(band)) return false;

  cut.append_records = static_cast<std::uint32_t>(appends.size());
  cut.delete_records = static_cast<std::uint32_t>(deletes.size());
  const std::int64_t deltas[] = {-std::int64_t{cut.blocks}, 0, -std::int64_t{cut.append_records},
                                 -std::int64_t{cut.delete_records}};
  batch.add(key_of(kVolumeOwner, Kind::kBandSummary, band.value), deltas);
  const auto applied = core_.store.apply(batch, meta::Reserve::kDelete);
  if (!applied) {
    core_.bands.finish_cut(band, {}, true);
    return applied.error() == Errc::kBatchTooLarge ? Result<bool>(false) : fail(applied.error());
  }
  // Rule 2: what is cut off is written over only after this.
  Result<> done = core_.store.commit();
  if (done) done = core_.device.set_write_pointer(band, tail.start);
  core_.bands.finish_cut(band, cut, done.has_value());
  if (!done) {
    log::error("band {}: cannot be cut at {}: {}", band.value, tail.start, describe(done.error()));
    return fail(done.error());
  }
  return true;
}

}  // namespace lazyfs::fs
