// The state of every band as the volume accounts it: who owns it, how far it is written, what of it
// is live. The counters are those of the bands' summaries in the tree (docs/format.md section 5).
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "base/types.h"
#include "device/device.h"

namespace lazyfs::data {

enum class BandState : std::uint8_t {
  kSuper,      // superblock
  kLog,        // metadata log
  kFree,       // nothing written
  kOpen,       // partly written, takes appends
  kFull,       // takes no more appends until it is reset
  kResetting,  // between begin_reset() and finish_reset()
  kCutting,    // between begin_cut() and finish_cut()
  kBad,        // it failed: readable, not written until begin_second_life()
};
std::string to_string(BandState state);

// What comes together dies together: each open band belongs to one stream.
enum class Stream : std::uint8_t {
  kSmall,      // new data of small files
  kLarge,      // new data of large files
  kRewritten,  // what replaces data that was written a short while ago, and will be replaced soon
  // What the collector has moved has lived longer than what was around it. By age:
  kCollector,        // it may still be replaced soon
  kCollectorMature,  // or later
  kCollectorOld,     // or not at all
};
inline constexpr std::size_t kUserStreams = 3;  // all but the collector's
constexpr bool is_collectors(Stream stream) { return stream >= Stream::kCollector; }

struct BandCounters {
  std::uint64_t appended = 0;  // blocks; where the next append goes
  std::uint64_t live = 0;
  std::uint64_t append_records = 0;
  std::uint64_t delete_records = 0;
};

struct BandView {
  BandId band;
  BandState state = BandState::kFree;
  std::uint32_t blocks = 0;
  BandCounters counters;
  std::uint64_t last_append =
      0;  // blocks appended to the whole table by then; 0: not since the mount
  Stream stream = Stream::kSmall;  // of the last append, when there was one
  bool is_given_up = false;        // kBad until the next mount
};

struct SpaceCounts {        // in blocks, of data bands
  std::uint64_t total = 0;  // all but bad ones
  std::uint64_t live = 0;
  std::uint64_t dead = 0;
  std::uint64_t unwritten = 0;  // free bands and the rest of open ones
  std::uint64_t reserved = 0;   // accepted, not yet written
  std::uint64_t kept_back = 0;  // for the collector and the log, never given to users
  std::uint64_t available = 0;  // what users can still reserve
  std::uint32_t free_bands = 0;
  friend bool operator==(const SpaceCounts&, const SpaceCounts&) = default;
};

class BandTable;

// Keeps a band from being reset while its blocks are read.
class BandPin {
 public:
  BandPin() = default;
  BandPin(BandTable* table, BandId band) : table_(table), band_(band) {}
  BandPin(BandPin&& other) noexcept : table_(other.table_), band_(other.band_) {
    other.table_ = nullptr;
  }
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

// Invariants, for every data band b (check_invariants()):
//   B1  live <= appended <= blocks
//   B2  kFree  =>  appended == 0 and not leased
//   B3  leased  =>  kOpen
//   B4  kResetting  =>  live == 0 and pins == 0
//   B5  reserved is what reserve() gave and release() has not taken back
//   B6  a band without live blocks that is kFull gets none until it is reset: only kOpen ones are
//       appended to, and nothing becomes kOpen but from kFree, or when it is cut, which a band
//       without live blocks never is
//   B7  counts_ and log_blocks_ are sums over all bands; free_, open_, empty_ and bad_ list the
//   bands that they say
// Thread-safe. mu_ is a leaf lock; no I/O is done under it. Nothing but all(), view by view, takes
// time that grows with the number of bands.
class BandTable {
 public:
  // Bands that are neither super nor log are data bands, free until restore() says otherwise.
  BandTable(const device::Geometry& geometry, std::span<const BandId> super_bands,
            std::span<const BandId> log_bands);

  // ---- at mount ----
  void restore(BandId band, const BandCounters& counters);
  // Nothing is appended to it any more; `for_good`: not even when it holds nothing live.
  void set_bad(BandId band, bool for_good = true);

  // ---- accounting, after the batch that says the same was applied ----
  void account_append(BandId band, std::uint32_t blocks, std::uint32_t live, std::uint32_t records);
  void account_death(BandId band, std::uint32_t blocks, std::uint32_t records);

