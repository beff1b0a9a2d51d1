#include "data/band_table.h"

#include <algorithm>

#include "base/check.h"
#include "base/log.h"
#include "base/test_hook.h"

namespace lazyfs::data {

BandPin::~BandPin() {
  if (table_) table_->unpin(band_);
}

BandTable::BandTable(const device::Geometry& geometry, std::span<const BandId> super_bands,
                     std::span<const BandId> log_bands)
    : bands_(geometry, super_bands, log_bands),
      account_(bands_),
      ages_(bands_.count(), bands_.blocks().total),
      failures_(bands_.count()),
      band_count_(bands_.count()),
      largest_band_(bands_.largest_blocks()),
      reserve_blocks_(account_.reserve_blocks()) {}

void BandTable::restore(BandId id, const BandCounters& counters) {
  MutexLock lock(mu_);
  bands_.change(id, [&](Band& band) {
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
  bands_.change(id, [](Band& band) { band.state = BandState::kBad; });
  if (for_good) failures_.give_up(id);
}

// ---- growing ------------------------------------------------------------------------------------

void BandTable::add_new(const device::Geometry& geometry) {
  MutexLock lock(mu_);
  bands_.add_new(geometry);
  ages_.set_band_count(bands_.count());
  failures_.set_band_count(bands_.count());
  band_count_.store(bands_.count(), std::memory_order_release);
}

// ---- accounting ---------------------------------------------------------------------------------

void BandTable::account_append(BandId id, std::uint32_t blocks, std::uint32_t live,
                               std::uint32_t records) {
  MutexLock lock(mu_);
  appends_ += std::max(blocks, 1u);
  failures_.note_written(id);
  ages_.appended(id, bands_[id].stream, bands_[id].counters.appended, blocks);
  bands_.change(id, [&, now = appends_](Band& band) {
    CHECK(live <= blocks && band.counters.appended + blocks <= band.blocks);
    band.counters.appended += blocks;
    band.counters.live += live;
    band.counters.append_records += records;
    band.last_append = now;
  });
}

void BandTable::account_death(BandId id, std::uint32_t blocks, std::uint32_t records) {
  if (id.value >= band_count()) return;  // a damaged volume's files may claim anything
  if (!account_death_now(id, blocks, records)) {
    log::error("band {}: more of it dies than it counts as live", id.value);
  }
}

// False when the band counts fewer live blocks than have died, and did not before. A band may count
// fewer than its extents claim, if it was set aside at the mount or the volume is damaged. It then
// keeps a live block for ever, so that it is not reset while files still claim blocks of it.
bool BandTable::account_death_now(BandId id, std::uint32_t blocks, std::uint32_t records) {
  MutexLock lock(mu_);
  const bool is_bad = bands_[id].state == BandState::kBad;
  const bool is_new =
      bands_[id].counters.live < blocks && !is_bad && !failures_.is_doubtful(id);
  if (is_new) failures_.doubt(id);
  const bool is_doubtful = !is_bad && failures_.is_doubtful(id);
  bands_.change(id, [&](Band& band) {
    BandCounters& c = band.counters;
    c.live -= std::min<std::uint64_t>(blocks, c.live);
    if (is_doubtful && c.live == 0) c.live = std::min<std::uint64_t>(1, c.appended);
    c.delete_records += records;
  });
  deaths_ += blocks;
  return !is_new;
}

void BandTable::account_move(BandId from, BandId to, std::uint32_t blocks) {
  MutexLock lock(mu_);
  ages_.moved(from, bands_[from].counters.appended, to, blocks);
}

// ---- space --------------------------------------------------------------------------------------

bool BandTable::reserve(std::uint64_t blocks) {
  MutexLock lock(mu_);
  return account_.reserve(blocks);
}

bool BandTable::reserve_to_overwrite(std::uint64_t fresh, std::uint64_t overwriting) {
  MutexLock lock(mu_);
  return account_.reserve_to_overwrite(fresh, overwriting);
}

void BandTable::release(std::uint64_t blocks) {
  MutexLock lock(mu_);
  account_.release(blocks);
}

SpaceCounts BandTable::space() const {
  MutexLock lock(mu_);
  return account_.counts();
}

std::uint64_t BandTable::user_room() const {
  MutexLock lock(mu_);
  return account_.user_room();
}

bool BandTable::has_reserve() const {
  MutexLock lock(mu_);
  return account_.has_reserve();
}

// ---- open bands ---------------------------------------------------------------------------------

OpenChoice BandTable::choices(Stream stream, std::uint32_t max_open, BandId free_from,
                              bool anywhere) const {
  MutexLock lock(mu_);
  return choose_open(bands_, {stream, max_open, free_from, anywhere});
}

bool BandTable::lease(BandId id, Stream stream) {
  MutexLock lock(mu_);
  const Band& band = bands_[id];
  if (band.leased || !takes_appends(band.state)) return false;
  bands_.change(id, [&](Band& leased) {
    leased.state = BandState::kOpen;
    leased.stream = stream;
    leased.leased = true;
  });
  return true;
}

void BandTable::end_lease(BandId id, bool sealed, bool bad, Blame blame) {
  MutexLock lock(mu_);
  bands_.change(id, [&](Band& band) {
    CHECK(band.leased && band.state == BandState::kOpen);
    band.leased = false;
    if (bad) {
      band.state = BandState::kBad;
    } else if (sealed || band.counters.appended == band.blocks) {
      band.state = BandState::kFull;
    } else if (band.counters.appended == 0) {
      band.state = BandState::kFree;
    }
  });
  if (bad) failures_.blame(id, blame);
}

bool BandTable::seal(BandId id) {
  MutexLock lock(mu_);
  if (bands_[id].state == BandState::kOpen && !bands_[id].leased) {
    bands_.change(id, [](Band& open) { open.state = BandState::kFull; });
  }
  return bands_[id].state == BandState::kFull;
}

std::vector<BandId> BandTable::seal_all_but(std::size_t most) {
  MutexLock lock(mu_);
  std::vector<std::pair<std::uint64_t, BandId>> open;  // by room
  for (const std::uint32_t i : bands_.open()) {
    const Band& band = bands_[BandId{i}];
    if (band.is_conventional || band.leased) continue;
    open.emplace_back(room_in(band), BandId{i});
  }
  std::ranges::sort(open);
  open.resize(open.size() > most ? open.size() - most : 0);
  std::vector<BandId> sealed;
  for (const auto& [room, id] : open) {
    bands_.change(id, [](Band& band) { band.state = BandState::kFull; });
    sealed.push_back(id);
  }
  return sealed;
}

// ---- reset --------------------------------------------------------------------------------------

BandPin BandTable::pin(BandId id) {
  MutexLock lock(mu_);
  bands_.pin(id);
  return BandPin(this, id);
}

void BandTable::unpin(BandId id) {
  MutexLock lock(mu_);
  bands_.unpin(id);
}

bool BandTable::is_used_locked(BandId id) const {
  const bool is_read = bands_[id].pins > 0 && !rule_is_disabled(Rule::kAwaitReaders);
  return is_read || bands_[id].leased;
}

bool BandTable::has_empty_bands() const {
  MutexLock lock(mu_);
  return std::ranges::any_of(bands_.empty(), [this](std::uint32_t i) REQUIRES(mu_) {
    return !is_used_locked(BandId{i});
  });
}

std::vector<BandId> BandTable::empty_bands() {
  MutexLock lock(mu_);
  std::vector<BandId> empty;
  for (const std::uint32_t i : bands_.empty()) {
    if (!is_used_locked(BandId{i})) empty.push_back(BandId{i});
  }
  for (const BandId id : empty) {
    bands_.change(id, [](Band& band) { band.state = BandState::kFull; });
  }
  return empty;
}

bool BandTable::begin_reset(BandId id) {
  MutexLock lock(mu_);
  const Band& band = bands_[id];
  if (band.state != BandState::kFull || is_used_locked(id) || !is_empty(band)) return false;
  bands_.change(id, [](Band& full) { full.state = BandState::kResetting; });
  return true;
}

void BandTable::finish_reset(BandId id, bool good, Blame blame) {
  MutexLock lock(mu_);
  ages_.reset(id, bands_[id].stream == Stream::kRewritten);
  bands_.change(id, [&](Band& band) {
    CHECK(band.state == BandState::kResetting);
    band.counters = BandCounters{};
    band.state = good ? BandState::kFree : BandState::kBad;
  });
  if (!good) failures_.blame(id, blame);
}

// ---- failing ------------------------------------------------------------------------------------

void BandTable::note_unreadable(BandId id) {
  MutexLock lock(mu_);
  const BandState state = bands_[id].state;
  if (data::is_data(state) && state != BandState::kBad) failures_.note_unreadable(id);
}

std::vector<BandId> BandTable::take_unreadable() {
  MutexLock lock(mu_);
  return failures_.take_unreadable();
}

std::vector<BandView> BandTable::bad_bands() const {
  MutexLock lock(mu_);
  std::vector<BandView> views;
  views.reserve(bands_.bad().size());
  for (const std::uint32_t i : bands_.bad()) views.push_back(view_locked(BandId{i}));
  return views;
}

bool BandTable::begin_retry(BandId id) {
  MutexLock lock(mu_);
  const Band& band = bands_[id];
  const bool may = band.state == BandState::kBad && band.counters.live == 0 && band.pins == 0 &&
                   !failures_.is_given_up(id) && band.blocks > 0;
  if (may) bands_.change(id, [](Band& bad) { bad.state = BandState::kResetting; });
  return may;
}

// ---- cut ----------------------------------------------------------------------------------------

bool BandTable::begin_cut(BandId id) {
  MutexLock lock(mu_);
  const Band& band = bands_[id];
  if (band.state != BandState::kFull || is_used_locked(id) || band.counters.live == 0) return false;
  bands_.change(id, [](Band& full) { full.state = BandState::kCutting; });
  return true;
}

void BandTable::finish_cut(BandId id, const Cut& cut, bool good) {
  MutexLock lock(mu_);
  const std::uint64_t before = bands_[id].counters.appended;
  bands_.change(id, [&](Band& band) {
    CHECK(band.state == BandState::kCutting);
    BandCounters& c = band.counters;
    if (c.live + cut.blocks > before) {  // a damaged volume: its records contradict its summary
      band.state = BandState::kBad;
      return;
    }
    c.appended -= cut.blocks;
    c.append_records -= cut.append_records;
    c.delete_records -= cut.delete_records;
    band.state = !good                      ? BandState::kBad
                 : c.appended < band.blocks ? BandState::kOpen
                                            : BandState::kFull;
  });
  ages_.cut(id, before, bands_[id].counters.appended);
}

// ---- the metadata log's bands -------------------------------------------------------------------

Result<BandId> BandTable::take_for_log(std::uint32_t min_blocks) {
  MutexLock lock(mu_);
  const auto nearest = choose_for_log(bands_, min_blocks);
  if (!nearest || !account_.log_may_take(bands_[*nearest].blocks)) return fail(Errc::kNoSpace);
  bands_.change(*nearest, [](Band& band) { band.state = BandState::kLog; });
  return *nearest;
}

void BandTable::give_back_from_log(BandId id) {
  MutexLock lock(mu_);
  bands_.change(id, [](Band& band) {
    CHECK(band.state == BandState::kLog);
    band.state = BandState::kFree;
    band.counters = BandCounters{};
  });
}

// ---- reading ------------------------------------------------------------------------------------

bool BandTable::is_young(BandId id) const {
  MutexLock lock(mu_);
  return id.value < bands_.count() && ages_.is_young(id, bands_[id].counters.appended);
}

Stream BandTable::stream_for_moved(BandId id) const {
  MutexLock lock(mu_);
  return ages_.stream_for_moved(id, bands_[id].counters.appended);
}

BandView BandTable::view_locked(BandId id) const {
  BandView view = bands_.view(id);
  const bool is_bad = view.state == BandState::kBad;
  view.is_suspect = is_bad && failures_.is_suspect(id);
  view.is_given_up = is_bad && failures_.is_given_up(id);
  return view;
}

BandView BandTable::view(BandId id) const {
  MutexLock lock(mu_);
  return view_locked(id);
}

std::vector<BandView> BandTable::all() const {
  MutexLock lock(mu_);
  std::vector<BandView> views;
  views.reserve(bands_.count());
  for (std::uint32_t i = 0; i < bands_.count(); ++i) views.push_back(view_locked(BandId{i}));
  return views;
}

std::uint64_t BandTable::deaths() const {
  MutexLock lock(mu_);
  return deaths_;
}

bool BandTable::is_data(BandId id) const {
  MutexLock lock(mu_);
  return id.value < bands_.count() && data::is_data(bands_[id].state);
}

std::string BandTable::check_invariants() const {
  MutexLock lock(mu_);
  return bands_.check_invariants();
}

}  // namespace lazyfs::data
