#include "gc/collector.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/log.h"

namespace lazyfs::gc {
namespace {

// Writers need not help while they can append to twice this many bands.
constexpr double kBandsKept = 2;
// For a writer that would fail otherwise: any dead block is worth cleaning for.
constexpr VictimScope kAnything{.with_open = true};
// Below an eighth dead, more than seven blocks would be moved for each block gained.
constexpr VictimScope kWorthwhile{.with_open = true, .least_dead_percent = 13};

// Blocks that the collector can append to the band now.
std::uint64_t room_now(const data::BandView& view) {
  return view.is_leased ? 0 : data::room_in(view);
}

// The band's live blocks and those that its cleaning gains. A full band takes no appends, so its
// cleaning gains the rest of a band that was sealed with room, too: a mount seals bands if the disk
// limits how many are open.
std::uint64_t extent_of(const data::BandView& view) {
  return view.state == data::BandState::kFull ? view.blocks : view.counters.appended;
}

}  // namespace

Collector::Collector(Port& port, device::Device& device, data::BandTable& bands,
                     data::Appender& appender, Clock& clock, CleanMode mode)
    : bands_(bands),
      clock_(clock),
      mover_(port, device, bands, appender, counters_),
      tail_cleaner_(port, device, bands, mover_, mode, counters_),
      resetter_(port, device, bands, mover_, tail_cleaner_, counters_),
      failed_bands_(port, bands, mover_, resetter_, clock) {}

void Collector::set_mode(CleanMode mode) {
  MutexLock lock(work_mu_);
  tail_cleaner_.set_mode(mode);
}

// ---- resetting ----------------------------------------------------------------------------------

// True when a band was reset. Ends the job if its band was among them (C1).
Result<bool> Collector::reset_locked() {
  ASSIGN_OR_RETURN(const auto reset, resetter_.reset_empty_bands());
  if (job_ && std::ranges::find(reset, job_->band) != reset.end()) job_.reset();
  return !reset.empty();
}

Result<> Collector::reset_empty_bands() {
  MutexLock lock(work_mu_);
  TRY(reset_locked());
  return ok();
}

// ---- cleaning -----------------------------------------------------------------------------------

std::optional<BandUse> Collector::pick_locked(VictimScope scope) const {
  const auto views = bands_.all();
  std::uint64_t newest = 0, room = 0;
  for (const data::BandView& view : views) {
    newest = std::max(newest, view.last_append);
    room += room_now(view);
  }
  std::vector<BandUse> full, open;
  for (const data::BandView& view : views) {
    const bool fits = view.counters.live <= room - room_now(view);  // C4
    if (!fits || mover_.has_unreadable(view.band)) continue;
    const BandUse use{view.band, extent_of(view), view.counters.live,
                      newest - view.last_append};
    if (view.state == data::BandState::kFull) full.push_back(use);
    if (view.state == data::BandState::kOpen && !view.is_leased) open.push_back(use);
  }
  return pick_victim(full, open, tail_cleaner_.mode(), scope);
}

// After damage was found, each band is examined before its cleaning begins. Moving the readable
// blocks out of damaged bands would use up the reserve and free nothing.
bool Collector::set_aside_if_damaged_locked(BandId band) {
  return !mover_.damaged().empty() && mover_.seal(band) && mover_.examine(band) &&
         mover_.set_aside_if_unreadable(band);
}

// Chooses what to clean, unless a band is being cleaned. kMoved: job_ is set.
Result<Collector::Progress> Collector::begin_locked(VictimScope scope) {
  while (!job_) {  // each turn but the last sets a band aside
    const auto victim = pick_locked(scope);
    const auto tail = tail_cleaner_.pick(victim, scope);
    if (tail && set_aside_if_damaged_locked(tail->use.band)) continue;
    if (tail) {
      ASSIGN_OR_RETURN(const bool is_cut, tail_cleaner_.clean(*tail));
      if (is_cut) return Progress::kFreed;
      if (bands_.view(tail->use.band).state == data::BandState::kBad) continue;
    }
    if (!victim || !mover_.seal(victim->band)) return Progress::kNothing;
    if (set_aside_if_damaged_locked(victim->band)) continue;
    const bool must_read = failed_bands_.must_read_first();
    if (must_read && failed_bands_.set_aside_if_unreadable(victim->band)) continue;
    const auto live = static_cast<double>(victim->live_blocks);
    const auto dead = static_cast<double>(victim->written_blocks - victim->live_blocks);
    job_ = Job{victim->band, 0, live / dead};
    writers_share_ = 0;
  }
  return Progress::kMoved;
}

// The band with the fewest live blocks. After crashes in a row that is the one that the last
// session began.
std::optional<data::BandView> Collector::pick_rescue_locked() const {
  std::optional<data::BandView> victim;
  for (const data::BandView& view : bands_.all()) {
    const bool may = view.state == data::BandState::kFull && !mover_.has_unreadable(view.band) &&
                     view.counters.live < extent_of(view);
    if (may && (!victim || view.counters.live < victim->counters.live)) victim = view;
  }
  return victim;
}

// Does a rescue (C3) if the collector would begin the last free band. kNothing if it would not, or
// if no band's live blocks fit into the free one.
Result<Collector::Progress> Collector::rescue_locked() {
  if (!mover_.would_begin_last_band()) return Progress::kNothing;
  auto victim = pick_rescue_locked();
  // Each turn removes a candidate that would not become free.
  while (victim && failed_bands_.set_aside_if_unreadable(victim->band)) {
    if (job_ && job_->band == victim->band) job_.reset();
    victim = pick_rescue_locked();
  }
  if (!victim) return Progress::kNothing;
  const auto is_moved = mover_.move_whole(victim->band, victim->counters.live);
  if (is_moved && !*is_moved) return Progress::kNothing;
  if (job_ && job_->band == victim->band) job_.reset();
  if (is_moved) return end_locked(victim->band);
  mover_.leave_to_failed_bands(victim->band);
  return fail(is_moved.error());
}

// Called when all blocks that can be moved have left the band. A band that is set aside frees no
// space, so the caller has to clean another one.
Result<Collector::Progress> Collector::end_locked(BandId band) {
  if (mover_.set_aside_if_unreadable(band)) return Progress::kMoved;
  ++counters_.bands_cleaned;
  TRY(reset_locked());
  return Progress::kFreed;
}

Result<Collector::Progress> Collector::work_locked(VictimScope scope) {
  ASSIGN_OR_RETURN(const Progress rescued, rescue_locked());
  if (rescued != Progress::kNothing) return rescued;
  ASSIGN_OR_RETURN(const Progress begun, begin_locked(scope));
  if (begun != Progress::kMoved) return begun;
  // An open band can be rescued now that it is sealed to be cleaned.
  ASSIGN_OR_RETURN(const Progress rescued_now, rescue_locked());
  if (rescued_now != Progress::kNothing) return rescued_now;
  if (!job_) return Progress::kMoved;  // the band cannot be read, and was set aside
  const bool cannot_rescue = mover_.would_begin_last_band();
  const BandId band = job_->band;
  if (cannot_rescue && failed_bands_.set_aside_if_unreadable(band)) {
    job_.reset();
    return Progress::kMoved;
  }
  const auto next_rba = mover_.move_unit(band, job_->next_rba, cannot_rescue);
  if (next_rba && *next_rba) {
    job_->next_rba = **next_rba;
    return Progress::kMoved;
  }
  job_.reset();
  if (next_rba) return end_locked(band);
  mover_.leave_to_failed_bands(band);
  return fail(next_rba.error());
}

Result<Collector::Progress> Collector::work(VictimScope scope) {
  MutexLock lock(work_mu_);
  return work_locked(scope);
}

Result<bool> Collector::clean_unit(VictimScope scope) {
  ASSIGN_OR_RETURN(const Progress progress, work(scope));
  return progress != Progress::kNothing;
}

Result<CleanStep> Collector::clean_step(VictimScope scope) {
  MutexLock lock(work_mu_);
  const auto cleaned = [this] { return counters_.bands_cleaned + counters_.tails_cleaned; };
  const std::uint64_t moved_before = counters_.blocks_moved, cleaned_before = cleaned(),
                      freed_before = counters_.bands_reset;
  ASSIGN_OR_RETURN(const Progress progress, work_locked(scope));
  return CleanStep{.is_done = progress == Progress::kNothing,
                   .blocks_moved = counters_.blocks_moved - moved_before,
                   .bands_cleaned = cleaned() - cleaned_before,
                   .bands_freed = counters_.bands_reset - freed_before};
}

CleanEstimate Collector::estimate(VictimScope scope) const {
  CleanEstimate all;
  for (const data::BandView& view : bands_.all()) {
    const bool may = view.state == data::BandState::kFull ||
                     (scope.with_open && view.state == data::BandState::kOpen);
    const auto& [extent, live] = std::pair(extent_of(view), view.counters.live);
    if (!may || !is_in_scope(extent - live, extent, scope)) continue;
    ++all.bands;
    all.live_blocks += live;
    all.dead_blocks += extent - live;
  }
  return all;
}

// Does units until a band is reset or cut. False when no band in scope would gain any.
Result<bool> Collector::clean_one(VictimScope scope) {
  for (;;) {  // each unit begins at a higher RBA of a band
    ASSIGN_OR_RETURN(const Progress progress, work(scope));
    if (progress != Progress::kMoved) return progress == Progress::kFreed;
  }
}

Result<> Collector::clean_all() {
  const auto views = bands_.all();
  const auto has_dead = [](const data::BandView& view) {
    return view.counters.live < extent_of(view);
  };
  // Blocks that die meanwhile in other bands add no passes.
  for (auto passes = std::ranges::count_if(views, has_dead); passes > 0; --passes) {
    ASSIGN_OR_RETURN(const bool cleaned, clean_one(kWorthwhile));
    if (!cleaned) break;
  }
  return ok();
}

Result<> Collector::evacuate_failed_bands() {
  MutexLock lock(work_mu_);
  const auto done = failed_bands_.evacuate();
  // C1: a band that was set aside may be reset soon, and then writers append to it.
  if (job_ && bands_.view(job_->band).state != data::BandState::kFull) job_.reset();
  return done;
}

bool Collector::is_cleaning() {
  MutexLock lock(work_mu_);
  return job_.has_value();
}

// ---- for writers --------------------------------------------------------------------------------

bool Collector::make_room() {
  {
    MutexLock lock(work_mu_);
    const auto is_reset = reset_locked();
    if (!is_reset) return false;
    if (*is_reset) return true;
    const auto reusable = resetter_.reset_failed_bands();
    if (reusable && *reusable > 0) return true;
  }
  const auto cleaned = clean_one(kAnything);
  if (!cleaned || !*cleaned) return false;
  ++counters_.bands_waited_for;
  if (const auto events = behind_.note(clock_.monotonic())) {
    log::warn("cleaning is too slow: writers have waited for {} bands since the last such message",
              *events);
  }
  return true;
}

// Space pressure on writers. 0 or less: none; 1: two bands are left to append to; 2: none is left.
double Collector::space_pressure() const {
  const double kept = kBandsKept * bands_.largest_band_blocks();
  return 2 - static_cast<double>(bands_.user_room()) / kept;
}

void Collector::help(std::uint64_t blocks) {
  bool more = true;
  for (bool first = true; more; first = false) {
    if (space_pressure() <= 0) return;
    const auto owed = do_share(first ? blocks : 0);
    more = owed && *owed;  // an error that leaves no room is reported by make_room()
  }
}

// Adds the share of a writer that appends `blocks`. Does a unit if writers owe one. True when they
// owe another.
Result<bool> Collector::do_share(std::uint64_t blocks) {
  MutexLock lock(work_mu_);
  ASSIGN_OR_RETURN(const Progress begun, begin_locked({}));
  if (begun != Progress::kMoved) return false;
  writers_share_ += static_cast<double>(blocks) * job_->moved_for_each_gained * space_pressure();
  if (writers_share_ <= 0) return false;
  const std::uint64_t before = counters_.blocks_moved;
  ASSIGN_OR_RETURN(const Progress progress, work_locked({}));
  if (progress != Progress::kMoved) return false;
  writers_share_ -= static_cast<double>(counters_.blocks_moved - before);
  return writers_share_ > 0;
}

}  // namespace lazyfs::gc
