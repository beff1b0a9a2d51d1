// The metadata store: an ordered map from Key to small values, kept in one B+tree whose nodes live
// in a log. Reads see every change that apply() has made. A change is durable when a commit() that
// began after it has returned. After a crash the store holds the state at some transaction boundary
// at or after the last completed commit(), and every batch is in it whole or not at all.
//
// Source: ext4-lazy (FAST'17, section 3): log, jmap, cleaner. docs/metadata-log.md has the
// algorithm.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "device/device.h"
#include "meta/tree/batch.h"
#include "meta/tree/key.h"
#include "meta/log/superblock.h"

namespace lazyfs::meta {

struct StoreOptions {
  std::size_t cache_bytes = std::size_t{64} << 20;        // nodes kept in memory
  std::size_t transaction_bytes = std::size_t{32} << 20;  // a larger one is committed early; less
                                                          // in a small log or cache
  std::size_t checkpoint_bytes = std::size_t{64} << 20;  // the next checkpoint of the map is due
                                                         // after this much log: at most a fourth of
                                                         // the log, at least 16 times its own size
  bool background = true;  // own thread: commits large transactions and cleans. Without it the same
                           // work is done inside commit(), so that tests replay exactly
  std::uint64_t mount_seconds = 0;  // the time of a mount, which the superblock counts; 0: none
  std::uint64_t check_seconds = 0;  // the time of a check, for the superblock; 0: none
  // Written by the record that begins the session.
  std::optional<std::string> label;
  std::optional<Uuid> new_uuid;
  bool read_only = false;  // never writes to the device; apply() fails with kReadOnly
};

// How far into its reserve a change may reach when the log is nearly full.
enum class Reserve : std::uint8_t {
  kNone,      // ordinary work: fails with kLogFull first
  kPromised,  // recording data that the volume has accepted: see promise_with()
  kPunch,     // punching holes: it frees space, but each hole may make a map larger
  kDelete,    // other work that frees space: unlink, truncate, the collector
};

// Each figure is a count since the store was opened, or the present state.
struct StoreStats {
  std::uint64_t transactions = 0;        // committed
  std::uint64_t log_blocks_written = 0;  // all appends: descriptors, nodes, commit records
  std::uint64_t nodes_written = 0;       // node images appended
  std::uint64_t nodes_cleaned = 0;       // of nodes_written: moved by the cleaner, unchanged
  std::uint64_t nodes_cooled = 0;        // of nodes_cleaned: moved to cold bands
  std::uint64_t bands_adopted = 0;       // made cold bands without moving their nodes
  std::uint64_t checkpoints = 0;           // of the map, written
  std::uint64_t log_blocks_after_checkpoint = 0;  // which opening would read
  std::uint64_t recovered_parts = 0;             // parts of the log that were read at opening
  std::uint64_t log_live_blocks = 0;             // jmap entries: blocks that hold a newest image
  std::uint64_t log_total_blocks = 0;            // all blocks of the log's bands
  std::uint64_t log_bands = 0;
  std::uint64_t log_free_bands = 0;
  std::uint64_t log_cold_bands = 0;        // that hold what does not change
  std::uint64_t log_cold_live_blocks = 0;  // newest images in them
  std::uint64_t jmap_entries = 0;
  std::uint64_t jmap_bytes = 0;
  std::uint64_t nodes_cached = 0;
  std::uint64_t nodes_dirty = 0;
  std::uint64_t node_reads = 0;  // node images read from the device
  std::uint64_t plans_repeated = 0;  // changes planned again, as the tree had changed
  std::uint64_t tree_height = 0;
  std::uint64_t commits_waiting = 0;  // calls of commit() that are not served yet, now
  std::uint64_t commit_ns_max = 0;

  // Blocks written to the log for each node that was changed.
  double log_write_amplification() const {
    const std::uint64_t changed = nodes_written - nodes_cleaned;
    return changed == 0 ? 1.0
                        : static_cast<double>(log_blocks_written) / static_cast<double>(changed);
  }
};

// A range of keys: first <= key, and key < end unless there is none.
struct KeyRange {
  Key first;
  std::optional<Key> end;
  friend bool operator==(const KeyRange&, const KeyRange&) = default;
};

// The functions that Store::check() calls.
struct CheckListener {
  std::function<void(std::string)> problem;  // gets a sentence for each problem
  // Gets the number of nodes checked. Each node is read twice, and `total` counts both. May be
  // empty.
  std::function<void(std::uint64_t done, std::uint64_t total)> progress = {};
};

// Thread-safe. No lock is held over device I/O by a reader or by apply(); commits run beside both.
class Store {
 public:
  virtual ~Store() = default;

