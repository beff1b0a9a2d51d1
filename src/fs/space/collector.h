// The garbage collector's mechanism: moves what is live out of a band, resets bands that hold
// nothing. What to clean and when is src/gc's business.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "fs/file/core.h"
#include "fs/file/extent_map.h"
#include "gc/victim.h"

namespace lazyfs::fs {

// Moving is optimistic: blocks are copied without a lock; then, under the inode's lock and in one
// batch, the extents that still point to the old place get the new one. What a user has overwritten
// meanwhile makes the copy garbage. A crash at any step leaves either the old or the new place in
// the map.
//
// A band is reset (rule 2) after the batch that took its last live block away is durable (a commit
// lies between), and when no reader has it pinned; then its logs are erased. A crash between the
// two is finished at the next mount, which resets every written band without live blocks.
//
// A band's end can be cut off where the device can set a write pointer back (collector_tail.cc):
// its live blocks are moved; one batch takes the end's append and delete records and the counters
// away; once that is durable the write pointer goes back. A crash between the two leaves a write
// pointer that is ahead of what is accounted, as after any lost append, and is recovered as that.
//
// Work is done in units of at most 8 MiB, and of a 16th of a band: whoever cleans takes work_mu_
// for one unit only. A band is cleaned from its start to its end, whoever does the units (job_).
//
// Thread-safe: work_mu_ lets one thread work at a time, and is held over I/O. No inode lock or
// token is waited for while it is held but those of inodes whose blocks move, and their holders
// never wait for it.
class Collector {
 public:
  explicit Collector(const Core& core);

  // Resets the bands that hold nothing live, once a commit has made that durable. Returns how many.
  Result<std::size_t> reset_empty_bands() EXCLUDES(work_mu_);
  // Does a unit of cleaning the band that is being cleaned, or else the best victim, or cleans the
  // end of a band and cuts that off, whatever pays more. False when no band is worth it.
  // `even_open`: partly written bands too, when no other has dead blocks; for when space is short.
  Result<bool> clean_unit(bool even_open) EXCLUDES(work_mu_);
  // Unit by unit until a band is reset or cut. False when no band is worth it.
  Result<bool> clean_one(bool even_open) EXCLUDES(work_mu_);
  // Moves what can be read out of bands that failed, and of those that the device could not read
  // everywhere. What cannot be read stays where it is, and its band is set aside; one that failed
  // while it was written is reset and used again, a few times. After an error it pauses.
  Result<> tend_failed_bands() EXCLUDES(work_mu_);
  // For writers that find no band to append to: until something is free. False when nothing could
  // be freed.
  bool make_room() EXCLUDES(work_mu_);
  // For writers that are about to append so many blocks: where little is left that they can append
  // to, their share of cleaning the next band, so that it is free when the rest is used up and
  // nobody has to wait for all of it.
  void keep_up(std::uint64_t blocks) EXCLUDES(work_mu_);
  // A band is cleaned in part.
  bool is_cleaning() EXCLUDES(work_mu_);
  // Bands, or ends of bands, that make_room() has cleaned: that somebody waited for.
  std::uint64_t bands_waited_for() const { return bands_waited_for_; }

 private:
  struct Copy;  // a live run and where it was copied to
  struct Job {  // a band that is being cleaned
    BandId band;
    std::uint32_t next_rba = 0;        // what lies before it was moved
    double moved_for_each_gained = 0;  // blocks
  };
  enum class Progress : std::uint8_t { kNothing, kMoved, kFreed };

  Result<std::size_t> reset_locked() REQUIRES(work_mu_);
  Result<Progress> work_locked(bool even_open) REQUIRES(work_mu_);
  Result<Progress> work(bool even_open) EXCLUDES(work_mu_);
  Result<Progress> begin_locked(bool even_open) REQUIRES(work_mu_);
  double want_of_room() const;
  Result<bool> do_share(std::uint64_t blocks) EXCLUDES(work_mu_);
  std::optional<gc::BandUse> pick(bool even_open) const REQUIRES(work_mu_);
  Result<bool> evacuate_unit(Job& job) REQUIRES(work_mu_);
  Result<> evacuate(BandId band, std::uint32_t from_rba = 0) REQUIRES(work_mu_);  // unit by unit
  void read_copies(InodeNo inode, const MappedExtent& extent, std::vector<Copy>& copies)
      REQUIRES(work_mu_);
  void set_aside_if_unreadable(BandId band) REQUIRES(work_mu_);
  Result<> move_out_of_failed_bands() REQUIRES(work_mu_);
  Result<std::size_t> begin_second_lives() REQUIRES(work_mu_);
  Result<> reset_band(BandId band) REQUIRES(work_mu_);
  // The end of a band, from its last hole on; all of whole append records.
  struct Tail {
    gc::TailUse use;
    std::uint32_t start = 0, end = 0;  // RBAs
  };
  Result<std::optional<Tail>> look_at_tail(const data::BandView& band) const;
  Result<std::optional<Tail>> pick_tail(const std::optional<gc::BandUse>& whole) const
      REQUIRES(work_mu_);
  Result<bool> clean_tail(const Tail& tail) REQUIRES(work_mu_);
  Result<bool> cut(const Tail& tail);
  Result<std::vector<MappedExtent>> live_of(BandId band, const meta::Item& append_item,
                                            InodeNo* inode) const;
  Result<> move(std::vector<Copy>& copies) REQUIRES(work_mu_);
  Result<> record(std::span<Copy> copies, data::Lease& lease);

  const Core& core_;
  const std::size_t unit_blocks_;
  std::atomic<std::uint64_t> bands_waited_for_{0};
  Mutex work_mu_;
  std::optional<Job> job_ GUARDED_BY(work_mu_);    // its band is kFull; reset_locked() ends it
  double writers_share_ GUARDED_BY(work_mu_) = 0;  // of it, in blocks, that they have not done yet
  std::set<BandId> unmovable_ GUARDED_BY(work_mu_);             // hold blocks that cannot be read
  std::chrono::nanoseconds tend_again_ GUARDED_BY(work_mu_){};  // not before
};

// Takes all items of a band's append and delete logs out, in the order of their keys, and its
// summary with the last of them: so a check knows what a crash has left of them (check_bands.cc).
Result<> erase_band_logs(meta::Store& store, BandId band);

}  // namespace lazyfs::fs
