#include "mkfs/mkfs.h"

#include <sys/stat.h>

#include <algorithm>

#include "data/appender.h"
#include "fs/item/schema.h"
#include "meta/log/log_layout.h"
#include "meta/log/superblock_log.h"
#include "meta/store/store.h"

namespace lazyfs::mkfs {
namespace {

using fs::CounterRecord, fs::InodeRecord, fs::Kind, fs::key_of, fs::kRootInode, fs::kVolumeOwner;

// A smaller log has no room for the transactions of some operations.
constexpr std::uint64_t kMinDefaultLogBlocks = 256;
constexpr std::uint64_t kMaxDefaultLogBytes = std::uint64_t{16} << 30;

bool is_super(const device::Geometry& geometry, BandId band) {
  return std::ranges::find(geometry.super_bands, band) != geometry.super_bands.end();
}

// Bands that may hold the log, those nearest to the middle of the device first.
std::vector<BandId> log_candidates(const device::Geometry& geometry) {
  struct Candidate {
    std::uint64_t distance;  // of the band's middle from the device's, in half blocks
    BandId band;
  };
  const std::uint64_t middle = geometry.total_blocks();
  std::vector<Candidate> candidates;
  std::uint64_t start = 0;
  for (std::uint32_t i = 0; i < geometry.band_count(); ++i) {
    const std::uint64_t blocks = geometry.band_blocks[i];
    const std::uint64_t at = 2 * start + blocks;
    start += blocks;
    if (is_super(geometry, BandId{i}) || blocks < meta::kMinLogBandBlocks ||
        geometry.band_kinds[i] != device::BandKind::kShingled) {
      continue;
    }
    candidates.push_back({at > middle ? at - middle : middle - at, BandId{i}});
  }
  std::ranges::sort(candidates, [](const Candidate& a, const Candidate& b) {
    return a.distance != b.distance ? a.distance < b.distance : a.band < b.band;
  });
  std::vector<BandId> bands;
  bands.reserve(candidates.size());
  for (const Candidate& candidate : candidates) bands.push_back(candidate.band);
  return bands;
}

// A band that is linked to another one has no blocks of its own.
std::uint32_t usable_bands(const device::Geometry& geometry) {
  return static_cast<std::uint32_t>(
      std::ranges::count_if(geometry.band_blocks, [](std::uint32_t blocks) { return blocks > 0; }));
}

Result<> check_options(const device::Geometry& geometry, const Options& options) {
  if (geometry.block_bytes != kBlockBytes) return fail(Errc::kMkfsBlockSize);
  if (options.label.size() > meta::kMaxLabelBytes) return fail(Errc::kMkfsLabelTooLong);
  if (usable_bands(geometry) < kMinBands) return fail(Errc::kMkfsTooFewBands);
  for (const BandId band : geometry.super_bands) {
    if (!geometry.has(band) || geometry.blocks_of(band) < meta::kMinLogBandBlocks ||
        geometry.band_kinds[band.value] != device::BandKind::kShingled) {
      return fail(Errc::kMkfsSuperBands);
    }
  }
  return ok();
}

// Bands that are read-only or offline. Super bands are not checked, because mkfs needs them in any
// case.
Result<std::vector<BandId>> find_dead_bands(device::Device& device) {
  const device::Geometry& geometry = device.geometry();
  std::vector<BandId> dead;
  for (std::uint32_t i = 0; i < geometry.band_count(); ++i) {
    if (is_super(geometry, BandId{i}) || geometry.band_blocks[i] == 0) continue;
    ASSIGN_OR_RETURN(const device::BandReport report, device.report(BandId{i}));
    const bool is_dead = report.condition == device::BandCondition::kReadOnly ||
                         report.condition == device::BandCondition::kOffline;
    if (is_dead) dead.push_back(BandId{i});
  }
  return dead;
}

std::vector<BandId> shingled_bands(const device::Geometry& geometry) {
  std::vector<BandId> bands;
  for (std::uint32_t i = 0; i < geometry.band_count(); ++i) {
    const bool is_shingled = geometry.band_kinds[i] == device::BandKind::kShingled;
    if (is_shingled && geometry.band_blocks[i] > 0) bands.push_back(BandId{i});
  }
  return bands;
}

// Erases the superblocks first: without them the old filesystem cannot be opened.
Result<> wipe(device::Device& device, const device::Geometry& geometry,
              const ProgressListener& progress) {
  TRY(meta::erase_superblocks(device, geometry.super_bands));
  const std::vector<BandId> bands = shingled_bands(geometry);
  for (std::size_t i = 0; i < bands.size(); ++i) {
    if (!is_super(geometry, bands[i])) TRY(device.reset(bands[i]));
    if (progress) progress("reset", i + 1, bands.size());
  }
  return device.flush();
}

void discard_bands(device::Device& device, const device::Geometry& geometry, Made& made,
                   const ProgressListener& progress) {
  const std::vector<BandId> bands = shingled_bands(geometry);
  for (std::size_t i = 0; i < bands.size(); ++i) {
    const auto bytes = device.discard(bands[i]);
    if (!bytes) {
      made.discard_error = bytes.error();
      return;
    }
    made.bytes_discarded += *bytes;
    if (progress) progress("discard", i + 1, bands.size());
  }
}

InodeRecord make_root(const Options& options, Timestamp now) {
  InodeRecord root;
  root.mode = S_IFDIR | 0755;
  root.links = 2;
  root.owner = options.owner;
  root.name_seed = options.name_seed;
  root.access = root.modification = root.change = root.birth = now;
  root.parent = kRootInode;
  return root;
}

meta::Batch first_items(const InodeRecord& root) {
  meta::Batch batch;
  batch.put(key_of(kRootInode, Kind::kInode), encode(root));
  batch.put(key_of(kVolumeOwner, Kind::kCounters), encode(CounterRecord{.inodes = 1}));
  return batch;
}

}  // namespace

std::uint32_t min_bands(const device::Capabilities& capabilities) {
  return kSuperBands + meta::min_log_bands(capabilities) + kMinDataBands;
}

std::uint64_t default_log_blocks(std::uint64_t device_blocks) {
  const std::uint64_t least = std::min(device_blocks / 8, kMinDefaultLogBlocks);
  return std::clamp(device_blocks / 64, least, kMaxDefaultLogBytes / kBlockBytes);
}

Result<Layout> plan_layout(const device::Geometry& geometry, const Options& options,
                           const device::Capabilities& capabilities) {
  TRY(check_options(geometry, options));
  if (!data::allows_enough_open_bands(capabilities)) return fail(Errc::kFewOpenBands);
  const std::uint64_t wanted = options.log_bytes > 0 ? blocks_for(options.log_bytes)
                                                     : default_log_blocks(geometry.total_blocks());
  const std::size_t bands_max = std::min<std::size_t>(
      meta::kMaxLogBands, usable_bands(geometry) - kSuperBands - kMinDataBands);
  const std::vector<BandId> candidates = log_candidates(geometry);
  const std::uint32_t log_bands_min = meta::min_log_bands(capabilities);
  if (bands_max < log_bands_min || candidates.size() < log_bands_min) {
    return fail(Errc::kMkfsTooFewBands);
  }

  Layout layout;
  for (const BandId band : candidates) {
    if (layout.log_bands.size() >= log_bands_min && layout.log_blocks >= wanted) break;
    if (layout.log_bands.size() == bands_max) break;
    layout.log_bands.push_back(band);
    layout.log_blocks += geometry.blocks_of(band);
  }
  if (layout.log_blocks < wanted && options.log_bytes > 0) return fail(Errc::kMkfsLogTooLarge);
  std::ranges::sort(layout.log_bands);
  layout.data_bands =
      usable_bands(geometry) - kSuperBands - static_cast<std::uint32_t>(layout.log_bands.size());
  layout.data_blocks = geometry.total_blocks() - layout.log_blocks;
  for (const BandId band : geometry.super_bands) layout.data_blocks -= geometry.blocks_of(band);
  return layout;
}

Result<Made> make_filesystem(device::Device& device, const Options& options, Clock& clock,
                             const ProgressListener& progress) {
  Made made;
  ASSIGN_OR_RETURN(made.dead_bands, find_dead_bands(device));
  device::Geometry geometry = device.geometry();
  for (const BandId band : made.dead_bands) geometry.band_blocks[band.value] = 0;
  ASSIGN_OR_RETURN(made.layout, plan_layout(geometry, options, device.capabilities()));
  const Timestamp now = clock.now();
  meta::Superblock superblock;
  superblock.uuid = options.uuid;
  superblock.label = options.label;
  superblock.super_bands = geometry.super_bands;
  superblock.log_bands = made.layout.log_bands;
  superblock.created_seconds = static_cast<std::uint64_t>(std::max<std::int64_t>(now.seconds, 0));
  TRY(wipe(device, geometry, progress));
  if (options.discard && device.capabilities().discards) {
    discard_bands(device, geometry, made, progress);
  }
  TRY(meta::Store::format(device, superblock, first_items(make_root(options, now))));
  return made;
}

}  // namespace lazyfs::mkfs
