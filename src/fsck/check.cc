#include "fsck/check.h"

#include <algorithm>
#include <bit>

#include "fsck/check_context.h"

namespace lazyfs::fsck {
namespace {

constexpr std::uint64_t kProgressStep = 65536;

void learn_band_uses(CheckContext& c) {
  const auto mark = [&](BandId band, BandFacts::Use use, std::string_view what) {
    BandFacts* facts = c.band(band);
    if (!facts) {
      return c.problem("Band {} holds {}, but the device has no such band.", band.value, what);
    }
    if (facts->use != BandFacts::Use::kData) {
      c.problem("Band {} holds {}, but it has another use already.", band.value, what);
    }
    facts->use = use;
  };
  for (const BandId band : c.store.superblock().super_bands) {
    mark(band, BandFacts::Use::kSuper, "superblocks");
  }
  for (const BandId band : c.store.log_bands()) mark(band, BandFacts::Use::kLog, "metadata");
}

Result<> learn_bands(CheckContext& c) {
  const device::Geometry& geometry = c.device.geometry();
  c.bands.resize(geometry.band_count());
  for (std::uint32_t i = 0; i < geometry.band_count(); ++i) {
    c.bands[i].blocks = geometry.band_blocks[i];
    ASSIGN_OR_RETURN(c.bands[i].device, c.device.report(BandId{i}));
  }
  learn_band_uses(c);
  return ok();
}

void check_nodes(CheckContext& c) {
  c.progress("nodes", 0, true);
  const auto checked =
      c.store.check([&](const std::string& text) { c.problem("Metadata: {}.", text); });
  if (!checked) c.problem("Metadata: the tree cannot be read: {}.", describe(checked.error()));
  c.report.nodes = c.store.stats().jmap_entries;
}

void summary_item(CheckContext& c, const meta::Item& item) {
  const auto summary = decode_band_summary(item.value);
  if (!summary) return c.bad_item(item.key);
  if (item.key.offset >= c.bands.size()) {
    return c.problem("Band {} has a summary, but the device has no such band.", item.key.offset);
  }
  BandFacts& band = c.bands[item.key.offset];
  // A log band may have one left over from its life before: check_bands.cc.
  const bool may_stay = band.use == BandFacts::Use::kLog && summary->live == 0;
  if (band.use != BandFacts::Use::kData && !may_stay) {
    c.problem("Band {} has a summary of file data, but holds {}.", item.key.offset,
              band.use == BandFacts::Use::kLog ? "metadata" : "superblocks");
  }
  if (summary->appended > band.blocks) {
    c.band_problem(BandId{static_cast<std::uint32_t>(item.key.offset)},
                   "Band {} has {} blocks, but its summary counts {} appended ones.",
                   item.key.offset, band.blocks, summary->appended);
  }
  band.has_summary = true;
  band.summary = *summary;
}

void orphan_item(CheckContext& c, const meta::Item& item) {
  const auto orphan = decode_orphan(item.value);
  if (!orphan || item.key.offset == 0 || item.key.offset > kMaxInode) return c.bad_item(item.key);
  c.orphans.push_back({InodeNo{item.key.offset}, orphan->work});
  c.report.orphans += 1;
}

void lost_range_item(CheckContext& c, const meta::Item& item) {
  if (!decode_lost_range(item.value)) return c.bad_item(item.key);
  c.problem("A repair has not ended: of the metadata that it found to be lost, range {} is noted.",
            item.key.offset);
}

void counters_item(CheckContext& c, const meta::Item& item) {
  const auto counters = decode_counters(item.value);
  if (!counters || item.key.offset != 0) return c.bad_item(item.key);
  c.counters = *counters;
}

}  // namespace

// ---- BlockSet -----------------------------------------------------------------------------------

std::optional<std::uint32_t> BlockSet::add(std::uint32_t first, std::uint32_t count) {
  const std::size_t words = (std::size_t{first} + count + 63) / 64;
  if (words_.size() < words) words_.resize(words);
  std::optional<std::uint32_t> twice;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t block = first + i;
    if (has(block) && !twice) twice = block;
    words_[block / 64] |= std::uint64_t{1} << (block % 64);
  }
  return twice;
}