  // Makes a store on `device`: superblocks in `superblock.super_bands`, a log in
  // `superblock.log_bands`, all of which are reset first. The store has the items that
  // `first_items` puts. Durable on return. The superblocks are written last: a power cut leaves no
  // store, or the whole one.
  // REQUIRES: `first_items` puts each key once and does nothing else; its items fit into one node.
  static Result<> format(device::Device& device, const Superblock& superblock,
                         const Batch& first_items = {});

  // Opens the store that is on `device`, recovering it from its log. `device` must outlive it.
  // Errors: kNoFilesystem, kSuperblockBad, kSuperblockVersion, kSuperblockNewer, kFeatureUnknown,
  // kFeatureReadOnly, kLogTailLost, kDeviceRead, ...
  static Result<std::unique_ptr<Store>> open(device::Device& device, const StoreOptions& options);

  // Opens a damaged store for writing and repairs it. A lost superblock is rebuilt from the log
  // first; options.new_uuid says which volume's log counts, if there are several. Then every node
  // that can be read and holds items of the newest state is put back into the tree. Calls `report`
  // with a sentence for each change. Calls `on_lost(store, ranges)`, with the ranges where items
  // may have been lost, before the repaired tree is committed; changes made by the callback are
  // committed in the same transaction as the repair, if they fit.
  // Errors: those of open() when the log is lost or cannot be read, or a sound node can no longer
  // be read; those of apply() and of `on_lost`.
  using LostListener = std::function<Result<>(Store&, const std::vector<KeyRange>&)>;
  //
  // On a device that keeps no write pointers the log may have no free band after the superblock was
  // rebuilt. Then `find_free` is called once, and returns bands that hold nothing of the volume.
  using FreeBandFinder = std::function<Result<std::vector<BandId>>(Store&)>;
  static Result<std::unique_ptr<Store>> repair(device::Device& device, const StoreOptions& options,
                                               const std::function<void(std::string)>& report,
                                               const LostListener& on_lost,
                                               const FreeBandFinder& find_free = nullptr);

  // The item's value, or nullopt.
  virtual Result<std::optional<Value>> get(Key key) = 0;
  // The last item with first <= key <= last, or nullopt.
  virtual Result<std::optional<Item>> last_in(Key first, Key last) = 0;
  // The items with first <= key <= last in order, at most `max_items` of them. One call sees one
  // state of each node it visits; items that exist during the whole call are all returned.
  virtual Result<std::vector<Item>> scan(Key first, Key last, std::size_t max_items) = 0;
  // The first key past the part of the tree that holds `key`: past its leaf, or past the subtree of
  // the node on the way to the leaf that cannot be read. A scan that fails at `key` can continue
  // there. nullopt: no key lies past it.
  virtual std::optional<Key> end_of_part(Key key) = 0;

  // Makes all changes of `batch` at once. Returns the transaction they belong to.
  // Errors, which change nothing: kLogFull, kBatchTooLarge, kValueTooLarge, kItemBad, kReadOnly,
  // kLogFailed, kShutDown, kNoMemory, and those of reading a node.
  // May wait for a commit, or run one. REQUIRES: the caller holds no lock that a reader may need.
  virtual Result<Seq> apply(const Batch& batch, Reserve reserve = Reserve::kNone) = 0;
  // As apply(), for callers that hold locks: fails with kMustWait where apply() would wait for a
  // commit or for the cleaner. The caller then releases its locks, calls make_room(), and plans its
  // change again: when_room() does so.
  virtual Result<Seq> try_apply(const Batch& batch, Reserve reserve = Reserve::kNone) = 0;
  // Waits until there is room for a change as large as the one that try_apply() refused last on
  // this thread. Other threads may take the room before the caller uses it. REQUIRES: try_apply()
  // of this store has failed with kMustWait on this thread. Errors: those of apply().
  virtual Result<> make_room() = 0;

