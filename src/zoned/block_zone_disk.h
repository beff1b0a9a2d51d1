// A zoned block device of Linux. All requests of <linux/blkzoned.h> are made here, except that
// Backing::is_zoned() asks for the zone size.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/backing.h"
#include "zoned/zone_disk.h"

namespace lazyfs::zoned {

// Thread-safe. I/O is direct, because the page cache writes in any order.
class BlockZoneDisk final : public ZoneDisk {
 public:
  // REQUIRES: backing.is_zoned(). Errors: kDeviceRead.
  static Result<std::unique_ptr<BlockZoneDisk>> make(device::Backing backing, std::string name);

  const std::string& queue() const { return queue_; }  // folder below /sys

  std::string name() const override { return name_; }
  DiskLimits limits() const override { return limits_; }
  std::uint32_t zone_count() const override { return zone_count_; }
  Result<std::vector<Zone>> report(std::uint32_t first, std::uint32_t count) override;
  Result<> read(std::uint64_t at, std::span<std::byte> to) override {
    return backing_.read(at, to);
  }
  Result<> write(std::uint64_t at, std::span<const device::Piece> pieces) override;
  Result<> reset(const Zone& zone) override;
  Result<> finish(const Zone& zone) override;
  Result<> sync() override { return backing_.sync(); }

 private:
  BlockZoneDisk(device::Backing backing, std::string name)
      : backing_(std::move(backing)), name_(std::move(name)) {}
  Result<> learn();
  Result<> change(unsigned long request, const Zone& zone) const;

  device::Backing backing_;
  const std::string name_;
  // Constant after make().
  std::string queue_;
  DiskLimits limits_;
  std::uint64_t zone_bytes_ = 0;
  std::uint32_t zone_count_ = 0;
};

}  // namespace lazyfs::zoned
