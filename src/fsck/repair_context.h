// What the parts of a repair share. Only src/fsck/repair*.cc include this.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fsck/check_context.h"
#include "fsck/repair.h"

namespace lazyfs::fsck {

// Single-threaded. An error of the store ends a repair: it is kept, and everything that comes later
// does nothing.
class RepairContext {
 public:
  RepairContext(meta::Store& the_store, device::Device& the_device, Clock& clock,
                const ProblemListener& told, const ProgressListener& progress)
      : store(the_store), device(the_device), now(clock.now()), told_(told), progress_(progress) {}

  template <class... Args>
  void tell(fmt::format_string<Args...> text, Args&&... args) {
    report.repairs += 1;
    told_(fmt::format(text, std::forward<Args>(args)...));
  }
  void progress(std::string_view stage, std::uint64_t done);

  void put(meta::Key key, std::span<const std::byte> value);
  void erase(meta::Key key);
  void apply(const meta::Batch& batch);
  // An item as it is now; what cannot be read is no item.
  std::optional<meta::Value> get(meta::Key key);
  std::optional<InodeRecord> inode(InodeNo no);
  void put_inode(InodeNo no, const InodeRecord& record);

  // Calls `visit` for each item of the range, in order, with its value as it is by then; items may
  // be changed meanwhile.
  template <class Visit>
  void visit(meta::Key first, meta::Key last, std::string_view stage, Visit visit) {
    std::optional<meta::Key> from = first;
    std::uint64_t done = 0;
    while (good() && from && *from <= last) {
      auto items = store.scan(*from, last, kScanItems);
      if (!items) return fail_with(items.error());
      const std::uint64_t edits = edits_;
      for (meta::Item& item : *items) {
        if (edits_ != edits) {
          auto current = get(item.key);
          if (!current) continue;
          item.value = std::move(*current);
        }
        visit(item);
      }
      done += items->size();
      progress(stage, done);
      if (items->size() < kScanItems) break;
      from = CheckContext::successor(items->back().key);
    }
  }

  void fail_with(Errc error) {
    if (!error_) error_ = error;
  }
  bool good() const { return !error_; }
  std::optional<Errc> error() const { return error_; }

  InodeFacts* find_inode(InodeNo inode);
  // A number for an inode that the repair makes. Nothing has it, or speaks of it: a name of an
  // inode that is lost must not come to lead to something else. Requires that `names` is sorted.
  InodeNo new_inode();
  bool is_target(InodeNo inode) const { return std::ranges::binary_search(targets, inode); }

  BandFacts* band(BandId id) { return id.value < bands.size() ? &bands[id.value] : nullptr; }
  // How many blocks from its start can be read of a data band; 0 of any other.
  std::uint32_t readable_blocks(BandId id) const;

  meta::Store& store;
  device::Device& device;
  const Timestamp now;
  RepairReport report;
  std::uint64_t name_seed = 0;
  std::vector<BandFacts> bands;  // `live`: as far as extents have been accepted
  std::vector<OrphanFacts> orphans;
  std::vector<InodeFacts> inodes;  // ascending by inode
  std::vector<NameFacts> names;
  std::vector<InodeNo> targets;      // ascending: inodes that references were found to lead to
  std::vector<InodeNo> counted;      // ascending: inodes with share counts
  std::vector<meta::KeyRange> lost;  // where items are lost, this time and in unfinished repairs
  std::uint64_t last_inode = 1;      // the highest number that is in use, or has been given out

 private:
  static constexpr std::size_t kScanItems = 512;

  const ProblemListener& told_;
  const ProgressListener& progress_;
  std::uint64_t next_progress_ = 0;
  std::uint64_t edits_ = 0;
  std::uint64_t lowest_free_ = 2;
  std::optional<Errc> error_;
};

// No directory lives to give out a cookie above it; one more can always be added to it.
inline constexpr std::uint64_t kMaxCookie = std::uint64_t{1} << 62;
// A cookie that no entry of the directory has. `next`: what the directory says.
std::uint64_t free_cookie(RepairContext& context, InodeNo directory, std::uint64_t next);

// Directory entries, in both their places. Counters of directories are put right at the end.
void put_entry(RepairContext& context, InodeNo directory, const DentryRecord& entry);
void erase_entry(RepairContext& context, InodeNo directory, const DentryRecord& entry);
// Adds a name, with the directory's next cookie, which is made to be free.
void add_name(RepairContext& context, InodeNo directory, std::string name, InodeNo inode,
              std::uint8_t type);
// The entry of that name.
std::optional<DentryRecord> find_name(RepairContext& context, InodeNo directory,
                                      std::string_view name);

// The steps, in the order in which they must run.
void repair_volume_items(RepairContext& context);  // counters, orphans, summaries
void find_targets(RepairContext& context);         // RepairContext::targets
void repair_inodes(RepairContext& context);        // each inode's items by themselves
void salvage_extents(RepairContext& context);
void repair_shares(RepairContext& context);  // shared inodes against references
void repair_names(RepairContext& context);   // names against inodes; /lost+found
void repair_counts(RepairContext& context);  // what inodes count
void repair_bands(RepairContext& context);   // append and delete logs, summaries
void repair_counters(RepairContext& context);

}  // namespace lazyfs::fsck