  // ---- space ----
  // Sets `blocks` aside for data that will be written back; false when so much is not available.
  bool reserve(std::uint64_t blocks);
  // The same for data of which `overwriting` blocks take the place of others: those need room only
  // until they are written back. So a little more than is available may be set aside for them, from
  // what is kept back, and a full disk can be overwritten.
  bool reserve_to_overwrite(std::uint64_t fresh, std::uint64_t overwriting);
  // For small changes that must not fail, such as cutting a block in two: from what is kept back.
  void reserve_always(std::uint64_t blocks);
  void release(std::uint64_t blocks);
  SpaceCounts space() const;
  // Whether as many bands are free as are kept for the collector and the log.
  bool has_reserve() const;
  // What only the collector and the log may begin, in blocks.
  std::uint64_t reserve_blocks() const { return std::uint64_t{kReserveBands} * largest_band_; }

  std::uint32_t largest_band_blocks() const { return largest_band_; }
  // What users can append to without cleaning: the rest of their open bands, and free bands.
  struct UserRoom {
    std::uint64_t blocks = 0;      // of both
    std::uint32_t free_bands = 0;  // that users may begin
  };
  UserRoom user_room() const;

  // ---- open bands; Appender is the only caller ----
  struct OpenChoice {
    std::vector<BandView> open;  // with room, not leased: of the stream, or else, when no band may
                                 // be begun and none of the stream is leased, of the others: for
                                 // the collector, and for whom `anywhere` is; of users for users
                                 // and of the collector for the collector, if there are any
    std::optional<BandId> free;  // the free band to begin, when the caller may
    bool own_leased = false;     // waiting for the stream's own band may help
  };
  // `free_from`: the free band is the first from this one on, around the end.
  OpenChoice choices(Stream stream, std::uint32_t max_open, BandId free_from = {},
                     bool anywhere = true) const;
  // Takes the band for one appender; false when somebody was faster. A free band becomes open; one
  // of another stream becomes this stream's.
  bool lease(BandId band, Stream stream);
  // `sealed`: no more appends though there may be room. `bad`: it is set aside; `is_its_fault`: an
  // append failed: a strike.
  void end_lease(BandId band, bool sealed, bool bad, bool is_its_fault = true);

  // Lets no more be appended to the band; false while it is leased or not written.
  bool seal(BandId band);

  // ---- reset ----
  BandPin pin(BandId band);
  // Data bands that were written and hold nothing live, not leased, not pinned. Open ones among
  // them are sealed, so that what the caller makes durable now is the last that happens in them
  // (B6).
  std::vector<BandId> empty_bands();
  // False when it is pinned or not such a band. Requires that a commit that began after
  // empty_bands() had named it is durable.
  bool begin_reset(BandId band);
  void finish_reset(BandId band, bool good);

  // ---- failing ----
  // The device could not read a block of the band, which nobody has set aside yet.
  void note_unreadable(BandId band);
  // Those since the last call, each once.
  std::vector<BandId> take_unreadable();
  // The bands that are kBad and exist.
  std::vector<BandView> bad_bands() const;
  // A band that failed while it was written, and holds nothing live any more, may be reset and
  // written again, unless it has had kMaxStrikes in this mount: it is kResetting then. Requires
  // what begin_reset() requires; false when it is none of these.
  bool begin_second_life(BandId band);

  // ---- cutting a band's end off ----
  // Nobody may look at blocks of the band that are dead by now: false when it is pinned, or not
  // kFull, or holds nothing live. Who pins it from here on looks at live blocks only.
  bool begin_cut(BandId band);
  // What was cut off. The band is open again, unless it is not `good`.
  struct Cut {
    std::uint32_t blocks = 0, append_records = 0, delete_records = 0;
  };
  void finish_cut(BandId band, const Cut& cut, bool good);

  // ---- the metadata log's bands ----
  // The free band of at least `min_blocks` that is nearest the centre, no conventional one: the log
  // is made of write pointers. Error: kNoSpace.
  Result<BandId> take_for_log(std::uint32_t min_blocks = 1);
  void give_back_from_log(BandId band);

  // ---- ages, measured in blocks that users have appended since ----
  // Blocks of `from`, which the collector cleans, were appended to `to`: they keep their age.
  void account_move(BandId from, BandId to, std::uint32_t blocks);
  // Whether what replaces data of the band is likely to be replaced soon too: the band's data is
  // not older than twice what bands of rewritten data live.
  bool is_young(BandId band) const;
  // The stream for what is moved out of the band.
  Stream stream_for_moved(BandId band) const;

