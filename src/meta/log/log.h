// The metadata log: transactions are appended to a chain of bands; a map says where the newest
// image of each node lies. docs/metadata-log.md says how the log works, docs/format.md section 3
// what it looks like on disk.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "device/device.h"
#include "meta/log/band_pool.h"
#include "meta/log/clean_policy.h"
#include "meta/log/cold_bands.h"
#include "meta/log/history.h"
#include "meta/log/hot_chain.h"
#include "meta/log/live_map.h"
#include "meta/log/log_format.h"
#include "meta/log/log_layout.h"
#include "meta/log/recovered_log.h"
#include "meta/log/transaction.h"

namespace lazyfs::meta {

// Joins the parts of the log under one lock: HotChain (where transactions go), ColdBands, LiveMap
// (which images are live), BandPool (bands that hold nothing). Writes through LogWriter.
//
// Invariants, with mu_ held:
//
//   L1  chain_ has every band from the one with the oldest part to the head
//   L2  a band is in exactly one of chain_, cold_, and pool_'s free and retired bands; an adopted
//       band is in both chain_ and cold_ until release()
//   L3  no durable commit needs what a free band held: the tail of the newest durable transaction
//       has passed the band, or, if it was a cold one, the superblock names a durable transaction
//       without live nodes in it
//   L4  the first part of map_ holds a live node or a current index of a cold part
//   L5  every cold part with live nodes has a current index, at its indexed_at, which is the place
//       of a hot part
//
// On a device that keeps no write pointers:
//   L6  a band is free after every crash: the last free band, called the rescue band, is begun only
//       by a transaction that empties another band
//   L7  before a band is reset the superblock names a durable transaction that needs nothing of it
//
// On a device that keeps them:
//   L8  the reset of a hot band is durable before the band is written. Otherwise a crash could
//       leave the old write pointer, and the band would count as full. unflushed_ has the bands
//       that were reset after the newest transaction
//
// plan(), write(), release() and everything else that changes the map are called by one thread at a
// time, "the committing thread". All else is thread-safe. mu_ is a leaf lock; no I/O is done while
// it is held.
class Log {
 public:
  struct Identity {
    Uuid uuid{};
    std::uint64_t session = 0;
  };
  Log(device::Device& device, Identity identity, const RecoveredLog& found);

  // See RebuiltMap.
  bool is_sound() const EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return is_sound_;
  }
  // Resets the retired bands, which become free, except bands to which a write has failed.
  void reset_retired() EXCLUDES(mu_);

  // ---- the map ----
  struct Location {
    BandAddress address;
    Seq seq;  // of the transaction that wrote the image
    friend bool operator==(const Location&, const Location&) = default;
  };
  std::optional<Location> find(NodeNo node) const EXCLUDES(mu_);
  struct LiveNode {
    NodeNo node;
    BandAddress address;
  };
  // The node and its neighbours, in the order of their addresses: live nodes that its transaction
  // wrote into the same band, from `before` blocks before the node to less than `after` blocks
  // after its beginning. Empty if the map does not have the node.
  std::vector<LiveNode> find_run(NodeNo node, std::uint32_t before, std::uint32_t after) const
      EXCLUDES(mu_);
  // Live nodes of the band, at most `max`, in the order of their addresses.
  std::vector<NodeNo> live_of(std::uint64_t slot, std::size_t max) const EXCLUDES(mu_);
  // Whether the newest image of the node is in the band with this slot.
  bool is_live_in(std::uint64_t slot, NodeNo node) const EXCLUDES(mu_);
  // Every live node with its place, in the order of the log; nodes in cold bands last.
  std::vector<std::pair<NodeNo, Location>> all_live() const EXCLUDES(mu_);
  // The present map. REQUIRES: called by the committing thread.
  MapCheckpoint checkpoint() const EXCLUDES(mu_);

