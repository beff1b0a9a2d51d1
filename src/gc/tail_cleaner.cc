#include "gc/tail_cleaner.h"

#include <algorithm>
#include <new>
#include <vector>

#include "base/log.h"
#include "gc/damage.h"

namespace lazyfs::gc {
namespace {

constexpr std::size_t kMaxBandsExamined = 4;
constexpr std::size_t kMaxRecordsExamined = 64;  // of a band, from its end
constexpr std::uint64_t kMaxTailBlocks = 2048;   // moved: one unit of work, 8 MiB
constexpr std::size_t kMaxCutRecords = 512;      // of each kind: one batch
constexpr std::size_t kMaxOpenBands = 8;         // a cut makes a band open again
constexpr int kMaxFailedCuts = 3;                // then bands are cleaned whole
constexpr std::uint32_t kMinGainShare = 16;      // 1/16 of the band: less is not worth a commit

bool is_open(const data::BandView& band) { return band.state == data::BandState::kOpen; }

}  // namespace

void TailCleaner::set_mode(CleanMode mode) {
  mode_ = mode;
  if (mode != CleanMode::kTail || device_.capabilities().set_write_pointer) return;
  log::warn("clean=tail: {} cannot set a write pointer back (zoned disks and plain block devices "
            "cannot): bands are cleaned whole",
            device_.name());
}

// nullopt when the end of the band has no hole, or one too far from its write pointer.
Result<std::optional<TailCleaner::Tail>> TailCleaner::find_tail(const data::BandView& band) const {
  const auto end = static_cast<std::uint32_t>(band.counters.appended);
  Tail tail{.use = {.band = band.band}, .start = end, .end = end};
  bool in_hole = false;
  for (std::size_t records = 0; tail.start > 0 && records < kMaxRecordsExamined; ++records) {
    ASSIGN_OR_RETURN(const auto append, port_.last_append_before(band.band, tail.start));
    if (!append) return std::nullopt;
    if (in_hole && append->live_blocks > 0) break;
    in_hole = append->live_blocks == 0;
    tail.use.tail_blocks += append->live_blocks;
    tail.start = append->rba;
  }
  if (!in_hole || tail.start == 0 || tail.use.tail_blocks > kMaxTailBlocks) return std::nullopt;
  tail.use.hole_blocks = tail.end - tail.start - tail.use.tail_blocks;
  return tail;
}

bool TailCleaner::is_candidate(const data::BandView& band, bool only_open) const {
  const bool fits = is_open(band) || (!only_open && band.state == data::BandState::kFull);
  const bool has_live_and_dead =
      band.counters.live > 0 && band.counters.live < band.counters.appended;
  return fits && has_live_and_dead && !mover_.has_unreadable(band.band) &&
         !damaged_.contains(band.band) &&
         device_.geometry().band_kinds[band.band.value] != device::BandKind::kConventional;
}

void TailCleaner::note_damaged(BandId band, Errc why) {
  damaged_.insert(band);
  log::error("band {}: its end is not cleaned: {}", band.value, describe(why));
}

std::optional<TailCleaner::Tail> TailCleaner::pick(const std::optional<BandUse>& whole,
                                                   VictimScope scope) {
  const bool is_whole = mode_ == CleanMode::kWhole || mode_ == CleanMode::kGreedy;
  if (is_whole || !device_.capabilities().set_write_pointer) return std::nullopt;
  if (failed_cuts_ >= kMaxFailedCuts) return std::nullopt;
  // A cut makes room, but no free band; the log and the collector need those of the reserve.
  if (!bands_.has_reserve()) return std::nullopt;
  std::vector<data::BandView> bands = bands_.all();
  // A full band that was cut takes data of another age than the data that stays in it. That costs
  // more later than the cut saves (docs/garbage-collection.md).
  const bool only_open =
      mode_ == CleanMode::kAuto ||
      static_cast<std::size_t>(std::ranges::count_if(bands, is_open)) >= kMaxOpenBands;
  std::erase_if(bands, [&](const data::BandView& b) { return !is_candidate(b, only_open); });
  const auto dead = [](const data::BandView& b) { return b.counters.appended - b.counters.live; };
  std::ranges::sort(bands, [&](const data::BandView& a, const data::BandView& b) {
    return dead(a) != dead(b) ? dead(a) > dead(b) : a.band < b.band;
  });
  std::vector<Tail> tails;
  std::vector<TailUse> uses;
  for (std::size_t i = 0; i < std::min(bands.size(), kMaxBandsExamined); ++i) {
    const auto found = find_tail(bands[i]);
    if (!found) note_damaged(bands[i].band, found.error());
    const std::optional<Tail> tail = found ? *found : std::nullopt;
    const std::uint32_t least = std::max(bands[i].blocks / kMinGainShare, 1u);
    const auto better_than = mode_ == CleanMode::kTail ? std::nullopt : whole;
    if (!tail || !tail_pays(tail->use, better_than, least)) continue;
    if (!is_in_scope(tail->use.hole_blocks, tail->end - tail->start, scope)) continue;
    tails.push_back(*tail);
    uses.push_back(tail->use);
  }
  const auto best = pick_tail(uses);
  const auto at = std::ranges::find_if(tails, [&](const Tail& t) { return t.use.band == best; });
  return at == tails.end() ? std::nullopt : std::optional(*at);
}

Result<bool> TailCleaner::clean(const Tail& tail) {
  const BandId band = tail.use.band;
  if (!bands_.seal(band)) return false;
  if (bands_.view(band).counters.appended != tail.end) return false;
  const auto moved = tail.use.tail_blocks > 0 ? mover_.move_all(band, tail.start) : true;
  const bool is_left = mover_.leave_to_failed_bands(band);
  TRY(moved);
  if (is_left || !*moved) return false;
  ASSIGN_OR_RETURN(const bool done, cut(tail));
  if (done) ++counters_.tails_cleaned;
  return done;
}

// Of a band whose cutting has begun: does not throw std::bad_alloc.
Result<> TailCleaner::erase_log_tail(BandId band, std::uint32_t start, std::uint32_t blocks,
                                     const Port::LogTail& records) try {
  return port_.erase_log_tail(band, start, blocks, records);
} catch (const std::bad_alloc&) {
  return fail(Errc::kNoMemory);
}

Result<bool> TailCleaner::cut(const Tail& tail) {
  const BandId band = tail.use.band;
  const std::uint32_t blocks = tail.end - tail.start;
  const auto found = port_.log_tail(band, tail.start, kMaxCutRecords);
  if (!found) note_damaged(band, found.error());
  const std::optional<Port::LogTail> records = found ? *found : std::nullopt;
  if (!records || records->dead_blocks != blocks) return false;  // some block could not be moved
  if (!bands_.begin_cut(band)) return false;
  const auto erased = erase_log_tail(band, tail.start, blocks, *records);
  if (!erased) {
    bands_.finish_cut(band, {}, true);
    if (erased.error() == Errc::kBatchTooLarge) return false;
    if (!is_damage(erased.error()) || port_.has_failed()) return fail(erased.error());
    note_damaged(band, erased.error());
    return false;
  }
  // Rule 2: the blocks cut off are written again only after the erasure is durable.
  const Result<> durable = port_.make_durable();
  const Result<> done = durable ? device_.set_write_pointer(band, tail.start) : durable;
  bands_.finish_cut(band, {blocks, records->append_records, records->delete_records},
                    done.has_value());
  if (!done) {
    ++failed_cuts_;
    log::error("band {}: cannot be cut at {}: {}", band.value, tail.start, describe(done.error()));
  }
  TRY(durable);
  return done.has_value();
}

}  // namespace lazyfs::gc
