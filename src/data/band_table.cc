#include "data/band_table.h"

#include <algorithm>

#include "base/check.h"

namespace lazyfs::data {

std::string to_string(BandState state) {
  switch (state) {
    case BandState::kSuper: return "super";
    case BandState::kLog: return "log";
    case BandState::kFree: return "free";
    case BandState::kOpen: return "open";
    case BandState::kFull: return "used";
    case BandState::kResetting: return "resetting";
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
    largest_band_ = std::max(largest_band_, bands_[i].blocks);
    if (bands_[i].blocks == 0) bands_[i].state = BandState::kBad;
  }
  for (const BandId band : super_bands) bands_.at(band.value).state = BandState::kSuper;
  for (const BandId band : log_bands) bands_.at(band.value).state = BandState::kLog;
}

void BandTable::restore(BandId id, const BandCounters& counters) {
  MutexLock lock(mu_);
  Band& band = bands_.at(id.value);
  CHECK(band.state == BandState::kFree && counters.live <= counters.appended &&
        counters.appended <= band.blocks);
  band.counters = counters;
  if (counters.appended == band.blocks) {
    band.state = BandState::kFull;
  } else if (counters.appended > 0) {
    band.state = BandState::kOpen;
  }
}

void BandTable::set_bad(BandId id) {
  MutexLock lock(mu_);
  bands_.at(id.value).state = BandState::kBad;
}

void BandTable::account_append(BandId id, std::uint32_t blocks, std::uint32_t live,
                               std::uint32_t records) {
  MutexLock lock(mu_);
  Band& band = bands_.at(id.value);
  CHECK(live <= blocks && band.counters.appended + blocks <= band.blocks);
  band.counters.appended += blocks;
  band.counters.live += live;
  band.counters.append_records += records;
  band.last_append = ++appends_;
}

void BandTable::account_death(BandId id, std::uint32_t blocks, std::uint32_t records) {
  MutexLock lock(mu_);
  Band& band = bands_.at(id.value);
  // A band that was set aside at the mount may account for less than its extents claim.
  CHECK(band.counters.live >= blocks || band.state == BandState::kBad);
  band.counters.live -= std::min<std::uint64_t>(blocks, band.counters.live);
  band.counters.delete_records += records;
}

// ---- space --------------------------------------------------------------------------------------

std::uint32_t BandTable::free_bands_locked() const {
  return static_cast<std::uint32_t>(
      std::ranges::count(bands_, BandState::kFree, [](const Band& b) { return b.state; }));
}

SpaceCounts BandTable::space_locked() const {
  SpaceCounts counts;
  for (const Band& band : bands_) {
    if (!is_data(band.state)) continue;
    if (band.state == BandState::kBad) continue;
    counts.total += band.blocks;
    counts.live += band.counters.live;
    counts.dead += band.counters.appended - band.counters.live;
    counts.unwritten += band.blocks - band.counters.appended;
    if (band.state == BandState::kFree) ++counts.free_bands;
  }
  counts.reserved = counts_.reserved;
  // Cleaning near the end pays only when some blocks stay dead: 1/32 of the bands beside the reserve.
  counts.kept_back = std::min<std::uint64_t>(
      counts.total, std::uint64_t{kReserveBands} * largest_band_ + counts.total / 32);
  const std::uint64_t taken = counts.live + counts.reserved + counts.kept_back;
  counts.available = counts.total > taken ? counts.total - taken : 0;
  return counts;
}

bool BandTable::reserve(std::uint64_t blocks) {
  MutexLock lock(mu_);
  if (space_locked().available < blocks) return false;
  counts_.reserved += blocks;
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

SpaceCounts BandTable::space() const {
  MutexLock lock(mu_);
  return space_locked();
}

// ---- open bands ---------------------------------------------------------------------------------

BandTable::OpenChoice BandTable::choices(Stream stream, std::uint32_t max_open) const {
  MutexLock lock(mu_);
  OpenChoice choice;
  std::uint32_t open = 0;
  std::optional<BandId> first_free;
  for (std::uint32_t i = 0; i < bands_.size(); ++i) {
    const Band& band = bands_[i];
    if (band.state == BandState::kFree && !first_free) first_free = BandId{i};
    if (band.state != BandState::kOpen) continue;
    if (band.leased) {
      ++open;
      choice.others_leased = true;
    } else if (band.stream == stream && band.counters.appended < band.blocks) {
      ++open;
      choice.open.push_back(view_locked(i));
    }
  }
  const std::uint32_t keep = stream == Stream::kCollector ? 0 : kReserveBands - 1;
  if (open < max_open && first_free && free_bands_locked() > keep) choice.free = first_free;
  return choice;
}

bool BandTable::lease(BandId id, Stream stream) {
  MutexLock lock(mu_);
  Band& band = bands_.at(id.value);
  if (band.leased) return false;
  if (band.state == BandState::kFree) {
    band.state = BandState::kOpen;
    band.stream = stream;
  } else if (band.state != BandState::kOpen || band.stream != stream) {
    return false;
  }
  band.leased = true;
  return true;
}

void BandTable::end_lease(BandId id, bool sealed, bool bad) {
  MutexLock lock(mu_);
  Band& band = bands_.at(id.value);
  CHECK(band.leased && band.state == BandState::kOpen);
  band.leased = false;
  if (bad) {
    band.state = BandState::kBad;
  } else if (sealed || band.counters.appended == band.blocks) {
    band.state = BandState::kFull;
  } else if (band.counters.appended == 0) {
    band.state = BandState::kFree;
  }
}

bool BandTable::seal(BandId id) {
  MutexLock lock(mu_);
  Band& band = bands_.at(id.value);
  if (band.state == BandState::kOpen && !band.leased) band.state = BandState::kFull;
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

std::vector<BandId> BandTable::empty_bands() const {
  MutexLock lock(mu_);
  std::vector<BandId> empty;
  for (std::uint32_t i = 0; i < bands_.size(); ++i) {
    const Band& band = bands_[i];
    const bool written = band.state == BandState::kOpen || band.state == BandState::kFull;
    if (written && !band.leased && band.pins == 0 && band.counters.live == 0 &&
        band.counters.appended > 0) {
      empty.push_back(BandId{i});
    }
  }
  return empty;
}

bool BandTable::begin_reset(BandId id) {
  MutexLock lock(mu_);
  Band& band = bands_.at(id.value);
  const bool written = band.state == BandState::kOpen || band.state == BandState::kFull;
  if (!written || band.leased || band.pins > 0 || band.counters.live > 0) return false;
  band.state = BandState::kResetting;
  return true;
}

void BandTable::finish_reset(BandId id, bool good) {
  MutexLock lock(mu_);
  Band& band = bands_.at(id.value);
  CHECK(band.state == BandState::kResetting);
  band.counters = BandCounters{};
  band.state = good ? BandState::kFree : BandState::kBad;
}

// ---- log bands ----------------------------------------------------------------------------------

Result<BandId> BandTable::take_for_log() {
  MutexLock lock(mu_);
  if (free_bands_locked() <= kLogKeepsBands) return fail(Errc::kNoSpace);
  // Near the centre, where the log is.
  const auto centre = static_cast<std::uint32_t>(bands_.size() / 2);
  std::optional<std::uint32_t> best;
  const auto distance = [&](std::uint32_t i) { return i > centre ? i - centre : centre - i; };
  for (std::uint32_t i = 0; i < bands_.size(); ++i) {
    if (bands_[i].state == BandState::kFree && (!best || distance(i) < distance(*best))) best = i;
  }
  if (!best) return fail(Errc::kNoSpace);
  bands_[*best].state = BandState::kLog;
  return BandId{*best};
}

void BandTable::give_back_from_log(BandId id) {
  MutexLock lock(mu_);
  Band& band = bands_.at(id.value);
  CHECK(band.state == BandState::kLog);
  band.state = BandState::kFree;
  band.counters = BandCounters{};
}

// ---- looking ------------------------------------------------------------------------------------

BandView BandTable::view_locked(std::uint32_t index) const {
  const Band& band = bands_[index];
  return {BandId{index}, band.state, band.blocks, band.counters, band.last_append};
}

BandView BandTable::view(BandId band) const {
  MutexLock lock(mu_);
  CHECK(band.value < bands_.size());
  return view_locked(band.value);
}

std::vector<BandView> BandTable::all() const {
  MutexLock lock(mu_);
  std::vector<BandView> views;
  for (std::uint32_t i = 0; i < bands_.size(); ++i) views.push_back(view_locked(i));
  return views;
}

bool BandTable::is_data(BandId band) const {
  MutexLock lock(mu_);
  return band.value < bands_.size() && is_data(bands_[band.value].state);
}

std::string BandTable::check_invariants() const {
  MutexLock lock(mu_);
  for (std::uint32_t i = 0; i < bands_.size(); ++i) {
    const Band& b = bands_[i];
    const std::string where = " (band " + std::to_string(i) + ", " + to_string(b.state) + ")";
    if (!is_data(b.state)) continue;
    if (b.counters.live > b.counters.appended || b.counters.appended > b.blocks) return "B1" + where;
    if (b.state == BandState::kFree && (b.counters.appended > 0 || b.leased)) return "B2" + where;
    if (b.leased && b.state != BandState::kOpen) return "B3" + where;
    if (b.state == BandState::kResetting && (b.counters.live > 0)) return "B4" + where;
  }
  return "";
}

}  // namespace lazyfs::data
