// The metadata log: a chain of bands to which transactions are appended, the map of what is live in
// it, and the space that is left. docs/metadata-log.md tells how it works, docs/format.md section 3
// what it looks like on disk.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "device/device.h"
#include "meta/log/clean_policy.h"
#include "meta/log/history.h"
#include "meta/log/jmap.h"
#include "meta/log/log_format.h"
#include "meta/log/log_layout.h"

namespace lazyfs::meta {

// A node image, or a piece of a snapshot, to be written: 4096 bytes, aligned; `crc` covers its
// bytes [8, 4096).
struct LogImage {
  std::uint64_t number = 0;  // of the node, or of the piece
  const std::byte* bytes = nullptr;
  std::uint32_t crc = 0;
  EntryKind kind = EntryKind::kImage;

  NodeNo node() const { return NodeNo{number}; }
};

// Where the cleaner may put nodes that did not change for long.
struct ColdRoom {
  BandId band;
  std::uint64_t slot = 0;
  std::uint32_t rba = 0;
  std::uint32_t blocks = 0;
  bool is_fresh = false;  // its header has yet to be written
};

// A transaction with its place in the log, before it is written.
struct LogPlan {
  Seq seq;
  std::vector<PartPlan> parts;
};

// What recovery found, in the order of the log.
struct RecoveredPart {
  PartPlace place;
  BandId band;
  std::uint32_t descriptors = 0;
  std::vector<DescriptorEntry> entries;
};
struct RecoveredLog {
  std::optional<MapSnapshot> snapshot;  // the map before `parts`; without it they are all there is
  std::vector<RecoveredPart> parts;
  std::vector<ChainBand> chain;  // the hot log, oldest first; the last one is the head
  std::vector<BandId> spare;     // the others: cold ones, and those that hold nothing needed
  std::uint32_t head_rba = 0;    // write pointer of the head band
  Seq seq;                       // newest transaction
  NodeNo next_node;
};

// The hot log is the chain of bands that transactions are appended to. A cold band is out of the
// chain: either the cleaner has filled it with images of nodes, or it was part of the chain and was
// adopted. What lies in it is listed, part by part, in descriptors of the hot log; a listing counts
// until the part is listed anew or is dead, and the tail does not pass it before.
//
// Invariants, with mu_ held:
//
//   L1  chain_ holds every band from the one where the oldest part lies to the head, slots
//       increasing, and behind the head, after a failure, bands in which nothing was written yet
//   L2  a band is in exactly one of chain_, cold_, free_, retired_
//   L3  every band of free_ is empty; no durable commit's tail has yet to pass it, or, if it was a
//       cold one, the superblock says of a commit that holds no node of it that it is durable
//   L4  parts_ is ordered by place; its first part holds a live node or a listing that counts
//   L5  every cold part with live nodes is listed, at its listed_at, which is in parts_
//   L6  live_in_ has for every band the number of jmap's entries that lie in it
//
// plan(), write() and release() belong to the one committing thread; all else is thread-safe. mu_
// is a leaf lock; no I/O is done under it.
class Log {
 public:
  struct Identity {
    Uuid uuid{};
    std::uint64_t session = 0;
  };
  Log(device::Device& device, Identity identity, const RecoveredLog& found);

  // Whether what was found can be: every cold band belongs to the log, and is none of the chain;
  // parts do not overlap.
  bool is_sound() const EXCLUDES(mu_);
  // Empties the spare bands: the first thing to do when the log is opened for writing.
  void reset_spares() EXCLUDES(mu_);

  struct Location {
    BandAddress address;
    Seq seq;  // of the transaction that wrote the image
  };
  std::optional<Location> find(NodeNo node) const EXCLUDES(mu_);
  struct LiveNode {
    NodeNo node;
    BandAddress address;
  };
  // The node, and the live ones that its transaction wrote into the same band up to `before` blocks
  // before it and less than `behind` behind, in the order of their addresses. Empty when the node
  // is not there.
  std::vector<LiveNode> find_run(NodeNo node, std::uint32_t before, std::uint32_t behind) const
      EXCLUDES(mu_);

  // Takes the space for a transaction. nullopt when it does not fit.
  std::optional<LogPlan> plan(Seq seq, std::uint64_t images, std::uint64_t notes) EXCLUDES(mu_);
  // Moves the map, appends the transaction; pieces of a snapshot, of the map as it was before, come
  // last among its images. Not yet durable: the caller flushes the device, then
  // calls release(). After an error the band that failed takes nothing more, and the plan is void:
  // the transaction may be planned and written anew.
  Result<> write(const LogPlan& plan, std::span<const LogImage> images,
                 std::span<const DescriptorEntry> notes, NodeNo next_node) EXCLUDES(mu_);
  // Nothing of the plan has been written: its space is free again.
  void take_back(const LogPlan& plan) EXCLUDES(mu_);
  // The last transaction written is durable: bands that its tail has passed are reset and free.
  void release() EXCLUDES(mu_);

