#include "zoned/block_zone_disk.h"

#include <linux/blkzoned.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cerrno>

#include "zoned/queue.h"
#include "zoned/zoned_device.h"

namespace lazyfs::zoned {
namespace {

constexpr std::uint64_t kSectorBytes = 512;  // of the requests, whatever the disk's are

ZoneType type_of(const blk_zone& zone) {
  if (zone.type == BLK_ZONE_TYPE_CONVENTIONAL) return ZoneType::kConventional;
  return zone.type == BLK_ZONE_TYPE_SEQWRITE_PREF ? ZoneType::kSequentialPreferred
                                                  : ZoneType::kSequential;
}

ZoneCondition condition_of(const blk_zone& zone) {
  switch (zone.cond) {
    case BLK_ZONE_COND_NOT_WP: return ZoneCondition::kNoWritePointer;
    case BLK_ZONE_COND_EMPTY: return ZoneCondition::kEmpty;
    case BLK_ZONE_COND_IMP_OPEN: return ZoneCondition::kImplicitlyOpen;
    case BLK_ZONE_COND_EXP_OPEN: return ZoneCondition::kExplicitlyOpen;
    case BLK_ZONE_COND_CLOSED: return ZoneCondition::kClosed;
    case BLK_ZONE_COND_FULL: return ZoneCondition::kFull;
    case BLK_ZONE_COND_READONLY: return ZoneCondition::kReadOnly;
    default: return ZoneCondition::kOffline;
  }
}

Zone zone_of(const blk_zone& from, bool has_capacity) {
  Zone zone{.type = type_of(from),
            .condition = condition_of(from),
            .start_bytes = from.start * kSectorBytes,
            .size_bytes = from.len * kSectorBytes,
            .capacity_bytes = (has_capacity ? from.capacity : from.len) * kSectorBytes};
  const std::uint64_t written = from.wp > from.start ? (from.wp - from.start) * kSectorBytes : 0;
  const bool is_full = zone.condition == ZoneCondition::kFull;
  if (zone.condition != ZoneCondition::kNoWritePointer) {
    zone.written_bytes = is_full ? zone.capacity_bytes : std::min(written, zone.capacity_bytes);
  }
  return zone;
}

}  // namespace

Result<std::unique_ptr<BlockZoneDisk>> BlockZoneDisk::make(device::Backing backing,
                                                           std::string name) {
  backing.prefer_direct();
  std::unique_ptr<BlockZoneDisk> disk(new BlockZoneDisk(std::move(backing), std::move(name)));
  TRY(disk->learn());
  return disk;
}

Result<> BlockZoneDisk::learn() {
  const int fd = backing_.descriptor();
  std::uint32_t zone_sectors = 0, zones = 0;
  struct stat st {};
  if (::ioctl(fd, BLKGETZONESZ, &zone_sectors) != 0 || ::ioctl(fd, BLKGETNRZONES, &zones) != 0 ||
      ::fstat(fd, &st) != 0) {
    return fail(Errc::kDeviceRead);
  }
  zone_bytes_ = zone_sectors * kSectorBytes;
  zone_count_ = zones;
  queue_ = queue_folder(major(st.st_rdev), minor(st.st_rdev));
  limits_ = read_limits(queue_);
  return ok();
}

Result<std::vector<Zone>> BlockZoneDisk::report(std::uint32_t first, std::uint32_t count) {
  std::vector<std::uint64_t> bytes((sizeof(blk_zone_report) + count * sizeof(blk_zone)) / 8 + 1);
  auto* const request = reinterpret_cast<blk_zone_report*>(bytes.data());
  request->sector = first * (zone_bytes_ / kSectorBytes);
  request->nr_zones = count;
  if (::ioctl(backing_.descriptor(), BLKREPORTZONE, request) != 0) return fail(Errc::kDeviceRead);
  const bool has_capacity = (request->flags & BLK_ZONE_REP_CAPACITY) != 0;
  std::vector<Zone> zones;
  for (std::uint32_t i = 0; i < std::min(count, request->nr_zones); ++i) {
    zones.push_back(zone_of(request->zones[i], has_capacity));
  }
  return zones;
}

Result<> BlockZoneDisk::write(std::uint64_t at, std::span<const device::Piece> pieces) {
  return backing_.write(at, pieces).result;
}

Result<> BlockZoneDisk::change(unsigned long request, const Zone& zone) const {
  blk_zone_range range{.sector = zone.start_bytes / kSectorBytes,
                       .nr_sectors = zone.size_bytes / kSectorBytes};
  int result = 0;
  do {
    result = ::ioctl(backing_.descriptor(), request, &range);
  } while (result != 0 && errno == EINTR);
  return result == 0 ? ok() : fail(Errc::kDeviceWrite);
}

Result<> BlockZoneDisk::reset(const Zone& zone) { return change(BLKRESETZONE, zone); }
Result<> BlockZoneDisk::finish(const Zone& zone) { return change(BLKFINISHZONE, zone); }

Result<std::unique_ptr<ZonedDevice>> open(const std::string& path, OpenOptions options) {
  using device::Backing;
  ASSIGN_OR_RETURN(Backing backing, Backing::open(path, options));
  if (!backing.is_zoned()) return fail(Errc::kUnsupported);
  ASSIGN_OR_RETURN(auto disk, BlockZoneDisk::make(std::move(backing), path));
  if (!options.read_only) {
    prepare_scheduler(disk->queue(), path);
    TRY(disk->sync());  // writes of an earlier process
  }
  return ZonedDevice::make(std::move(disk), options.read_only);
}

}  // namespace lazyfs::zoned
