// A zoned disk in its own terms: zones in bytes, with the conditions of the standards (ZBC, ZAC,
// ZNS). BlockZoneDisk implements it, and the tests have one in memory. ZonedDevice makes a banded
// device of it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "device/device.h"

namespace lazyfs::zoned {

enum class ZoneType : std::uint8_t {
  kConventional,          // takes writes anywhere
  kSequential,            // takes writes at its write pointer only
  kSequentialPreferred,   // of a host-aware disk: as kSequential, if the host keeps to it
};

enum class ZoneCondition : std::uint8_t {
  kNoWritePointer,  // a conventional zone
  kEmpty,
  kImplicitlyOpen,
  kExplicitlyOpen,
  kClosed,  // partly written; takes writes
  kFull,
  kReadOnly,
  kOffline,
};

struct Zone {
  ZoneType type = ZoneType::kSequential;
  ZoneCondition condition = ZoneCondition::kEmpty;
  std::uint64_t start_bytes = 0;
  std::uint64_t size_bytes = 0;      // distance to the next zone
  std::uint64_t capacity_bytes = 0;  // writable part; at most size_bytes
  // From the start to the write pointer; the capacity if the zone is full. Has no meaning if the
  // condition is kNoWritePointer, kReadOnly or kOffline.
  std::uint64_t written_bytes = 0;
  friend bool operator==(const Zone&, const Zone&) = default;
};

// What a disk allows. 0: no limit.
struct DiskLimits {
  std::uint32_t max_open_zones = 0;    // implicitly or explicitly open
  std::uint32_t max_active_zones = 0;  // open or closed
  std::uint64_t max_write_bytes = 0;   // of one write
  std::uint32_t write_bytes = 512;     // granularity of writes and write pointers
};

// Thread-safe. REQUIRES: no two writes to one sequential zone run at the same time.
class ZoneDisk {
 public:
  virtual ~ZoneDisk() = default;
  ZoneDisk() = default;
  ZoneDisk(const ZoneDisk&) = delete;
  ZoneDisk& operator=(const ZoneDisk&) = delete;

  virtual std::string name() const = 0;
  virtual DiskLimits limits() const = 0;
  virtual std::uint32_t zone_count() const = 0;
  // The zones from `first` on, at most `count`. Error: kDeviceRead.
  virtual Result<std::vector<Zone>> report(std::uint32_t first, std::uint32_t count) = 0;
  // Error: kDeviceRead.
  virtual Result<> read(std::uint64_t at, std::span<std::byte> to) = 0;
  // One write of at most max_write_bytes. Error: kDeviceWrite; then the zone's write pointer and
  // condition are unknown.
  virtual Result<> write(std::uint64_t at, std::span<const device::Piece> pieces) = 0;
  // Set the write pointer to 0, or to the end. Error: kDeviceWrite.
  virtual Result<> reset(const Zone& zone) = 0;
  virtual Result<> finish(const Zone& zone) = 0;
  // Makes all completed calls durable. Error: kDeviceFlush.
  virtual Result<> sync() = 0;
};

std::string to_string(ZoneType type);
std::string to_string(ZoneCondition condition);

// Whether a zone counts against max_active_zones.
constexpr bool is_active(ZoneCondition condition) {
  return condition == ZoneCondition::kImplicitlyOpen ||
         condition == ZoneCondition::kExplicitlyOpen || condition == ZoneCondition::kClosed;
}
// All zones of a disk.
Result<std::vector<Zone>> report_all(ZoneDisk& disk);

}  // namespace lazyfs::zoned