  // ---- cold bands (log_cold.cc) ----
  // Room for at most `wanted` cold nodes. Begins a band for it if need be, when `keep` blocks stay
  // available; else nullopt.
  std::optional<ColdRoom> plan_cold(std::size_t wanted, std::uint64_t keep) EXCLUDES(mu_);
  // Puts images there; to be made durable before the transaction that lists them is written. After
  // an error the band takes nothing more.
  Result<> write_cold(const ColdRoom& room, std::span<const LogImage> images);
  // Goes on filling the cold band that has most room: when the log is opened for writing.
  void resume_cold() EXCLUDES(mu_);
  // Notes for the transaction `seq`, which has put `images` there.
  static std::vector<DescriptorEntry> listing_of(const ColdRoom& room, Seq seq,
                                                 std::span<const LogImage> images);
  // Notes by which the hot log's oldest band, if its slot is `slot`, becomes a cold one.
  std::vector<DescriptorEntry> list_for_adoption(std::uint64_t slot) const EXCLUDES(mu_);
  // Notes that list anew what listings in the hot log's oldest band, if its slot is `slot`, say:
  // about `max` of them.
  std::vector<DescriptorEntry> list_anew(std::uint64_t slot, std::size_t max) EXCLUDES(mu_);
  bool has_dead_cold_bands() const EXCLUDES(mu_);
  // The superblock knows of a durable commit that needs none of them: they are reset and free.
  void release_cold() EXCLUDES(mu_);

  // The map as it is. The committing thread calls it.
  MapSnapshot snapshot() const EXCLUDES(mu_);
  // The newest transaction's last part.
  PartPlace newest() const EXCLUDES(mu_);

  // The band that the cleaner empties next, if there is one. `has_cold`: the log is large enough
  // for cold bands at all.
  std::optional<CleanChoice> choose_victim(bool may_adopt, bool has_cold) const EXCLUDES(mu_);
  // What is live in the band of this slot cannot be read now. In this session it is not chosen
  // again; if it is the hot log's oldest it is to be adopted, so that the tail can pass it. What is
  // dead in it is not to be counted on.
  void hold(std::uint64_t slot) EXCLUDES(mu_);
  // Live nodes of the band, at most `max`, in the order of their addresses.
  std::vector<NodeNo> live_of(std::uint64_t slot, std::size_t max) const EXCLUDES(mu_);
  // Every live node, with its place, in the order of the log, the cold ones last.
  std::vector<std::pair<NodeNo, Location>> all_live() const EXCLUDES(mu_);

  void add_band(BandId band) EXCLUDES(mu_);
  // A free band that the log can do without from now on, or nullopt.
  std::optional<BandId> remove_free_band() EXCLUDES(mu_);

  struct Figures {
    std::uint64_t live = 0, jmap_bytes = 0;
    LogSpace space;
    std::uint64_t total_blocks = 0, bands = 0, free_bands = 0, parts = 0;
    std::uint64_t cold_bands = 0, cold_live = 0;
    std::uint64_t blocks_written = 0;
    std::uint64_t behind_snapshot = 0;  // blocks of the transactions behind the newest snapshot
    std::uint64_t snapshot_pieces = 0;  // that a snapshot would take now, at most
    std::uint64_t recovered_parts = 0;  // whose descriptors were read when the log was opened
  };
  Figures figures() const EXCLUDES(mu_);
  LogSpace space() const EXCLUDES(mu_);
  std::uint64_t available() const EXCLUDES(mu_) { return space().available; }
  std::vector<BandId> bands() const EXCLUDES(mu_);
  std::vector<std::uint32_t> band_sizes() const EXCLUDES(mu_);  // of those to be counted on

