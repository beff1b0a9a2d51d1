#include "meta/store/store.h"

#include <algorithm>

#include "base/check.h"
#include "meta/log/features.h"
#include "meta/log/restore_superblock.h"
#include "meta/log/superblock_format.h"
#include "meta/log/superblock_log.h"
#include "meta/store/store_impl.h"

namespace lazyfs::meta {
namespace {

// A new mkfs with the same UUID begins at the same places as the old filesystem. So sessions are
// counted from the time of mkfs, not from 1, which gives other numbers.
constexpr std::uint64_t kFirstSessions = std::uint64_t{1} << 28;  // slots keep within 62 bits

void insert_items(NodePage& page, const Batch& items) {
  for (const Batch::Entry& entry : items.entries()) {
    const auto value = items.value_of(entry);
    const unsigned at = page.lower_bound(entry.key);
    CHECK(entry.change == Batch::Change::kPut);
    CHECK(!page.has(at, entry.key));
    CHECK(item_room(value.size()) <= page.free_bytes());
    page.insert(at, entry.key, value);
  }
}

// The first transaction: a root that is a leaf with `items`. Returns where it lies.
Result<PartPlace> write_first_transaction(device::Device& device, const Superblock& superblock,
                                          const Batch& items) {
  RecoveredLog nothing;
  nothing.spare = superblock.log_bands;
  Log log(device, {superblock.uuid, superblock.session}, nothing);
  log.reset_retired();
  AlignedBuffer image(kBlockBytes);
  NodePage page(image.data());
  page.format(Tree::kRoot, 0, fs_tag_of(superblock.uuid));
  insert_items(page, items);
  const LogImage root{Tree::kRoot.value, image.data(), page.stamp(Seq{1})};
  const auto plan = log.plan(Seq{1}, 1, 0);
  if (!plan) return fail(Errc::kBadGeometry);
  TRY(log.write(*plan, std::span(&root, 1), {}, NodeNo{2}));
  TRY(device.flush());
  return log.newest();
}

Result<> check_format(const device::Device& device, const Superblock& s) {
  const auto& geometry = device.geometry();
  const std::size_t log_bands_min = min_log_bands(device.capabilities());
  if (geometry.block_bytes != kBlockBytes || s.log_bands.size() < log_bands_min ||
      s.log_bands.size() > kMaxLogBands || s.super_bands[0] == s.super_bands[1]) {
    return fail(Errc::kBadGeometry);
  }
  std::vector<BandId> bands = s.log_bands;
  bands.insert(bands.end(), s.super_bands.begin(), s.super_bands.end());
  std::ranges::sort(bands);
  if (std::ranges::adjacent_find(bands) != bands.end()) return fail(Errc::kBadGeometry);
  for (const BandId band : bands) {
    if (!geometry.has(band)) return fail(Errc::kBadBand);
    if (geometry.band_kinds[band.value] != device::BandKind::kShingled) {
      return fail(Errc::kUnsupported);
    }
  }
  for (const BandId band : s.log_bands) {
    if (geometry.blocks_of(band) < kMinLogBandBlocks) return fail(Errc::kBadGeometry);
  }
  return ok();
}

}  // namespace

Result<> Store::format(device::Device& device, const Superblock& superblock,
                       const Batch& first_items) {
  if (superblock.label.size() > kMaxLabelBytes) return fail(Errc::kInvalid);
  TRY(check_format(device, superblock));
  Superblock first = superblock;
  first.mounts = 0;
  first.last_mount_seconds = first.last_check_seconds = 0;
  first.sequence = 1;
  first.band_count = device.geometry().band_count();
  first.min_log_bands = static_cast<std::uint32_t>(first.log_bands.size());
  first.session = 1 + superblock.created_seconds % kFirstSessions;
  first.session_start_seq = 0;
  TRY(erase_superblocks(device, first.super_bands));
  for (const BandId band : first.log_bands) TRY(device.reset(band));
  TRY(device.flush());
  ASSIGN_OR_RETURN(const PartPlace newest, write_first_transaction(device, first, first_items));
  set_durable(first, newest);
  first.set_data_ends_known(true);
  first.set_clean_end(true, true);
  return SuperblockLog::format(device, first);
}

Result<std::unique_ptr<Store>> Store::open(device::Device& device, const StoreOptions& options) {
  ASSIGN_OR_RETURN(auto store, StoreImpl::open(device, options, false));
  return store;
}

Result<std::unique_ptr<Store>> Store::repair(device::Device& device, const StoreOptions& options,
                                             const std::function<void(std::string)>& report,
                                             const LostListener& on_lost,
                                             const FreeBandFinder& find_free) {
  if (options.read_only || device.capabilities().read_only) return fail(Errc::kDeviceReadOnly);
  if (const auto newest = read_superblock(device)) TRY(check_features(newest->features, false));
  TRY(restore_superblock(device, options.new_uuid, report));
  ASSIGN_OR_RETURN(auto store, StoreImpl::open(device, options, true));
  TRY(store->make_room_for_repair(find_free));
  TRY(store->repair_tree(report, on_lost));
  return store;
}

}  // namespace lazyfs::meta
