// What the parts of a check share: where problems go, what has been found so far. Only
// src/fsck/*.cc include this.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fsck/check.h"
#include "fs/item/schema.h"
#include "fsck/reference_count_runs.h"

namespace lazyfs::fsck {

using namespace fs;  // the items that every pass reads

// One bit for each block of a band; takes memory from the first set bit on.
class BlockSet {
 public:
  // Adds [first, first + count). Returns the first block that was in already, if any.
  std::optional<std::uint32_t> add(std::uint32_t first, std::uint32_t count);
  bool has(std::uint32_t block) const {
    return block / 64 < words_.size() && (words_[block / 64] >> (block % 64) & 1) != 0;
  }
  std::uint64_t count() const;
  void clear() { words_.clear(); }

 private:
  std::vector<std::uint64_t> words_;
};

struct BandFacts {
  enum class Use : std::uint8_t { kData, kSuper, kLog };
  Use use = Use::kData;
  bool has_summary = false;
  bool has_log_items = false;
  std::uint32_t blocks = 0;
  device::BandReport device;
  BandSummaryRecord summary;
  BlockSet live;           // blocks that extents refer to
  bool disagrees = false;  // its logs or its summary with the extents or the device
};

struct InodeFacts {
  InodeNo inode;
  InodeNo parent;  // of a directory
  std::uint32_t links = 0;
  std::uint8_t type = 0;  // mode >> 12
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

inline constexpr meta::Key kFirstKey{0, 0, 0};
inline constexpr meta::Key kLastKey{~std::uint64_t{0}, 255, meta::kMaxOffset};

// Single-threaded.
class CheckContext {
 public:
  CheckContext(meta::Store& the_store, device::Device& the_device,
               const ProblemListener& problem_listener, const ProgressListener& progress_listener)
      : store(the_store),
        device(the_device),
        problem_(problem_listener),
        progress_(progress_listener) {}

  template <class... Args>
  void problem(fmt::format_string<Args...> text, Args&&... args) {
    report.problems += 1;
    problem_(fmt::format(text, std::forward<Args>(args)...));
  }
  // One that new logs of the band repair.
  template <class... Args>
  void band_problem(BandId id, fmt::format_string<Args...> text, Args&&... args) {
    if (BandFacts* facts = band(id)) facts->disagrees = true;
    problem(text, std::forward<Args>(args)...);
  }
  void bad_item(const meta::Key& key);
  void progress(std::string_view stage, std::uint64_t done, bool last = false);

  // Calls `visit` for each item of the range, in order. What cannot be read is a problem, and the
  // rest of the range is left out. No progress is told when `stage` is empty.
  template <class Visit>
  void visit(meta::Key first, meta::Key last, std::string_view stage, Visit visit) {
    std::optional<meta::Key> from = first;
    std::uint64_t done = 0;
    while (from && *from <= last) {
      const auto items = store.scan(*from, last, kScanItems);
      if (!items) return unreadable(*from, items.error());
      for (const meta::Item& item : *items) visit(item);
      done += items->size();
      progress(stage, done);
      if (items->size() < kScanItems) break;
      from = successor(items->back().key);
    }
    progress(stage, done, true);
  }
  // One item; damage is a problem and reads as no item.
  std::optional<meta::Value> get(meta::Key key);

  static std::optional<meta::Key> successor(meta::Key key);

  // Metadata from there on cannot be read.
  void unreadable(const meta::Key& from, Errc error);

  BandFacts* band(BandId id) { return id.value < bands.size() ? &bands[id.value] : nullptr; }
  const InodeFacts* find_inode(InodeNo inode) const;
  std::optional<OrphanRecord::Work> orphan_work(InodeNo inode) const;

  meta::Store& store;
  device::Device& device;
  CheckReport report;
  std::uint64_t name_seed = 0;
  std::optional<CounterRecord> counters;
  std::vector<BandFacts> bands;
  std::vector<OrphanFacts> orphans;   // ascending by inode
  std::vector<InodeFacts> inodes;     // ascending by inode
  std::vector<NameFacts> names;       // sorted by check_names()
  References references;              // of files
  bool has_stray_band_items = false;  // items of bands that do not exist, or of no known kind

 private:
  static constexpr std::size_t kScanItems = 512;

  const ProblemListener& problem_;
  const ProgressListener& progress_;
  std::uint64_t next_progress_ = 0;
};

// The passes, in the order in which they must run.
void check_volume_items(CheckContext& context);  // summaries, orphans, counters
void check_inodes(CheckContext& context);        // everything that belongs to inodes
void check_shares(CheckContext& context);        // share counts against extents and references
void check_bands(CheckContext& context);  // append and delete logs against extents and device
void check_names(CheckContext& context);  // links, parents, reachability, orphans
void check_data(CheckContext& context);   // contents

// "/a/b" of an inode (any one of its names); "" when no name leads to it. After check_names().
std::string path_of(CheckContext& context, InodeNo inode);

}  // namespace lazyfs::fsck