 private:
  std::uint32_t blocks_of(BandId band) const { return device_.geometry().blocks_of(band); }
  LogSpace space_locked() const REQUIRES(mu_);
  void restore_locked(const MapSnapshot& snapshot) REQUIRES(mu_);
  void restore_locked(std::span<const RecoveredPart> transaction) REQUIRES(mu_);
  void restore_locked(const RecoveredPart& from) REQUIRES(mu_);
  void restore_cold_locked() REQUIRES(mu_);
  void check_places_locked() REQUIRES(mu_);
  void add_cold(MapSnapshot& snapshot) const EXCLUDES(mu_);
  BandId band_of_locked(std::uint64_t slot) const REQUIRES(mu_);
  const Part* part_at_locked(BandAddress address) const REQUIRES(mu_);
  PartAddress move_map(const LogPlan& plan, std::span<const LogImage> images,
                       std::span<const DescriptorEntry> notes) EXCLUDES(mu_);
  void note_history(const LogPlan& plan, const PartPlace& previous,
                    std::span<const LogImage> images, std::span<const DescriptorEntry> notes);
  void trim_locked() REQUIRES(mu_);
  const ChainBand* head_locked() const REQUIRES(mu_);  // nullptr: nothing was written yet
  void make_head_locked(std::size_t index, std::uint32_t rba) REQUIRES(mu_);
  bool has_failed(BandId band) const EXCLUDES(mu_);
  bool is_held(BandId band) const EXCLUDES(mu_);
  void close_failed(BandId band, Errc why) EXCLUDES(mu_);
  void free_locked(std::span<const BandId> bands) REQUIRES(mu_);
  void assign_locked(NodeNo node, BandAddress address, Part& part) REQUIRES(mu_);
  void erase_locked(NodeNo node) REQUIRES(mu_);

  struct ColdPart {
    ColdPart(PartAddress where, BandId in) : part(where, in, 0) {}
    Part part;
    LogPlace listed_at;  // the first part of the transaction whose listing counts
  };
  struct ColdBand {
    explicit ColdBand(BandId in) : band(in) {}
    BandId band;
    std::map<std::uint32_t, ColdPart> parts;  // by their first blocks
  };
  // Where in a listing somebody is who reads it.
  struct ListingCursor {
    std::uint64_t slot = 0;
    ColdBand* band = nullptr;
    Part* part = nullptr;
  };
  void note_locked(const DescriptorEntry& note, LogPlace at, ListingCursor& cursor) REQUIRES(mu_);
  ColdPart* cold_part_locked(LogPlace place) REQUIRES(mu_);
  bool is_listed_locked(LogPlace cold_part, LogPlace at) REQUIRES(mu_);
  bool has_listing_locked(LogPlace at) REQUIRES(mu_);
  std::vector<BandId> dead_cold_bands_locked() const REQUIRES(mu_);

  device::Device& device_;
  const Identity identity_;

  mutable Mutex mu_;
  std::deque<Part> parts_ GUARDED_BY(mu_);  // these two outlive the entries of jmap_
  std::map<std::uint64_t, ColdBand> cold_ GUARDED_BY(mu_);  // by slot
  Jmap jmap_ GUARDED_BY(mu_);
  std::map<LogPlace, std::vector<LogPlace>> listings_ GUARDED_BY(mu_);  // what is listed where
  std::vector<std::uint32_t> live_in_ GUARDED_BY(mu_);                  // by band
  std::uint64_t assigned_ GUARDED_BY(mu_) = 0;                          // images, in this life
  std::vector<std::uint64_t> written_at_ GUARDED_BY(mu_);  // by band: assigned_ at its last image
  std::optional<ColdRoom> cold_room_ GUARDED_BY(mu_);      // what the cleaner fills, and its rest
  bool is_sound_ GUARDED_BY(mu_) = true;
  std::deque<ChainBand> chain_ GUARDED_BY(mu_);
  std::vector<BandId> free_ GUARDED_BY(mu_);
  std::vector<BandId> retired_ GUARDED_BY(mu_);  // could not be reset; not used in this session
  std::set<BandId> failed_ GUARDED_BY(mu_);  // while they were written; not reset in this session
  std::map<std::uint64_t, BandId> held_ GUARDED_BY(mu_);  // by slot: see hold()
  std::set<std::uint64_t> void_slots_ GUARDED_BY(mu_);  // of those that failed at their first part
  std::size_t unbegun_ GUARDED_BY(mu_) = 0;  // bands of the chain behind the head: see L1
  std::uint32_t head_rba_ GUARDED_BY(mu_) = 0;
  std::uint64_t next_slot_ GUARDED_BY(mu_) = 0;
  std::uint64_t blocks_written_ GUARDED_BY(mu_) = 0;
  PartPlace last_part_ GUARDED_BY(mu_);  // written last; `previous` of the next
  std::uint64_t behind_snapshot_ GUARDED_BY(mu_) = 0;
  const std::uint64_t recovered_parts_;
  History history_;  // the committing thread's alone
};

// The slots of a session: strictly increasing for ever, and never given out twice, even when what a
// session wrote is lost in a crash.
constexpr std::uint64_t first_slot_of(std::uint64_t session) { return session << 32; }

}  // namespace lazyfs::meta
