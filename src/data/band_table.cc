#include "data/band_table.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/test_hook.h"

namespace lazyfs::data {

std::string to_string(BandState state) {
  switch (state) {
    case BandState::kSuper: return "super";
    case BandState::kLog: return "log";
    case BandState::kFree: return "free";
    case BandState::kOpen: return "open";
    case BandState::kFull: return "used";
    case BandState::kResetting: return "resetting";
    case BandState::kCutting: return "cutting";
    case BandState::kBad: return "bad";
  }
  return "unknown";
}

BandPin::~BandPin() {
  if (table_) table_->unpin(band_);
}

BandTable::BandTable(const device::Geometry& geometry, std::span<const BandId> super_bands,
                     std::span<const BandId> log_bands)
    : bands_(geometry.band_count()) {
  for (std::uint32_t i = 0; i < geometry.band_count(); ++i) {
    bands_[i].blocks = geometry.band_blocks[i];
    bands_[i].is_conventional = geometry.band_kinds[i] == device::BandKind::kConventional;
    largest_band_ = std::max(largest_band_, bands_[i].blocks);
    if (bands_[i].blocks == 0) bands_[i].state = BandState::kBad;
  }
  for (const BandId band : super_bands) bands_.at(band.value).state = BandState::kSuper;
  for (const BandId band : log_bands) bands_.at(band.value).state = BandState::kLog;
  for (std::uint32_t i = 0; i < geometry.band_count(); ++i) {
    const SpaceCounts part = part_of(bands_[i]);
    counts_.total += part.total;
    counts_.unwritten += part.unwritten;
    log_blocks_ += log_part_of(bands_[i]);
    list_locked(i);
  }
  lifespan_ = counts_.total / 4;                // until some have ended
  user_clock_ = kOldLifespans * counts_.total;  // what was there before is old
}

SpaceCounts BandTable::part_of(const Band& band) {
  if (!is_data(band.state) || band.state == BandState::kBad) return {};
  const BandCounters& c = band.counters;
  return {.total = band.blocks,
          .live = c.live,
          .dead = c.appended - c.live,
          .unwritten = band.blocks - c.appended};
}

void BandTable::list_locked(std::uint32_t index) {
  const Band& band = bands_[index];
  const auto list = [index](std::set<std::uint32_t>& bands, bool member) {
    if (member) {
      bands.insert(index);
    } else {
      bands.erase(index);
    }
  };
  list(free_, band.state == BandState::kFree);
  list(open_, band.state == BandState::kOpen);
  list(empty_, is_empty(band));
  list(bad_, band.state == BandState::kBad && band.blocks > 0);
}

template <class Change>
void BandTable::change_locked(BandId id, Change change) {
  Band& band = bands_.at(id.value);
  const SpaceCounts before = part_of(band);
  log_blocks_ -= log_part_of(band);
  change(band);
  log_blocks_ += log_part_of(band);
  const SpaceCounts after = part_of(band);
  counts_.total += after.total - before.total;  // unsigned differences wrap, and sums wrap back
  counts_.live += after.live - before.live;
  counts_.dead += after.dead - before.dead;
  counts_.unwritten += after.unwritten - before.unwritten;
  list_locked(id.value);
}

void BandTable::restore(BandId id, const BandCounters& counters) {
  MutexLock lock(mu_);
  change_locked(id, [&](Band& band) {
    CHECK(band.state == BandState::kFree && counters.live <= counters.appended &&
          counters.appended <= band.blocks);
    band.counters = counters;
    if (counters.appended == band.blocks) {
      band.state = BandState::kFull;
    } else if (counters.appended > 0) {
      band.state = BandState::kOpen;
    }
  });
}

void BandTable::set_bad(BandId id, bool for_good) {
  MutexLock lock(mu_);
  change_locked(id, [for_good](Band& band) {
    band.state = BandState::kBad;
    if (for_good) band.strikes = kMaxStrikes;
  });
}

void BandTable::account_append(BandId id, std::uint32_t blocks, std::uint32_t live,
                               std::uint32_t records) {
  MutexLock lock(mu_);
  const std::uint64_t now = appends_ += std::max(blocks, 1u);
  change_locked(id, [&](Band& band) {
    CHECK(live <= blocks && band.counters.appended + blocks <= band.blocks);
    if (!is_collectors(band.stream)) {
      user_clock_ += blocks;
      band.birth_sum += user_clock_ * blocks;
    }
    if (band.counters.appended == 0) band.begun = user_clock_;
    band.counters.appended += blocks;
    band.counters.live += live;
    band.counters.append_records += records;
    band.last_append = now;
  });
}

void BandTable::account_move(BandId from, BandId to, std::uint32_t blocks) {
  MutexLock lock(mu_);
  const Band& source = bands_.at(from.value);
  if (source.counters.appended == 0) return;
  bands_.at(to.value).birth_sum += source.birth_sum / source.counters.appended * blocks;
}

std::uint64_t BandTable::age_locked(BandId id) const {
  const Band& band = bands_.at(id.value);
  const std::uint64_t blocks = std::max<std::uint64_t>(band.counters.appended, 1);
  return user_clock_ - std::min(user_clock_, band.birth_sum / blocks);
}

bool BandTable::is_young(BandId id) const {
  MutexLock lock(mu_);
  return id.value < bands_.size() && age_locked(id) < kYoungLifespans * lifespan_;
}

// As SepBIT does it (Wang et al., "Separating Data via Block Invalidation Time Inference for Write
// Amplification Reduction in Log-Structured Storage", FAST 2022), with one age for each band.
Stream BandTable::stream_for_moved(BandId id) const {
  MutexLock lock(mu_);
  const std::uint64_t age = age_locked(id);
  if (age < kYoungLifespans * lifespan_) return Stream::kCollector;
  return age < kOldLifespans * lifespan_ ? Stream::kCollectorMature : Stream::kCollectorOld;
}

void BandTable::account_death(BandId id, std::uint32_t blocks, std::uint32_t records) {
  MutexLock lock(mu_);
  if (id.value >= bands_.size()) return;  // a damaged volume's files may claim anything
  change_locked(id, [&](Band& band) {
    BandCounters& c = band.counters;
    // A band may account for less than its extents claim, if it was set aside at the mount or the
    // volume is damaged. It then keeps a block for ever, so that it is not reset with what is left.
    const bool is_bad = band.state == BandState::kBad;
    if (c.live < blocks && !is_bad && std::exchange(band.strikes, kMaxStrikes) < kMaxStrikes) {
      log::error("band {}: more of it dies than it counts as live", id.value);
    }
    c.live -= std::min<std::uint64_t>(blocks, c.live);
    const bool is_doubtful = !is_bad && band.strikes >= kMaxStrikes;
    if (is_doubtful && c.live == 0) c.live = std::min<std::uint64_t>(1, c.appended);
    c.delete_records += records;
  });
  deaths_ += blocks;
}

// ---- space --------------------------------------------------------------------------------------

SpaceCounts BandTable::space_locked() const {
  SpaceCounts counts = counts_;
  counts.free_bands = static_cast<std::uint32_t>(free_.size());
  // Cleaning near the end pays only when some blocks stay dead: 1/32 beside the reserve's bands.
  const std::uint64_t log_at_most =
      (counts.total + log_blocks_) / kLogShare + std::uint64_t{kLogSpareBands} * largest_band_;
  const std::uint64_t log_growth = log_at_most > log_blocks_ ? log_at_most - log_blocks_ : 0;
  counts.kept_back = std::min(counts.total, reserve_blocks() + log_growth + counts.total / 32);
  const std::uint64_t taken = counts.live + counts.reserved + counts.kept_back;
  counts.available = counts.total > taken ? counts.total - taken : 0;
  return counts;
}

bool BandTable::reserve(std::uint64_t blocks) {
  MutexLock lock(mu_);
  if (space_locked().available < blocks && !rule_is_disabled(Rule::kReserveSpace)) return false;
  counts_.reserved += blocks;
  return true;
}

bool BandTable::reserve_to_overwrite(std::uint64_t fresh, std::uint64_t overwriting) {
  MutexLock lock(mu_);
  const SpaceCounts counts = space_locked();
  const std::uint64_t beyond =
      std::max(counts.total / kOverwriteShare, std::min(kLargeWriteBlocks, reserve_blocks() / 2));
  const std::uint64_t taken = counts.live + counts.reserved + counts.kept_back;
  if (counts.available < fresh || taken + fresh + overwriting > counts.total + beyond) return false;
  counts_.reserved += fresh + overwriting;
  return true;
}

void BandTable::reserve_always(std::uint64_t blocks) {
  MutexLock lock(mu_);
  counts_.reserved += blocks;
}

void BandTable::release(std::uint64_t blocks) {
  MutexLock lock(mu_);
  CHECK(counts_.reserved >= blocks);
  counts_.reserved -= blocks;
}

bool BandTable::has_reserve() const {
  MutexLock lock(mu_);
  return free_.size() >= kReserveBands;
}

BandTable::UserRoom BandTable::user_room() const {
  MutexLock lock(mu_);
  UserRoom room;
  if (free_.size() >= kReserveBands) {
    room.free_bands = static_cast<std::uint32_t>(free_.size()) - (kReserveBands - 1);
  }
  room.blocks = std::uint64_t{room.free_bands} * largest_band_;
  for (const std::uint32_t i : open_) {
    const Band& band = bands_[i];
    if (!is_collectors(band.stream)) room.blocks += band.blocks - band.counters.appended;
  }
  return room;
}

SpaceCounts BandTable::space() const {
  MutexLock lock(mu_);
  return space_locked();
}

// ---- open bands ---------------------------------------------------------------------------------

BandTable::OpenChoice BandTable::choices(Stream stream, std::uint32_t max_open, BandId free_from,
                                         bool anywhere) const {
  MutexLock lock(mu_);
  OpenChoice choice;
  std::vector<BandView> of_others;
  std::uint32_t open = 0;
  for (const std::uint32_t i : open_) {
    const Band& band = bands_[i];
    ++open;
    if (band.leased) {
      choice.own_leased |= band.stream == stream;
    } else {
      (band.stream == stream ? choice.open : of_others).push_back(view_locked(i));
    }
  }
  const auto offer_free = [&](std::uint32_t keep) REQUIRES(mu_) {
    if (open >= max_open || free_.size() <= keep) return;
    const auto at = free_.lower_bound(free_from.value);
    choice.free = BandId{at == free_.end() ? *free_.begin() : *at};
  };
  // Cleaning a band begins at most one and frees one.
  offer_free(!is_collectors(stream) ? kReserveBands - 1 : stream == Stream::kCollector ? 0 : 1);
  const bool may_mix = anywhere || is_collectors(stream) || open >= max_open;
  if (choice.open.empty() && !choice.free && !choice.own_leased && may_mix) {
    const auto is_alike = [&](const BandView& other) {
      return is_collectors(other.stream) == is_collectors(stream);
    };
    if (std::ranges::any_of(of_others, is_alike)) std::erase_if(of_others, std::not_fn(is_alike));
    choice.open = std::move(of_others);
    // The collector's other streams do without a band of their own as long as there is another.
    if (choice.open.empty() && is_collectors(stream)) offer_free(0);
  }
  return choice;
}

bool BandTable::lease(BandId id, Stream stream) {
  MutexLock lock(mu_);
  const Band& band = bands_.at(id.value);
  if (band.leased || (band.state != BandState::kFree && band.state != BandState::kOpen)) {
    return false;
  }
  change_locked(id, [&](Band& leased) {
    leased.state = BandState::kOpen;
    leased.stream = stream;
    leased.leased = true;
  });
  return true;
}

void BandTable::end_lease(BandId id, bool sealed, bool bad, bool is_its_fault) {
  MutexLock lock(mu_);
  change_locked(id, [&](Band& band) {
    CHECK(band.leased && band.state == BandState::kOpen);
    band.leased = false;
    if (bad) {
      band.state = BandState::kBad;
      if (is_its_fault) ++band.strikes;
    } else if (sealed || band.counters.appended == band.blocks) {
      band.state = BandState::kFull;
    } else if (band.counters.appended == 0) {
      band.state = BandState::kFree;
    }
  });
}

bool BandTable::seal(BandId id) {
  MutexLock lock(mu_);
  const Band& band = bands_.at(id.value);
  if (band.state == BandState::kOpen && !band.leased) {
    change_locked(id, [](Band& open) { open.state = BandState::kFull; });
  }
  return band.state == BandState::kFull;
}

// ---- reset --------------------------------------------------------------------------------------

BandPin BandTable::pin(BandId id) {
  MutexLock lock(mu_);
  ++bands_.at(id.value).pins;
  return BandPin(this, id);
}

void BandTable::unpin(BandId id) {
  MutexLock lock(mu_);
  CHECK(bands_[id.value].pins > 0);
  --bands_[id.value].pins;
}

std::vector<BandId> BandTable::empty_bands() {
  MutexLock lock(mu_);
  std::vector<BandId> empty;
  for (const std::uint32_t i : empty_) {
    const bool is_read = bands_[i].pins > 0 && !rule_is_disabled(Rule::kAwaitReaders);
    if (!bands_[i].leased && !is_read) empty.push_back(BandId{i});
  }
  for (const BandId id : empty) {
    change_locked(id, [](Band& band) { band.state = BandState::kFull; });
  }
  return empty;
}

bool BandTable::begin_reset(BandId id) {
  MutexLock lock(mu_);
  const Band& band = bands_.at(id.value);
  const bool is_read = band.pins > 0 && !rule_is_disabled(Rule::kAwaitReaders);
  if (band.state != BandState::kFull || is_read || !is_empty(band)) return false;
  change_locked(id, [](Band& full) { full.state = BandState::kResetting; });
  return true;
}

void BandTable::finish_reset(BandId id, bool good) {
  MutexLock lock(mu_);
  change_locked(id, [&](Band& band) {
    CHECK(band.state == BandState::kResetting);
    if (band.stream == Stream::kRewritten && band.last_append > 0) {
      constexpr std::uint64_t kWeight = 16;
      lifespan_ = (lifespan_ * (kWeight - 1) + (user_clock_ - band.begun)) / kWeight;
    }
    band.birth_sum = 0;
    band.counters = BandCounters{};
    band.state = good ? BandState::kFree : BandState::kBad;
    if (!good) ++band.strikes;
  });
}

// ---- failing ------------------------------------------------------------------------------------

void BandTable::note_unreadable(BandId id) {
  MutexLock lock(mu_);
  const Band& band = bands_.at(id.value);
  if (is_data(band.state) && band.state != BandState::kBad) unreadable_.insert(id);
}

std::vector<BandId> BandTable::take_unreadable() {
  MutexLock lock(mu_);
  std::vector<BandId> taken(unreadable_.begin(), unreadable_.end());
  unreadable_.clear();
  return taken;
}

std::vector<BandView> BandTable::bad_bands() const {
  MutexLock lock(mu_);
  std::vector<BandView> views;
  views.reserve(bad_.size());
  for (const std::uint32_t i : bad_) views.push_back(view_locked(i));
  return views;
}

bool BandTable::begin_second_life(BandId id) {
  MutexLock lock(mu_);
  const Band& band = bands_.at(id.value);
  const bool may = band.state == BandState::kBad && band.counters.live == 0 && band.pins == 0 &&
                   band.strikes < kMaxStrikes && band.blocks > 0;
  if (may) change_locked(id, [](Band& bad) { bad.state = BandState::kResetting; });
  return may;
}

// ---- cut ----------------------------------------------------------------------------------------

bool BandTable::begin_cut(BandId id) {
  MutexLock lock(mu_);
  const Band& band = bands_.at(id.value);
  const bool is_read = band.pins > 0 && !rule_is_disabled(Rule::kAwaitReaders);
  if (band.state != BandState::kFull || is_read || band.counters.live == 0) return false;
  change_locked(id, [](Band& full) { full.state = BandState::kCutting; });
  return true;
}

void BandTable::finish_cut(BandId id, const Cut& cut, bool good) {
  MutexLock lock(mu_);
  change_locked(id, [&](Band& band) {
    CHECK(band.state == BandState::kCutting);
    BandCounters& c = band.counters;
    if (c.live + cut.blocks > c.appended) {  // a damaged volume: its records contradict its summary
      band.state = BandState::kBad;
      return;
    }
    const std::uint64_t born = band.birth_sum / c.appended;
    c.appended -= cut.blocks;
    c.append_records -= cut.append_records;
    c.delete_records -= cut.delete_records;
    band.birth_sum = born * c.appended;
    band.state = !good                      ? BandState::kBad
                 : c.appended < band.blocks ? BandState::kOpen
                                            : BandState::kFull;
  });
}

// ---- log bands ----------------------------------------------------------------------------------

Result<BandId> BandTable::take_for_log(std::uint32_t min_blocks) {
  MutexLock lock(mu_);
  if (free_.size() <= kLogKeepsBands) return fail(Errc::kNoSpace);
  const auto serves = [&](std::uint32_t i) {
    return !bands_[i].is_conventional && bands_[i].blocks >= min_blocks;
  };
  // Near the centre, where the log is; the lower one of two.
  const auto centre = static_cast<std::uint32_t>(bands_.size() / 2);
  const auto from = free_.lower_bound(centre);
  const auto above = std::find_if(from, free_.end(), serves);
  const auto below = std::find_if(std::make_reverse_iterator(from), free_.rend(), serves);
  if (above == free_.end() && below == free_.rend()) return fail(Errc::kNoSpace);
  const bool lower =
      below != free_.rend() && (above == free_.end() || centre - *below <= *above - centre);
  const BandId nearest{lower ? *below : *above};
  change_locked(nearest, [](Band& band) { band.state = BandState::kLog; });
  return nearest;
}

void BandTable::give_back_from_log(BandId id) {
  MutexLock lock(mu_);
  change_locked(id, [](Band& band) {
    CHECK(band.state == BandState::kLog);
    band.state = BandState::kFree;
    band.counters = BandCounters{};
  });
}

// ---- looking ------------------------------------------------------------------------------------

BandView BandTable::view_locked(std::uint32_t index) const {
  const Band& band = bands_[index];
  const bool is_given_up = band.state == BandState::kBad && band.strikes >= kMaxStrikes;
  return {BandId{index},    band.state,  band.blocks, band.counters,
          band.last_append, band.stream, is_given_up};
}

BandView BandTable::view(BandId band) const {
  MutexLock lock(mu_);
  CHECK(band.value < bands_.size());
  return view_locked(band.value);
}

std::vector<BandView> BandTable::all() const {
  MutexLock lock(mu_);
  std::vector<BandView> views;
  views.reserve(bands_.size());
  for (std::uint32_t i = 0; i < bands_.size(); ++i) views.push_back(view_locked(i));
  return views;
}

std::uint64_t BandTable::deaths() const {
  MutexLock lock(mu_);
  return deaths_;
}

bool BandTable::is_data(BandId band) const {
  MutexLock lock(mu_);
  return band.value < bands_.size() && is_data(bands_[band.value].state);
}

std::string BandTable::check_invariants() const {
  MutexLock lock(mu_);
  SpaceCounts sums{.reserved = counts_.reserved};
  std::uint64_t log_blocks = 0;
  for (std::uint32_t i = 0; i < bands_.size(); ++i) {
    const Band& b = bands_[i];
    const std::string where = " (band " + std::to_string(i) + ", " + to_string(b.state) + ")";
    const bool lists_right = free_.contains(i) == (b.state == BandState::kFree) &&
                             open_.contains(i) == (b.state == BandState::kOpen) &&
                             empty_.contains(i) == is_empty(b) &&
                             bad_.contains(i) == (b.state == BandState::kBad && b.blocks > 0);
    if (!lists_right) return "B7" + where;
    log_blocks += log_part_of(b);
    if (!is_data(b.state)) continue;
    const BandCounters& c = b.counters;
    if (c.live > c.appended || c.appended > b.blocks) return "B1" + where;
    if (b.state == BandState::kFree && (c.appended > 0 || b.leased)) return "B2" + where;
    if (b.leased && b.state != BandState::kOpen) return "B3" + where;
    if (b.state == BandState::kResetting && (c.live > 0 || b.pins > 0)) return "B4" + where;
    const SpaceCounts part = part_of(b);
    sums.total += part.total;
    sums.live += part.live;
    sums.dead += part.dead;
    sums.unwritten += part.unwritten;
  }
  if (sums != counts_ || log_blocks != log_blocks_) return "B7 (sums)";
  return "";
}

}  // namespace lazyfs::data
