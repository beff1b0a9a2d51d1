// The state that the passes of a check or a repair share: facts found so far, and where findings
// go. Only src/fsck/*.cc include this.
#pragma once

#include <spdlog/fmt/fmt.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fs/item/schema.h"
#include "fsck/block_set.h"
#include "fsck/check.h"
#include "fsck/reference_count_runs.h"
#include "fsck/repair.h"

namespace lazyfs::fsck {

using namespace fs;  // the items that every pass reads

struct BandFacts {
  enum class Use : std::uint8_t { kData, kSuper, kLog };
  Use use = Use::kData;
  bool has_summary = false;
  bool has_log_items = false;
  std::uint32_t blocks = 0;
  device::BandReport device;
  bool is_end_known = true;  // false: the device keeps no write pointers; device's is the size
  BandSummaryRecord summary;
  std::uint64_t extents = 0;  // in it
  BlockSet live;              // blocks that extents refer to
  bool disagrees = false;     // logs or summary with the extents or the device
};
std::string_view to_string(BandFacts::Use use);

struct InodeFacts {
  InodeNo inode;
  InodeNo parent;  // of a directory
  std::uint32_t links = 0;
  std::uint8_t type = 0;  // mode >> 12
  // The record was lost, or contradicted the inode's items: its other fields are not compared.
  bool is_mended = false;
  bool is_rebuilt = false;  // a repair has made the record; the former one is lost
};

struct OrphanFacts {
  InodeNo inode;
  OrphanRecord::Work work = OrphanRecord::Work::kDelete;
};

// A name that leads to an inode.
struct NameFacts {
  InodeNo inode;
  InodeNo directory;
  std::uint8_t type = 0;
  friend auto operator<=>(const NameFacts&, const NameFacts&) = default;
};

inline constexpr std::uint8_t kSharedType = kSharedMode >> 12, kDirectoryType = 4, kRegularType = 8,
                              kSymlinkType = 10;
std::string_view type_name(std::uint8_t type);
constexpr std::uint8_t type_of(const InodeRecord& record) {
  return static_cast<std::uint8_t>(record.mode >> 12);
}

inline constexpr meta::Key kFirstKey{0, 0, 0};
inline constexpr meta::Key kLastInodeKey{kVolumeOwner - 1, 255, meta::kMaxOffset};
inline constexpr meta::Key kLastKey{~std::uint64_t{0}, 255, meta::kMaxOffset};
std::optional<meta::Key> successor(meta::Key key);

// Most items that a repair changes in one batch.
inline constexpr std::size_t kBatchItems = 16;

// What a repair does about a finding.
enum class Action : std::uint8_t { kRemove, kMove, kCorrect, kRebuild, kTruncate, kCopy };
std::string_view to_string(Action action);

enum class Mode : std::uint8_t { kCheck, kRepair };

// Invariants:
//   C1  a check changes nothing: put(), erase() and apply() are for repairs
//   C2  the first error of the store ends a repair: error() keeps it, and later calls do nothing
//   C3  in a check, an item that cannot be read counts as absent, is a finding, and clears
//       report.complete
// Single-threaded.
class Context {
 public:
  Context(Mode mode, meta::Store& the_store, device::Device& the_device, Timestamp the_time,
          const FindingListener& listener, const ProgressListener& progress);

  // Fills `bands`. Errors: those of the device's report().
  Result<> learn_bands();
  bool repairs() const { return mode_ == Mode::kRepair; }

  // ---- findings: the sentence has no full stop ----

  // A check reports the finding. A repair reports it with the action, and returns true: the caller
  // must then take the action.
  template <class... Args>
  bool finding(Action action, fmt::format_string<Args...> text, Args&&... args) {
    return found(action, fmt::format(text, std::forward<Args>(args)...));
  }
  // Reports a finding that a repair corrects at its end, by rebuilding the band's logs. It cannot
  // rebuild those of an offline band, so there it reports nothing.
  template <class... Args>
  void band_finding(BandId id, fmt::format_string<Args...> text, Args&&... args) {
    touch(id);
    if (can_rebuild(id)) finding(Action::kRebuild, text, std::forward<Args>(args)...);
  }
  // Reports a finding that no action corrects; a check only.
  template <class... Args>
  void problem(fmt::format_string<Args...> text, Args&&... args) {
    if (!repairs()) found(Action::kCorrect, fmt::format(text, std::forward<Args>(args)...));
  }
  // Reports what an action has changed, if the finding's sentence does not say it.
  template <class... Args>
  void repaired(fmt::format_string<Args...> text, Args&&... args) {
    repair.repairs += 1;
    listener_(fmt::format(text, std::forward<Args>(args)...) + ".");
  }
  // Blocks of a file that a repair has taken from it.
  void lost_blocks(InodeNo inode, std::uint64_t file_block, std::uint64_t blocks,
                   std::string_view why);
  // Reports other lost parts of an inode, in words.
  void lost_other(InodeNo inode, std::string_view what);
  // A name whose inode is lost, and which a repair removes.
  void lost_name(InodeNo directory, const DentryRecord& entry);
  // Makes paths of the names of losses. REQUIRES: names_pass() has run.
  void find_paths_of_losses();
  // Reports an item that cannot be decoded. A repair erases it.
  void bad_item(const meta::Key& key);
  bool bad_item_finding(Action action, const meta::Key& key);
  // Reports an item whose owner cannot exist. A repair erases it.
  void stray_item(const meta::Key& key);

  // Reports progress, now and then.
  void progress(std::string_view stage, StageProgress progress);
  // Reports progress at once: for the first and the last report of a stage.
  void progress_now(std::string_view stage, StageProgress progress);

  // ---- items ----

