// The bands of a mounted volume, shared by all threads: states, space, ages and failures under one
// lock. The counters are those of the bands' summaries in the tree (docs/format.md section 5).
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "base/types.h"
#include "data/band.h"
#include "data/band_ages.h"
#include "data/band_choice.h"
#include "data/band_failures.h"
#include "data/band_list.h"
#include "data/space_account.h"
#include "device/device.h"

namespace lazyfs::data {

class BandTable;

// Keeps a band from being reset or cut while its blocks are read.
class BandPin {
 public:
  BandPin() = default;
  BandPin(BandTable* table, BandId band) : table_(table), band_(band) {}
  BandPin(BandPin&& other) noexcept
      : table_(std::exchange(other.table_, nullptr)), band_(other.band_) {}
  BandPin& operator=(BandPin&& other) noexcept {
    std::swap(table_, other.table_);
    std::swap(band_, other.band_);
    return *this;
  }
  ~BandPin();

 private:
  BandTable* table_ = nullptr;
  BandId band_;
};

// Invariants, besides those of the parts (check_invariants()):
//   T1  a kFull band without live blocks gets none until its reset: only kOpen bands take appends,
//       and a band becomes kOpen only from kFree, or by a cut, which requires live blocks
// Thread-safe. mu_ is a leaf lock; nothing is read, written or logged while it is held. Only all()
// and check_invariants() visit every band; other calls visit at most the bands of one state.
class BandTable {
 public:
  // Bands that are neither super nor log are data bands, free until restore() says otherwise.
  BandTable(const device::Geometry& geometry, std::span<const BandId> super_bands,
            std::span<const BandId> log_bands);

  // ---- at mount ----
  void restore(BandId band, const BandCounters& counters);
  // The band takes no appends any more; `for_good`: not even after it holds nothing live.
  void set_bad(BandId band, bool for_good = true);

  // ---- growing ----
  // Adds the bands that the geometry has past the last one of this table, as free data bands.
  // REQUIRES: as BandList::add_new(); the superblock counts them.
  void add_new(const device::Geometry& geometry);

  // ---- accounting. REQUIRES: the batch that says the same was applied ----
  void account_append(BandId band, std::uint32_t blocks, std::uint32_t live, std::uint32_t records);
  void account_death(BandId band, std::uint32_t blocks, std::uint32_t records);
  // Blocks of `from`, which the collector cleans, were appended to `to`: they keep their age.
  void account_move(BandId from, BandId to, std::uint32_t blocks);

  // ---- space ----
  // Sets `blocks` aside for data that will be written back; false when so much is not available.
  bool reserve(std::uint64_t blocks);
  // The same for `fresh` new blocks and `overwriting` blocks that replace others. An overwrite
  // needs more space only until it is written back. So overwrites may take a little of what is kept
  // back, and files on a full disk can be overwritten.
  bool reserve_to_overwrite(std::uint64_t fresh, std::uint64_t overwriting);
  void release(std::uint64_t blocks);
  SpaceCounts space() const;
  std::uint64_t user_room() const;  // see SpaceAccount
  // Whether the free bands have as many blocks as are kept for the collector and the log.
  bool has_reserve() const;
  // So many blocks.
  std::uint64_t reserve_blocks() const { return reserve_blocks_; }
  std::uint32_t largest_band_blocks() const { return largest_band_; }

  // ---- open bands; Appender is the only caller ----
  OpenChoice choices(Stream stream, std::uint32_t max_open, BandId free_from = {},
                     bool anywhere = true) const;
  // Takes the band for one appender; false when another thread was faster. A free band becomes
  // open; a band of another stream becomes this stream's.
  bool lease(BandId band, Stream stream);
  // `sealed`: the band takes no more appends, even if it has room. `bad`: the band is set aside.
  void end_lease(BandId band, bool sealed, bool bad, Blame blame = Blame::kSuspect);
  // Makes an open band kFull. Returns whether the band is kFull: false if it is leased or not
  // written.
  bool seal(BandId band);
  // Seals open bands, those with the least room first, until `most` are open, and returns them.
  // Conventional and leased bands stay open and do not count.
  std::vector<BandId> seal_all_but(std::size_t most);

  // ---- reset ----
  BandPin pin(BandId band);
  // Returns the written data bands that hold nothing live and are neither leased nor pinned. Seals
  // the open ones, so that none gets blocks after the commit that the caller makes next (T1). The
  // caller seals them on the device too.
  std::vector<BandId> empty_bands();
  bool has_empty_bands() const;  // changes no band
  // False when the band is pinned or not empty. REQUIRES: a commit that began after empty_bands()
  // had named the band is durable.
  bool begin_reset(BandId band);
  // If not `good`, the band is set aside.
  void finish_reset(BandId band, bool good, Blame blame = Blame::kSuspect);

  // ---- failing ----
  // The device could not read a block of the band. Has no effect on a band that is set aside.
  void note_unreadable(BandId band);
  // The bands noted since the last call, each once.
  std::vector<BandId> take_unreadable();
  // The bands that are kBad, except bands of size 0.
  std::vector<BandView> bad_bands() const;
  // As begin_reset(), for a band that failed while it was written: it may be reset and written
  // again, unless it was given up. REQUIRES: as begin_reset().
  bool begin_retry(BandId band);

  // ---- cutting a band's end off ----
  // Starts cutting. False when a reader has the band pinned, it is not kFull, or it has no live
  // blocks. A thread that pins the band from here on reads live blocks only.
  bool begin_cut(BandId band);
  struct Cut {
    std::uint32_t blocks = 0, append_records = 0, delete_records = 0;
  };
  // `cut`: what was cut off. The band is open again if `good`, else bad.
  void finish_cut(BandId band, const Cut& cut, bool good);

  // ---- the metadata log's bands ----
  // Gives the log the free band that choose_for_log() names. Error: kNoSpace if it names none, or
  // if the log has all that is kept back for it and users have reserved the rest.
  Result<BandId> take_for_log(std::uint32_t min_blocks = 1);
  void give_back_from_log(BandId band);

  // ---- reading ----
  // Whether the band's data is young: data that replaces it is likely to be replaced soon too.
  bool is_young(BandId band) const;
  // The stream for what the collector moves out of the band.
  Stream stream_for_moved(BandId band) const;
  BandView view(BandId band) const;
  std::vector<BandView> all() const;
  // Blocks that have died since the mount.
  std::uint64_t deaths() const;
  std::uint32_t band_count() const { return band_count_.load(std::memory_order_acquire); }
  bool is_data(BandId band) const;
  // For tests: the first invariant that does not hold, or empty.
  std::string check_invariants() const;

 private:
  friend class BandPin;
  bool account_death_now(BandId band, std::uint32_t blocks, std::uint32_t records) EXCLUDES(mu_);
  void unpin(BandId band) EXCLUDES(mu_);
  BandView view_locked(BandId band) const REQUIRES(mu_);
  bool is_used_locked(BandId band) const REQUIRES(mu_);  // by a reader or an appender

  mutable Mutex mu_;
  BandList bands_ GUARDED_BY(mu_);
  SpaceAccount account_ GUARDED_BY(mu_);
  BandAges ages_ GUARDED_BY(mu_);
  BandFailures failures_ GUARDED_BY(mu_);
  std::uint64_t appends_ GUARDED_BY(mu_) = 0;  // blocks
  std::uint64_t deaths_ GUARDED_BY(mu_) = 0;   // blocks
  std::atomic<std::uint32_t> band_count_;  // written with mu_ held
  // Constant after construction.
  std::uint32_t largest_band_;
  std::uint64_t reserve_blocks_;
};

}  // namespace lazyfs::data
