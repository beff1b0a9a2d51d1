// The contract of a banded device on the layout of plain block devices.
#include "test/device/contract.h"

#include "test/plain/plain_file.h"
#include "test/support/units.h"

namespace lazyfs::device {
namespace {

// `Ground` is a file or a device: it has a path(), and its destructor removes it.
template <class Ground>
class PlainBench final : public Bench {
 public:
  explicit PlainBench(Ground ground) : ground_(std::move(ground)) {}

  // Fails the test when it returns null: on an existing `ground` the device can be made.
  static std::unique_ptr<Bench> make(Ground ground, std::uint64_t volume_bytes) {
    auto bench = std::make_unique<PlainBench>(std::move(ground));
    const std::string& path = bench->ground_->path();
    const auto identity = plain::plan_volume(volume_bytes, 5 * kMiB);
    if (identity && plain::create(path, *identity) && bench->reopen(false)) return bench;
    ADD_FAILURE() << "cannot make a volume in " << path;
    return nullptr;
  }
  Device& device() override { return *device_; }
  bool reopen(bool read_only) override {
    device_.reset();
    auto opened = plain::open(ground_->path(), {.read_only = read_only});
    if (opened) device_ = *std::move(opened);
    return device_ != nullptr;
  }

 private:
  Ground ground_;
  std::unique_ptr<Device> device_;
};

std::unique_ptr<Bench> in_file() {
  constexpr std::uint64_t kBytes = 27 * kMiB + 512;
  return PlainBench<std::unique_ptr<plain::PlainFile>>::make(
      std::make_unique<plain::PlainFile>(kBytes), kBytes);
}

std::unique_ptr<Bench> on_loop_device() {
  constexpr std::uint64_t kBytes = 64 * kMiB;
  auto loop = LoopDevice::make(kBytes, true, 4096);
  return loop ? PlainBench<std::unique_ptr<LoopDevice>>::make(std::move(loop), kBytes) : nullptr;
}

INSTANTIATE_TEST_SUITE_P(Plain, DeviceContract,
                         testing::Values(Subject{"in_a_file", in_file},
                                         Subject{"on_a_loop_device", on_loop_device}),
                         subject_name);

}  // namespace
}  // namespace lazyfs::device
