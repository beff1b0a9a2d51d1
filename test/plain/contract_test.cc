// The contract of a banded device on the layout of plain block devices.
#include "test/device/contract.h"

#include "test/plain/plain_file.h"

namespace lazyfs::device {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

// `Ground` is a file or a device: it has a path(), and its destructor removes it.
template <class Ground>
class PlainBench final : public Bench {
 public:
  explicit PlainBench(Ground ground) : ground_(std::move(ground)) {}

  bool create(std::uint64_t volume_bytes) {
    const auto identity = plain::plan_volume(volume_bytes, 5 * kMiB);
    return identity && plain::create(ground_->path(), *identity) && reopen(false);
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
  auto bench = std::make_unique<PlainBench<std::unique_ptr<plain::PlainFile>>>(
      std::make_unique<plain::PlainFile>(27 * kMiB + 512));
  return bench->create(27 * kMiB + 512) ? std::move(bench) : nullptr;
}

std::unique_ptr<Bench> on_loop_device() {
  auto loop = LoopDevice::make(64 * kMiB, true, 4096);
  if (!loop) return nullptr;
  auto bench = std::make_unique<PlainBench<std::unique_ptr<LoopDevice>>>(std::move(loop));
  return bench->create(64 * kMiB) ? std::move(bench) : nullptr;
}

INSTANTIATE_TEST_SUITE_P(Plain, DeviceContract,
                         testing::Values(Subject{"in_a_file", in_file},
                                         Subject{"on_a_loop_device", on_loop_device}),
                         subject_name);

}  // namespace
}  // namespace lazyfs::device