  BandView view(BandId band) const;
  std::vector<BandView> all() const;
  // Blocks that have died since the mount.
  std::uint64_t deaths() const;
  std::uint32_t band_count() const { return static_cast<std::uint32_t>(bands_.size()); }
  bool is_data(BandId band) const;
  // For tests: the first invariant that is broken, or empty.
  std::string check_invariants() const;

 private:
  friend class BandPin;
  struct Band {
    BandState state = BandState::kFree;
    Stream stream = Stream::kSmall;
    bool leased = false;
    bool is_conventional = false;
    std::uint8_t strikes = 0;  // appends and resets that failed in this mount, or kMaxStrikes
    std::uint32_t blocks = 0;
    std::uint32_t pins = 0;
    std::uint64_t last_append = 0;
    std::uint64_t begun = 0;      // user_clock_ at its first append
    std::uint64_t birth_sum = 0;  // of its blocks; what was there at the mount is born at 0
    BandCounters counters;
  };

  void unpin(BandId band);
  std::uint64_t age_locked(BandId band) const REQUIRES(mu_);  // of its blocks, on average
  BandView view_locked(std::uint32_t index) const REQUIRES(mu_);
  SpaceCounts space_locked() const REQUIRES(mu_);
  static bool is_data(BandState state) {
    return state != BandState::kSuper && state != BandState::kLog;
  }
  static bool is_empty(const Band& band) {
    return (band.state == BandState::kOpen || band.state == BandState::kFull) &&
           band.counters.live == 0 && band.counters.appended > 0;
  }
  static SpaceCounts part_of(const Band& band);  // what the band adds to counts_
  static std::uint64_t log_part_of(const Band& band) {
    return band.state == BandState::kLog ? band.blocks : 0;
  }
  void list_locked(std::uint32_t index) REQUIRES(mu_);  // puts it into the lists where it belongs
  // Every change of a band's state or counters goes through here: it keeps B7.
  template <class Change>
  void change_locked(BandId id, Change change) REQUIRES(mu_);

  // Bands that only the collector and the log may begin: cleaning can always go on.
  static constexpr std::uint32_t kReserveBands = 3;
  static constexpr std::uint32_t kLogKeepsBands = 1;
  // The log may grow to a 20th of the device and the bands that its cleaner keeps free: a block
  // that is overwritten alone takes an extent, an append and a delete record of some 45 bytes each,
  // in nodes that are two thirds full, in a log that is at most two thirds live.
  static constexpr std::uint64_t kLogShare = 20;
  static constexpr std::uint32_t kLogSpareBands = 3;
  // At most a 64th of the device waits in memory to overwrite what a full disk holds; on small
  // disks one large write, as long as the reserve's bands hold two of them.
  static constexpr std::uint64_t kOverwriteShare = 64;
  static constexpr std::uint64_t kLargeWriteBlocks = 256;
  // Ages at which data is no longer young, and at which it is old, in lifespans of bands of
  // rewritten data. Found by trying 1/2 to 3 and 2 to 16 (docs/garbage-collection.md).
  static constexpr std::uint64_t kYoungLifespans = 2, kOldLifespans = 4;
  static constexpr std::uint8_t kMaxStrikes = 3;

  std::uint32_t largest_band_ = 0;  // constant after construction

  mutable Mutex mu_;
  std::vector<Band> bands_ GUARDED_BY(mu_);  // its size is constant after construction
  // total, live, dead and unwritten are sums over all bands; reserved; the rest stays 0.
  SpaceCounts counts_ GUARDED_BY(mu_);
  std::set<std::uint32_t> free_ GUARDED_BY(mu_);   // kFree
  std::set<std::uint32_t> open_ GUARDED_BY(mu_);   // kOpen
  std::set<std::uint32_t> empty_ GUARDED_BY(mu_);  // is_empty()
  std::set<std::uint32_t> bad_ GUARDED_BY(mu_);    // kBad, but for bands of no size
  std::set<BandId> unreadable_ GUARDED_BY(mu_);    // noted, not taken
  std::uint64_t log_blocks_ GUARDED_BY(mu_) = 0;   // of kLog bands
  std::uint64_t appends_ GUARDED_BY(mu_) = 0;
  std::uint64_t deaths_ GUARDED_BY(mu_) = 0;
  std::uint64_t user_clock_ GUARDED_BY(mu_) = 0;  // blocks that users have appended, and a start
  std::uint64_t lifespan_ GUARDED_BY(mu_) = 0;    // moving average of bands of rewritten data
};

}  // namespace lazyfs::data
