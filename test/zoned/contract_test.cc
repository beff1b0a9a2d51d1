// The contract of a banded device on zoned disks: emulated ones, and the zoned block device that
// LAZYFS_ZONED_DEVICE names, whose contents are lost.
#include "test/device/contract.h"

#include <cstdlib>

#include "test/zoned/emulated_disk.h"
#include "zoned/zoned_device.h"

namespace lazyfs::device {
namespace {

using zoned::EmulatedDisk;
using zoned::EmulatedMedium;
using zoned::ZonedDevice;

class EmulatedBench final : public Bench {
 public:
  explicit EmulatedBench(EmulatedMedium::Shape shape)
      : medium_(std::make_shared<EmulatedMedium>(shape)) {
    reopen(false);
  }
  Device& device() override { return *device_; }
  bool reopen(bool read_only) override {
    device_.reset();
    device_ = *ZonedDevice::make(std::make_unique<EmulatedDisk>(medium_), read_only);
    return true;
  }

 private:
  const std::shared_ptr<EmulatedMedium> medium_;
  std::unique_ptr<ZonedDevice> device_;
};

class BlockDeviceBench final : public Bench {
 public:
  static std::unique_ptr<Bench> make() {
    const char* const path = std::getenv("LAZYFS_ZONED_DEVICE");
    if (!path) return nullptr;
    auto bench = std::make_unique<BlockDeviceBench>();
    bench->path_ = path;
    if (!bench->reopen(false) || !bench->device().reset_all()) {
      ADD_FAILURE() << "cannot use " << path;
    }
    return bench;
  }
  Device& device() override { return *device_; }
  bool reopen(bool read_only) override {
    device_.reset();
    auto opened = zoned::open(path_, {.read_only = read_only});
    if (opened) device_ = *std::move(opened);
    return device_ != nullptr;
  }

 private:
  std::string path_;
  std::unique_ptr<ZonedDevice> device_;
};

constexpr std::uint64_t kZoneBytes = std::uint64_t{1200} * kBlockBytes;

Subject emulated(std::string name, EmulatedMedium::Shape shape) {
  return {std::move(name), [shape] { return std::make_unique<EmulatedBench>(shape); }};
}

INSTANTIATE_TEST_SUITE_P(
    Zoned, DeviceContract,
    testing::Values(
        emulated("shingled_disk", {.conventional = 1,
                                   .zones = 7,
                                   .zone_bytes = kZoneBytes,
                                   .limits = {.max_open_zones = 128,
                                              .max_write_bytes = 20 * kBlockBytes}}),
        emulated("few_active_zones", {.zones = 8,
                                      .zone_bytes = kZoneBytes,
                                      .capacity_bytes = kManyBlocks * std::uint64_t{kBlockBytes},
                                      .limits = {.max_active_zones = 4, .write_bytes = 4096}}),
        emulated("odd_capacity", {.zones = 7,
                                  .zone_bytes = kZoneBytes,
                                  .capacity_bytes = kZoneBytes - 1536,
                                  .limits = {.max_open_zones = 14, .max_active_zones = 6}}),
        Subject{"block_device", BlockDeviceBench::make}),
    subject_name);

}  // namespace
}  // namespace lazyfs::device
