#include "zoned/zone_disk.h"

#include <algorithm>
#include <iterator>

namespace lazyfs::zoned {
namespace {

constexpr std::uint32_t kZonesPerReport = 4096;

}  // namespace

std::string to_string(ZoneType type) {
  switch (type) {
    case ZoneType::kConventional: return "conventional";
    case ZoneType::kSequential: return "sequential";
    case ZoneType::kSequentialPreferred: return "sequential-preferred";
  }
  return "unknown";
}

std::string to_string(ZoneCondition condition) {
  switch (condition) {
    case ZoneCondition::kNoWritePointer: return "no-write-pointer";
    case ZoneCondition::kEmpty: return "empty";
    case ZoneCondition::kImplicitlyOpen: return "implicitly-open";
    case ZoneCondition::kExplicitlyOpen: return "explicitly-open";
    case ZoneCondition::kClosed: return "closed";
    case ZoneCondition::kFull: return "full";
    case ZoneCondition::kReadOnly: return "read-only";
    case ZoneCondition::kOffline: return "offline";
  }
  return "unknown";
}

Result<std::vector<Zone>> report_all(ZoneDisk& disk) {
  std::vector<Zone> all;
  const std::uint32_t count = disk.zone_count();
  all.reserve(count);
  while (all.size() < count) {
    const auto first = static_cast<std::uint32_t>(all.size());
    ASSIGN_OR_RETURN(const auto some, disk.report(first, std::min(count - first, kZonesPerReport)));
    if (some.empty()) return fail(Errc::kDeviceRead);
    std::ranges::copy(some, std::back_inserter(all));
  }
  return all;
}

}  // namespace lazyfs::zoned
