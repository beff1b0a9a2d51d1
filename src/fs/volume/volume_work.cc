// Space, and the work that a volume does by itself: writing back, committing, deleting, cleaning
// (fs/volume/mounted_volume.h).
#include <algorithm>

#include "base/broken.h"
#include "base/log.h"
#include "fs/volume/mounted_volume.h"

namespace lazyfs::fs {
namespace {

// So many passes of writing back fail, without a page leaving memory, before a writer hears of it.
constexpr std::uint64_t kFailedPasses = 3;
constexpr auto kWriterPeriod = std::chrono::milliseconds(200);
constexpr auto kHousePeriod = std::chrono::milliseconds(500);
constexpr std::chrono::nanoseconds kUnlinkIsRecent = std::chrono::seconds(1);
constexpr auto kForgetPeriod = std::chrono::milliseconds(5);
constexpr int kForgetTries = 20;

}  // namespace

// ---- Space --------------------------------------------------------------------------------------

Result<SpaceReport> MountedVolume::space() {
  TRY(check_usable(false));
  if (!options_.read_only) reaper_.run(core_);  // what was deleted is free
  const data::SpaceCounts counts = bands_.space();
  SpaceReport report;
  report.total_blocks = counts.total > counts.kept_back ? counts.total - counts.kept_back : 0;
  report.free_blocks = report.available_blocks = counts.available;
  // An inode takes some hundred bytes of the log, which grows as long as bands are free.
  report.total_files = report.total_blocks * 8;
  report.free_files = report.free_blocks * 8;
  return report;
}

// For a writer that finds no space: ends deletions and overwrites that are under way. What they
// free may be gone again when this returns, to another writer; so blocks that have died count too.
bool MountedVolume::make_space() {
  const auto start = clock_.monotonic();
  const std::uint64_t before = bands_.space().available, deaths = bands_.deaths();
  reaper_.run(core_);
  ignore_error(write_back_.write_dirty(kEver), "each inode keeps its error");
  ignore_error(store_->give_back_bands(), "the store logs it");
  const auto gained = [&] { return bands_.space().available > before || bands_.deaths() > deaths; };
  // The kernel lets go of a removed file a moment after it has answered.
  for (int i = 0; i < kForgetTries && options_.background && !gained(); ++i) {
    if (clock_.monotonic().count() - last_unlink_ns_.load() > kUnlinkIsRecent.count()) break;
    {
      MutexLock lock(wake_mu_);
      if (stopping_) break;
      slowed_.wait_for(wake_mu_, kForgetPeriod);
    }
    reaper_.run(core_);
  }
  note_stall(start);
  return gained();
}

Result<> MountedVolume::collect_garbage() {
  TRY(check_usable(true));
  reaper_.run(core_);
  TRY(write_back_.write_dirty(kEver));
  TRY(store_->give_back_bands());
  TRY(collector_.reset_empty_bands());
  // Each pass takes one band's dead blocks away; there are no more passes than bands.
  for (std::uint32_t i = 0; i < bands_.band_count(); ++i) {
    ASSIGN_OR_RETURN(const bool cleaned, collector_.clean_one(true));
    if (!cleaned) break;
  }
  return ok();
}

// Before a write: what it brings must have room in memory, and on the device. Where the collector
// has to make the room, writers are slowed more the less is left, so that none ever waits for a
// whole band.
Result<> MountedVolume::throttle(std::size_t bytes) {
  pacer_.note_request();
  if (!options_.background) {
    const auto is_full = [&] { return pages_.used() >= options_.dirty_bytes / kBlockBytes; };
    if (!is_full() || is_broken(Rule::kMemoryIsBounded)) return ok();
    const auto written = write_back_.write_dirty(kEver);
    return is_full() ? written : ok();
  }
  const auto delay = pacer_.delay(blocks_for(bytes));
  if (delay.count() > 0) {
    const auto start = clock_.monotonic();
    wake();
    {
      MutexLock lock(wake_mu_);
      if (!stopping_) slowed_.wait_for(wake_mu_, delay);
    }
    note_stall(start);
  }
  return wait_for_memory();
}

// Fails when memory is full of what cannot be written: passes have ended, and failed, and nothing
// has left memory meanwhile.
Result<> MountedVolume::wait_for_memory() {
  const std::size_t limit = options_.dirty_bytes / kBlockBytes;
  if (pages_.used() < limit) {
    if (pages_.used() > limit / 8) wake_writer_.notify_one();
    return ok();
  }
  const auto start = clock_.monotonic();
  Result<> waited = ok();
  {
    MutexLock lock(wake_mu_);
    std::size_t least = pages_.used();
    std::uint64_t seen = passes_;
    while (pages_.used() >= limit && !stopping_ && !store_->failed()) {
      wake_writer_.notify_one();
      pages_freed_.wait_for(wake_mu_, std::chrono::milliseconds(20));
      if (pages_.used() < least) {
        least = pages_.used();
        seen = passes_;
      }
      if (!last_pass_ && passes_ - seen >= kFailedPasses) {
        waited = last_pass_;
        break;
      }
    }
  }
  note_stall(start);
  return waited;
}

void MountedVolume::note_stall(std::chrono::nanoseconds start) {
  counters_.stalls.add(clock_.monotonic() - start);
}

// ---- Threads ------------------------------------------------------------------------------------

void MountedVolume::wake() {
  MutexLock lock(wake_mu_);
  work_waiting_ = true;
  wake_housekeeper_.notify_one();
}

void MountedVolume::write_old(bool everything) {
  const auto before = everything ? kEver : clock_.monotonic() - options_.commit_interval;
  const auto written = write_back_.write_dirty(before);  // each inode keeps its error
  MutexLock lock(wake_mu_);
  ++passes_;
  last_pass_ = written;
}

// The metadata log has failed.
void MountedVolume::tell_if_read_only() {
  if (!store_->failed() || told_read_only_.exchange(true)) return;
  log::error("the filesystem is read-only from now on: what could not be written is lost");
  if (options_.on_read_only) options_.on_read_only();
}

void MountedVolume::run_writer() {
  auto last_commit = clock_.monotonic();
  for (;;) {
    {
      MutexLock lock(wake_mu_);
      if (stopping_) return;
      wake_writer_.wait_for(wake_mu_, kWriterPeriod);
      if (stopping_) return;
    }
    tell_if_read_only();
    const bool pressed = pages_.used() > options_.dirty_bytes / kBlockBytes / 8;
    write_old(pressed);
    if (clock_.monotonic() - last_commit < options_.commit_interval) continue;
    write_old(false);
    const auto done = store_->commit();
    if (!done) log::error("commit failed: {}", describe(done.error()));
    last_commit = clock_.monotonic();
  }
}

// What unlinking has left is deleted when `asked`, or once users are quiet. True when there is more
// to do at once.
bool MountedVolume::keep_house(bool asked) {
  const gc::Urgency urgency = pacer_.urgency();
  const auto tended = collector_.tend_failed_bands();
  if (!tended) log::error("moving data out of failed bands: {}", describe(tended.error()));
  const bool now = asked || pacer_.is_quiet() || urgency != gc::Urgency::kNone;
  if (now) reaper_.run(core_);
  if (now && !bands_.empty_bands().empty()) {
    ignore_error(collector_.reset_empty_bands(), "logged, and tried again");
  }
  if (urgency != gc::Urgency::kHigh && !pacer_.is_idle_work_due()) return false;
  // A unit: afterwards it is looked anew whether users are idle, or how urgent it is.
  const auto cleaned = collector_.clean_unit(urgency == gc::Urgency::kHigh);
  if (!cleaned) log::error("cleaning failed: {}", describe(cleaned.error()));
  return cleaned && *cleaned;
}

void MountedVolume::run_housekeeper() {
  bool more = false;
  for (;;) {
    bool asked = false;
    {
      MutexLock lock(wake_mu_);
      if (!work_waiting_ && !stopping_ && !more) wake_housekeeper_.wait_for(wake_mu_, kHousePeriod);
      if (stopping_) return;
      asked = std::exchange(work_waiting_, false);
    }
    more = keep_house(asked);
  }
}

void MountedVolume::tick() {
  tell_if_read_only();
  write_old(false);
  bool more = keep_house(true);
  while (more && collector_.is_cleaning()) more = keep_house(false);
}

}  // namespace lazyfs::fs