  // ---- writing ----
  // Takes the space for a transaction of `images` blocks and `annotations` (descriptor entries
  // without a block). `is_rescue`: the transaction empties a band, so it may begin the rescue band
  // (L6). nullopt: it does not fit. If plan.flushes_first is set, the caller flushes the device
  // before write().
  std::optional<LogPlan> plan(Seq seq, std::uint64_t images, std::uint64_t annotations,
                              bool is_rescue = false) EXCLUDES(mu_);
  // Updates the map and appends the transaction. Pieces of a checkpoint come last among the images;
  // the checkpoint is of the map before the transaction. The transaction is not durable yet: the
  // caller flushes the device, then calls release(). After an error the band that failed takes
  // nothing more, and the plan is void. The transaction may be planned and written again.
  Result<> write(const LogPlan& plan, std::span<const LogImage> images,
                 std::span<const DescriptorEntry> annotations, NodeNo next_node) EXCLUDES(mu_);
  // Frees the space of a plan. REQUIRES: nothing of the plan was written.
  void take_back(const LogPlan& plan) EXCLUDES(mu_);
  // Whether release() would reset a band.
  bool has_passed_bands() const EXCLUDES(mu_);
  // Resets and frees the bands that the tail of the last transaction has passed. REQUIRES: that
  // transaction is durable; on a device that keeps no write pointers also L7.
  void release() EXCLUDES(mu_);
  // The last part of the newest transaction.
  PartPlace newest() const EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return last_part_;
  }

  // ---- the end, on a device that keeps no write pointers ----
  // `next`: where the next transaction begins; its RBA is the size of the band if the band takes no
  // more. `is_open`: the newest part ends there, and nothing was written past it since the band's
  // reset, so the next session can continue there.
  struct Head {
    BandAddress next;
    bool is_open = false;
  };
  Head head() const EXCLUDES(mu_);
  // The band that a rescue empties. One transaction can empty the oldest band of the chain or a
  // cold band; among these it is one with the fewest live nodes.
  std::optional<CleanChoice> choose_rescue() const EXCLUDES(mu_);
  // Whether a rescue can still empty the band, and a transaction of this size fits.
  bool may_rescue(std::uint64_t slot, std::uint64_t images, std::uint64_t annotations) const
      EXCLUDES(mu_);

  // ---- cold bands ----
  // Room for at most `wanted` cold nodes. Begins a cold band if that leaves `keep` blocks
  // available; nullopt: there is no room.
  std::optional<ColdRoom> plan_cold(std::size_t wanted, std::uint64_t keep) EXCLUDES(mu_);
  // Appends images to the cold band. They must be durable before the transaction that indexes them
  // is written. After an error the band takes nothing more.
  Result<> write_cold(const ColdRoom& room, std::span<const LogImage> images) EXCLUDES(mu_);
  // Called when the log is opened for writing. Continues to fill the cold band with most room, and
  // seals the other partly written bands of earlier sessions, except the head. Does nothing on a
  // device that keeps no write pointers.
  void resume() EXCLUDES(mu_);
  // The cold index that makes the oldest band of the chain a cold band. Empty unless that band has
  // the slot.
  std::vector<DescriptorEntry> index_for_adoption(std::uint64_t slot) const EXCLUDES(mu_);
  // A new index, of about `max` entries, of the cold parts that are indexed in the oldest band of
  // the chain. Empty unless that band has the slot.
  std::vector<DescriptorEntry> index_again(std::uint64_t slot, std::size_t max) const
      EXCLUDES(mu_);
  bool has_dead_cold_bands() const EXCLUDES(mu_);
  // Resets the dead cold bands, which become free. REQUIRES: the superblock names a durable
  // transaction without live nodes in them (L3).
  void release_cold() EXCLUDES(mu_);

  // ---- cleaning and size ----
  // The band that the cleaner empties next, if there is one. `has_cold`: the log is large enough
  // for cold bands.
  std::optional<CleanChoice> choose_victim(bool may_adopt, bool has_cold) const EXCLUDES(mu_);
  // The band that the cleaner empties next so that all of `bands` become free: a cold one of them,
  // or, if one of them is in the chain, the oldest band of the chain. From then on nothing is
  // written to `bands` in this session. nullopt: none is in use, or the cleaner leaves the band
  // out. Error: kLogFull, when less than `keep` blocks would be available. REQUIRES: called by the
  // committing thread.
  Result<std::optional<CleanChoice>> choose_to_empty(std::span<const BandId> bands,
                                                     std::uint64_t keep) EXCLUDES(mu_);
  // Called if live nodes of the band with this slot cannot be read. The cleaner leaves the band
  // out, and its space does not count. If it is the oldest band of the chain it is adopted, so that
  // the tail can pass it. When too many bands are left out, the cleaner tries them all again.
  // False: the band is already left out, or not in the log any more.
  bool leave_out(std::uint64_t slot) EXCLUDES(mu_);
  void add_band(BandId band) EXCLUDES(mu_);
  // Removes a free band that is not the rescue band from the log. nullopt: there is none.
  std::optional<BandId> remove_free_band() EXCLUDES(mu_);

  // ---- figures ----
  struct Figures {
    std::uint64_t live = 0, jmap_bytes = 0;
    LogSpace space;
    std::uint64_t total_blocks = 0, bands = 0, parts = 0;
    std::uint64_t free_bands = 0;  // without the rescue band
    bool has_rescue_band = false;   // it is free
    bool is_tail_left_out = false;  // the oldest band of the chain is left out
    std::uint64_t cold_bands = 0, cold_live = 0;
    std::uint64_t blocks_written = 0;
    std::uint64_t after_checkpoint = 0;   // blocks of the transactions after the newest checkpoint
    std::uint64_t checkpoint_pieces = 0;  // of a checkpoint written now, at most
    std::uint64_t recovered_parts = 0;    // whose descriptors were read when the log was opened
  };
  Figures figures() const EXCLUDES(mu_);
  LogSpace space() const EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return space_locked();
  }
  std::vector<BandId> bands() const EXCLUDES(mu_);
  // The sizes of the bands whose space counts: not failed, left out or retired.
  std::vector<std::uint32_t> band_sizes() const EXCLUDES(mu_);

 private:
  std::uint32_t blocks_of(BandId band) const { return device_.geometry().blocks_of(band); }
  // The free bands that any transaction may begin.
  std::span<const BandId> ordinary_bands_locked() const REQUIRES(mu_);
  LogSpace space_locked() const REQUIRES(mu_);
  std::vector<BandId> bands_locked() const REQUIRES(mu_);
  const Part& part_holding_locked(BandAddress address) const REQUIRES(mu_);
  PartAddress move_map(const LogPlan& plan, std::span<const LogImage> images,
                       std::span<const DescriptorEntry> annotations) EXCLUDES(mu_);
  void read_index(std::span<const DescriptorEntry> annotations, LogPlace at) EXCLUDES(mu_);
  void add_part(const PartPlan& planned, Seq seq, std::span<const LogImage> images)
      EXCLUDES(mu_);
  void trim_locked() REQUIRES(mu_);
  void add_cold_parts(MapCheckpoint& checkpoint) const EXCLUDES(mu_);
  void close_failed(BandId band, Errc why) EXCLUDES(mu_);
  bool counts_locked(BandId band) const REQUIRES(mu_);

  device::Device& device_;
  const Identity identity_;
  const bool has_rescue_band_;

  mutable Mutex mu_;
  ColdBands cold_ GUARDED_BY(mu_);  // its parts outlive the entries of map_
  LiveMap map_ GUARDED_BY(mu_);
  HotChain chain_ GUARDED_BY(mu_);
  BandPool pool_ GUARDED_BY(mu_);
  std::set<BandId> unflushed_ GUARDED_BY(mu_);                // L8
  std::map<std::uint64_t, BandId> left_out_ GUARDED_BY(mu_);  // by slot: see leave_out()
  bool is_sound_ GUARDED_BY(mu_) = true;
  PartPlace last_part_ GUARDED_BY(mu_);  // written last; `previous` of the next one
  std::uint64_t blocks_written_ GUARDED_BY(mu_) = 0;
  std::uint64_t after_checkpoint_ GUARDED_BY(mu_) = 0;
  const std::uint64_t recovered_parts_;
  History history_;  // the committing thread's
};

}  // namespace lazyfs::meta