  // Makes everything applied before the call durable, together with all data that was appended to
  // the device before it: one flush, or two (docs/metadata-log.md, "Committing"). Concurrent calls
  // share one commit. Errors: kLogFailed, the store is read-only from then on; kNoMemory.
  virtual Result<> commit() = 0;
  // The newest transaction that is durable.
  virtual Seq durable_seq() const = 0;

  // The volume's functions by which the log takes a band when too much of it is live, and gives one
  // back. A taken band is free, and only the store uses it from then on; it is given back reset.
  // Called with no lock held. Set once, before the first apply(); without it the log cannot grow.
  // REQUIRES: neither function calls the store.
  struct BandSource {
    std::function<Result<BandId>()> take;
    std::function<void(BandId)> give_back;
  };
  virtual void set_band_source(BandSource source) = 0;
  // Data that the volume has accepted and not yet recorded is promised: ordinary work leaves room
  // in the log for recording it. `promised_blocks` returns the number of its blocks. Set once,
  // before the first apply(). The function is called with a lock held. REQUIRES: it does not call
  // the store.
  virtual void promise_with(std::function<std::uint64_t()> promised_blocks) = 0;
  // Whether the log has room for recording the promised blocks, and `more_blocks`.
  virtual bool has_room_to_record(std::uint64_t more_blocks) = 0;
  // Adds bands to the log until it has that room. False: no band is available.
  virtual bool make_room_to_record(std::uint64_t more_blocks) = 0;
  // For a volume that has no space left: commits, cleans, and gives back every band that the log
  // does not need. Does nothing if it needs them all.
  // Error: kLogFailed.
  virtual Result<> give_back_bands() = 0;

  // Moves all live nodes out of those of `bands` that the log uses, as the cleaner does, so that
  // the bands become free. A band stays in use if the device cannot read a node in it, or if the
  // log is too full to begin another band in its place. Errors: kReadOnly, kLogFailed, kShutDown.
  virtual Result<> empty_log_bands(std::span<const BandId> bands) = 0;

  // Called after the device has gained bands (device::Device::grow()). Writes a superblock that
  // counts them. REQUIRED before BandSource::take() returns one of them. Error: kLogFailed,
  // kReadOnly.
  virtual Result<> extend() = 0;

  // The bands that belong to the log now; super bands are in superblock().
  virtual std::vector<BandId> log_bands() const = 0;
  // The same bands, ascending, and how many newest node images each holds. Slow: it visits the map.
  struct LogBandUse {
    BandId band;
    std::uint64_t live_blocks = 0;
  };
  virtual std::vector<LogBandUse> log_band_use() const = 0;
  virtual Superblock superblock() const = 0;
  // Whether the last session ended cleanly: nothing was written after its last transaction. The
  // flag in superblock() is about the present session.
  virtual bool was_clean() const = 0;
  // A sentence for each place that could not be read when the store was opened, if it may have held
  // transactions newer than those that were recovered.
  virtual const std::vector<std::string>& log_losses() const = 0;
  // The owner of the data bands calls it at the end of a session: whether each of them ends where
  // its summary says. The next session finds it in superblock(), if was_clean().
  virtual void set_data_ends_known(bool known) = 0;
  // Changes StoreOptions::cache_bytes from now on.
  virtual void set_cache_bytes(std::size_t bytes) = 0;
  virtual StoreStats stats() const = 0;
  // True once a commit has failed.
  virtual bool failed() const = 0;

  // Commits (unless read-only or failed), and stops the background thread. No other call may run.
  virtual Result<> close() = 0;
  // Ends without a commit, as a power cut does: after the call nothing is written to the device.
  // Calls that would have to write fail with kShutDown. Other calls may run meanwhile.
  virtual void abandon() = 0;

  // Reads every node through the map and checks structure, order, checksums and reachability; for
  // fsck and tests. No apply() may run.
  virtual void check(const CheckListener& listener) = 0;
};

// Calls `change`, which takes locks and calls try_apply() under them. While `change` fails with
// kMustWait, waits for room and calls it again. A further failure means that another thread took
// the room, or that a commit made the change larger. Returns the last result of `change`, or the
// error of make_room().
template <class Change>
std::invoke_result_t<const Change&> when_room(Store& store, const Change& change) {
  for (;;) {
    auto changed = change();
    if (changed || changed.error() != Errc::kMustWait) return changed;
    if (auto room = store.make_room(); !room) return fail(room.error());
  }
}

}  // namespace lazyfs::meta