std::uint64_t BlockSet::count() const {
  std::uint64_t sum = 0;
  for (const std::uint64_t word : words_) sum += static_cast<std::uint64_t>(std::popcount(word));
  return sum;
}

// ---- CheckContext -------------------------------------------------------------------------------

std::string_view type_name(std::uint8_t type) {
  switch (type) {
    case kSharedType: return "shared inode";
    case 1: return "pipe";
    case 2: return "character device";
    case kDirectoryType: return "directory";
    case 6: return "block device";
    case kRegularType: return "file";
    case kSymlinkType: return "symbolic link";
    case 12: return "socket";
    default: return "thing of no known type";
  }
}

void CheckContext::bad_item(const meta::Key& key) {
  problem("Item (owner {:#x}, kind {}, offset {}) holds impossible values.", key.owner, key.kind,
          key.offset);
}

void CheckContext::progress(std::string_view stage, std::uint64_t done, bool last) {
  if (last) next_progress_ = 0;
  if (!progress_ || stage.empty() || (!last && done < next_progress_)) return;
  if (!last) next_progress_ = done + kProgressStep;
  progress_(stage, done);
}

std::optional<meta::Value> CheckContext::get(meta::Key key) {
  auto value = store.get(key);
  if (value) return std::move(*value);
  unreadable(key, value.error());
  return std::nullopt;
}

std::optional<meta::Key> CheckContext::successor(meta::Key key) {
  if (++key.offset != 0) return key;
  if (++key.kind != 0) return key;
  if (++key.owner != 0) return key;
  return std::nullopt;
}

void CheckContext::unreadable(const meta::Key& from, Errc error) {
  report.complete = false;
  problem("Items from (owner {:#x}, kind {}, offset {}) on cannot be read: {}.", from.owner,
          from.kind, from.offset, describe(error));
}

const InodeFacts* CheckContext::find_inode(InodeNo inode) const {
  const auto at = std::ranges::lower_bound(inodes, inode, {}, &InodeFacts::inode);
  return at != inodes.end() && at->inode == inode ? &*at : nullptr;
}

std::optional<OrphanRecord::Work> CheckContext::orphan_work(InodeNo inode) const {
  const auto at = std::ranges::lower_bound(orphans, inode, {}, &OrphanFacts::inode);
  if (at == orphans.end() || at->inode != inode) return std::nullopt;
  return at->work;
}

// ---- The passes ---------------------------------------------------------------------------------

void check_volume_items(CheckContext& c) {
  c.visit({kVolumeOwner, 0, 0}, {kVolumeOwner, 255, meta::kMaxOffset}, "volume",
          [&](const meta::Item& item) {
            c.report.items += 1;
            switch (static_cast<Kind>(item.key.kind)) {
              case Kind::kCounters: return counters_item(c, item);
              case Kind::kOrphan: return orphan_item(c, item);
              case Kind::kBandSummary: return summary_item(c, item);
              case Kind::kLostRange: return lost_range_item(c, item);
              default: return c.bad_item(item.key);
            }
          });
  if (!c.counters && c.report.complete) c.problem("The volume's counters are missing.");
}

Result<CheckReport> check(meta::Store& store, device::Device& device, const CheckOptions& options,
                          const ProblemListener& problem, const ProgressListener& progress) {
  CheckContext context(store, device, problem, progress);
  context.name_seed = seed_of(store.superblock().uuid);
  TRY(learn_bands(context));
  check_nodes(context);
  check_volume_items(context);
  check_inodes(context);
  check_shares(context);
  check_bands(context);
  check_names(context);
  if (options.data) check_data(context);
  return context.report;
}

}  // namespace lazyfs::fsck
