// A shutdown ends a volume as a power cut does: nothing reaches the device after it.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "device/forwarding.h"
#include "meta/store/store.h"
#include "test/fs/volume_fixture.h"

namespace lazyfs::fs {
namespace {

// Counts appends to data bands, and holds the first one until it is released.
class HoldingDevice final : public device::ForwardingDevice {
 public:
  using ForwardingDevice::append;
  using ForwardingDevice::ForwardingDevice;

  std::vector<BandId> log_bands;
  std::atomic<bool> holds{false}, held{false};
  std::atomic<int> data_appends{0}, writes{0};

  Result<> append(BandAddress to, std::span<const device::Piece> pieces) override {
    ++writes;
    const bool is_data = to.band.value > 1 && !std::ranges::count(log_bands, to.band);
    if (is_data && ++data_appends == 1) {
      held = true;
      held.notify_all();
      holds.wait(true);
    }
    return ForwardingDevice::append(to, pieces);
  }
  Result<> reset(BandId band) override {
    ++writes;
    return ForwardingDevice::reset(band);
  }
};

class ShutDownTest : public VolumeTest {
 protected:
  void SetUp() override {
    ASSERT_TRUE(mkfs::make_filesystem(*device_, {}));
    const auto store = meta::Store::open(*device_, {.background = false, .read_only = true});
    holding_.log_bands = (*store)->log_bands();
    auto volume = Volume::mount(holding_, options_);
    ASSERT_TRUE(volume) << describe(volume.error());
    volume_ = std::move(*volume);
  }
  void wait_until_shut_down() {
    while (volume_->get_attributes(kRootInode)) std::this_thread::yield();
  }

  HoldingDevice holding_{*device_};
};

TEST_F(ShutDownTest, OperationThatHadBegunAppendsNothingAfterIt) {
  write(create("f"), 0, std::string(1000 * kBlockBytes, 'a'));  // of several appends
  holding_.holds = true;
  std::thread syncing([this] { ignore_error(volume_->sync(), "it is shut down meanwhile"); });
  holding_.held.wait(false);
  std::thread ending([this] { volume_->shut_down(); });
  wait_until_shut_down();
  holding_.holds = false;
  holding_.holds.notify_all();
  ending.join();
  const int written = holding_.writes;
  syncing.join();
  EXPECT_EQ(holding_.data_appends, 1);
  EXPECT_EQ(holding_.writes, written);
}

TEST_F(ShutDownTest, ShutDownWaitsForAnAppendThatHasBegun) {
  write(create("f"), 0, std::string(10 * kBlockBytes, 'a'));
  holding_.holds = true;
  std::thread syncing([this] { ignore_error(volume_->sync(), "it is shut down meanwhile"); });
  holding_.held.wait(false);
  std::atomic<int> ended{0};
  std::vector<std::thread> ending;
  for (int i = 0; i < 2; ++i) {
    ending.emplace_back([&] {
      volume_->shut_down();
      ++ended;
    });
  }
  wait_until_shut_down();
  EXPECT_EQ(ended, 0);
  holding_.holds = false;
  holding_.holds.notify_all();
  for (std::thread& thread : ending) thread.join();
  syncing.join();
}

TEST_F(ShutDownTest, NothingIsWrittenOnceEitherOfTwoCallersHasReturned) {
  ASSERT_TRUE(volume_->unmount());
  options_.background = true;
  options_.commit_interval = std::chrono::milliseconds(0);
  auto volume = Volume::mount(holding_, options_);
  ASSERT_TRUE(volume) << describe(volume.error());
  volume_ = std::move(*volume);
  write(create("f"), 0, std::string(1000 * kBlockBytes, 'a'));
  std::atomic<int> written[2];
  std::vector<std::thread> ending;
  for (auto& count : written) {
    ending.emplace_back([&] {
      volume_->shut_down();
      count = holding_.writes.load();
    });
  }
  for (std::thread& thread : ending) thread.join();
  volume_.reset();
  EXPECT_EQ(written[0], holding_.writes);
  EXPECT_EQ(written[1], holding_.writes);
}

}  // namespace
}  // namespace lazyfs::fs