  // Calls `visit` for each item of the range, in order, with its current value: a repair may change
  // items meanwhile. Stops where an item cannot be read. No progress is reported when `stage` is
  // empty.
  template <class Visit>
  void visit(meta::Key first, meta::Key last, std::string_view stage, Visit visit) {
    std::optional<meta::Key> from = first;
    const bool is_all = first == kFirstKey && last == kLastInodeKey;
    StageProgress read{.total = is_all ? items_of_inodes_ : 0};
    while (good() && from && *from <= last) {
      auto items = store.scan(*from, last, kScanItems);
      if (!items) return unreadable(*from, items.error());
      const std::uint64_t edits = edits_;
      for (meta::Item& item : *items) {
        if (edits_ != edits) {
          auto current = get(item.key);
          if (!current) continue;
          item.value = std::move(*current);
        }
        visit(item);
      }
      read.done += items->size();
      progress(stage, read);
      if (items->size() < kScanItems) break;
      from = successor(items->back().key);
    }
    if (is_all) items_of_inodes_ = read.done;
    progress_now(stage, read);
  }
  // All items of that kind of one inode or band.
  template <class Owner, class Visit>
  void visit_kind(Owner owner, Kind kind, Visit visit) {
    this->visit(key_of(owner, kind), key_of(owner, kind, meta::kMaxOffset), "", visit);
  }
  // The item as it is now; nullopt also when it cannot be read.
  std::optional<meta::Value> get(meta::Key key);
  std::optional<InodeRecord> inode(InodeNo no);
  // The seed of a directory's names. Without a record: the root's.
  std::uint64_t seed_of_names(const std::optional<InodeRecord>& directory) const {
    return directory ? name_seed_of(*directory, name_seed) : root_seed;
  }
  // Reports that items from `from` on cannot be read. Ends a repair.
  void unreadable(const meta::Key& from, Errc error);

  void put(meta::Key key, std::span<const std::byte> value);
  void put_inode(InodeNo no, const InodeRecord& record);
  void erase(meta::Key key);
  void apply(const meta::Batch& batch);
  void fail_with(Errc error) {
    if (!error_) error_ = error;
  }
  bool good() const { return !error_; }
  std::optional<Errc> error() const { return error_; }

  // ---- facts ----

  BandFacts* band(BandId id) { return id.value < bands.size() ? &bands[id.value] : nullptr; }
  // How many blocks from its start can be read of a data band; 0 of any other.
  std::uint32_t readable_blocks(BandId id) const;
  // False: the band is offline. A repair leaves its logs, because the band may come back.
  bool can_rebuild(BandId id) const;
  // Marks a band whose logs disagree, or will disagree after an action. A repair rebuilds them.
  void touch(BandId id) {
    if (BandFacts* facts = band(id)) facts->disagrees = true;
  }
  // Blocks that an extent refers to, or refers to no longer. REQUIRES: they lie in a band.
  void add_blocks(const ExtentRecord& extent);
  void remove_blocks(BandAddress first, std::uint32_t blocks);
  // Adds an extent that a repair has made, and that no log records yet.
  void add_extent(const ExtentRecord& extent) {
    add_blocks(extent);
    touch(extent.at.band);
  }
  InodeFacts* find_inode(InodeNo inode);
  std::optional<OrphanRecord::Work> orphan_work(InodeNo inode) const;
  // REQUIRES: `names` is sorted.
  std::span<const NameFacts> names_of(InodeNo inode) const;
  bool is_target(InodeNo inode) const;
  // Returns a number for an inode that the repair makes. No inode has the number, and no name leads
  // to it: a name of a lost inode must not lead to another inode. REQUIRES: `names` is sorted.
  InodeNo new_inode();

  meta::Store& store;
  device::Device& device;
  const Timestamp now;
  CheckReport report;
  RepairReport repair;
  std::uint64_t name_seed = 0;  // of directories without a seed of their own
  std::uint64_t root_seed = 0;  // the root's; most likely also of directories whose record is lost
  std::optional<CounterRecord> counters;
  // The volume's counter leaves shared-extent inodes out.
  StageProgress inode_progress() const {
    return {report.inodes - report.shared_inodes, counters ? counters->inodes : 0};
  }
  std::uint64_t highest_inode = 1;    // that was found
  std::uint64_t last_inode = 1;       // the highest number that is in use or has been given out
  std::vector<BandFacts> bands;
  std::vector<OrphanFacts> orphans;   // ascending by inode
  std::vector<InodeFacts> inodes;     // ascending by inode
  std::vector<NameFacts> names;       // sorted by the pass over names
  References references;              // of files
  std::vector<InodeNo> targets;       // ascending: inodes that references were found to lead to
  // Ascending: inodes that call themselves files and have reference counts, or call themselves
  // shared and have what only files have.
  std::vector<InodeNo> misfits;
  // Of a repair:
  std::vector<meta::Key> claimed_twice;  // extents whose blocks other extents have too
  std::vector<meta::KeyRange> lost;  // where items are lost, this time and in unfinished repairs
  std::vector<meta::KeyRange> lost_before;  // those of unfinished repairs alone

 private:
  void add_loss(Loss loss);
  static constexpr std::size_t kScanItems = 512;

  bool found(Action action, std::string text);

  const Mode mode_;
  const FindingListener& listener_;
  const ProgressListener& progress_;
  std::uint64_t next_progress_ = 0;
  std::uint64_t items_of_inodes_ = 0;  // counted by the last visit of all inodes; 0: not yet
  std::uint64_t edits_ = 0;
  std::uint64_t lowest_free_ = 2;
  std::optional<Errc> error_;
};

}  // namespace lazyfs::fsck
