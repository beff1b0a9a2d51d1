// The garbage collector: moves what is live out of bands, and resets bands that hold nothing live.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/rate_limit.h"
#include "base/result.h"
#include "data/appender.h"
#include "data/band_table.h"
#include "device/device.h"
#include "gc/band_mover.h"
#include "gc/band_resetter.h"
#include "gc/clean_step.h"
#include "gc/counters.h"
#include "gc/failed_bands.h"
#include "gc/port.h"
#include "gc/tail_cleaner.h"
#include "gc/victim.h"

namespace lazyfs::gc {

// Work is done in units (BandMover::unit_blocks()); a thread holds work_mu_ for one unit only. A
// band is cleaned from its start to its end, even if several threads do its units (job_).
//
// Invariants (work_mu_ held):
//   C1  job_'s band is kFull: it was sealed when the job began, and the job ends before its reset
//   C2  every block of job_'s band below job_->next_rba was dead, was moved, or cannot be read
//   C3  on a device without write pointers a crash makes every open band full. So the collector
//       begins the last free band only for a rescue, which moves all live blocks of one band at
//       once: after a crash at any moment one band is free, or holds nothing live. Exception: it
//       begins a last free band that is too short for the live blocks of any band
//   C4  when a job begins, the free bands and the rest of open ones have room for all that is live
//       in its band: to move a part would take room and free none
// Thread-safe. work_mu_ lets one thread work at a time, and is held over I/O. A thread that holds
// it waits only for locks of inodes whose blocks it moves. Threads that hold those locks never wait
// for work_mu_.
class Collector {
 public:
  Collector(Port& port, device::Device& device, data::BandTable& bands, data::Appender& appender,
            Clock& clock, CleanMode mode);

  void set_mode(CleanMode mode) EXCLUDES(work_mu_);
  // Commits, then resets the bands that held nothing live before.
  Result<> reset_empty_bands() EXCLUDES(work_mu_);
  // Does one unit of cleaning: continues the band that is being cleaned, else begins the best
  // victim, or cleans a band's tail if that pays more. False when nothing is gained by it: no band
  // in scope has dead blocks or was sealed with room.
  Result<bool> clean_unit(VictimScope scope) EXCLUDES(work_mu_);
  // Thread-safe; takes no lock of the collector.
  CleanEstimate estimate(VictimScope scope) const;
  // As clean_unit(), and says what was done.
  Result<CleanStep> clean_step(VictimScope scope) EXCLUDES(work_mu_);
  // Cleans bands while one has enough dead blocks to be worth it (kWorthwhile), at most as many as
  // have dead blocks at the call. So it ends, however fast other threads write.
  Result<> clean_all() EXCLUDES(work_mu_);
  // Moves what can be read out of bands that failed (FailedBands).
  Result<> evacuate_failed_bands() EXCLUDES(work_mu_);
  // For a writer that finds no band to append to: works until a band, or the end of one, is free.
  // False when nothing could be freed.
  bool make_room() EXCLUDES(work_mu_);
  // For a writer that is about to append `blocks`: under space pressure, does the writer's share of
  // cleaning the next band. So that band is free before the last one is used up, and no writer
  // waits while a whole band is cleaned.
  void help(std::uint64_t blocks) EXCLUDES(work_mu_);
  // Whether a band is being cleaned.
  bool is_cleaning() EXCLUDES(work_mu_);
  const Counters& counters() const { return counters_; }

 private:
  struct Job {  // a band that is being cleaned
    BandId band;
    std::uint32_t next_rba = 0;
    double moved_for_each_gained = 0;  // blocks
  };
  enum class Progress : std::uint8_t { kNothing, kMoved, kFreed };

  Result<bool> reset_locked() REQUIRES(work_mu_);
  std::optional<BandUse> pick_locked(VictimScope scope) const REQUIRES(work_mu_);
  bool set_aside_if_damaged_locked(BandId band) REQUIRES(work_mu_);
  Result<Progress> begin_locked(VictimScope scope) REQUIRES(work_mu_);
  Result<Progress> end_locked(BandId band) REQUIRES(work_mu_);
  Result<Progress> work_locked(VictimScope scope) REQUIRES(work_mu_);
  std::optional<data::BandView> pick_rescue_locked() const REQUIRES(work_mu_);
  Result<Progress> rescue_locked() REQUIRES(work_mu_);
  Result<Progress> work(VictimScope scope) EXCLUDES(work_mu_);
  Result<bool> clean_one(VictimScope scope) EXCLUDES(work_mu_);
  Result<bool> do_share(std::uint64_t blocks) EXCLUDES(work_mu_);
  double space_pressure() const;

  data::BandTable& bands_;
  Clock& clock_;
  RateLimit behind_{std::chrono::minutes(1)};
  Counters counters_;

  Mutex work_mu_;
  BandMover mover_ GUARDED_BY(work_mu_);
  TailCleaner tail_cleaner_ GUARDED_BY(work_mu_);
  BandResetter resetter_ GUARDED_BY(work_mu_);
  FailedBands failed_bands_ GUARDED_BY(work_mu_);
  std::optional<Job> job_ GUARDED_BY(work_mu_);
  double writers_share_ GUARDED_BY(work_mu_) = 0;  // blocks of job_ that writers still owe
};

}  // namespace lazyfs::gc
