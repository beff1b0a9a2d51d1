#include "device/discarding.h"

#include <gtest/gtest.h>

#include <functional>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "device/faulty.h"
#include "device/forwarding.h"
#include "device/memory.h"
#include "device/recording.h"
#include "test/support/result_printer.h"

namespace lazyfs::device {
namespace {

constexpr BandId kBand{1}, kOther{2};

class DiscardingTest : public testing::Test {
 protected:
  void append(BandId band) {
    const AlignedBuffer block = AlignedBuffer::zeroed(kBlockBytes);
    ASSERT_EQ(device_.append({band, *device_.write_pointer(band)}, Piece(block.span())), ok());
  }
  void reset(BandId band) {
    append(band);
    ASSERT_EQ(device_.reset(band), ok());
  }
  // The bands that the medium was asked to discard, in order.
  std::vector<BandId> discarded() const {
    std::vector<BandId> bands;
    for (const Op& op : recorded_.recording().ops) {
      if (op.kind == Op::Kind::kDiscard) bands.push_back(op.at.band);
    }
    return bands;
  }

  std::unique_ptr<MemoryDevice> memory_ = MemoryDevice::uniform(4, 8);
  RecordingDevice recorded_{*memory_};
  FaultyDevice faulty_{recorded_};
  std::vector<Errc> reported_;
  DiscardingDevice device_{faulty_, true, [this](Errc error) { reported_.push_back(error); }};
};

TEST_F(DiscardingTest, DiscardsAResetBandOnceTheResetIsDurable) {
  reset(kBand);
  reset(kOther);
  device_.discard_ready();
  EXPECT_TRUE(discarded().empty());
  ASSERT_EQ(device_.flush(), ok());
  EXPECT_TRUE(discarded().empty()) << "a flush waits for no discard";
  device_.discard_ready();
  EXPECT_EQ(discarded(), (std::vector{kBand, kOther}));
  device_.discard_ready();
  EXPECT_EQ(discarded().size(), 2u);
  EXPECT_EQ(device_.bytes_discarded(), 2u * 8 * kBlockBytes);
}

TEST_F(DiscardingTest, DiscardsOneBandAtATimeAndSaysWhetherMoreWait) {
  reset(kBand);
  reset(kOther);
  EXPECT_FALSE(device_.discard_one());
  ASSERT_EQ(device_.flush(), ok());
  EXPECT_TRUE(device_.discard_one());
  EXPECT_EQ(discarded(), (std::vector{kBand}));
  EXPECT_FALSE(device_.discard_one());
  EXPECT_EQ(discarded(), (std::vector{kBand, kOther}));
  EXPECT_FALSE(device_.discard_one());
  EXPECT_EQ(discarded().size(), 2u);
}

TEST_F(DiscardingTest, WaitsForTheFlushOfTheLastReset) {
  reset(kBand);
  ASSERT_EQ(device_.flush(), ok());
  reset(kBand);
  device_.discard_ready();
  EXPECT_TRUE(discarded().empty());
  ASSERT_EQ(device_.flush(), ok());
  device_.discard_ready();
  EXPECT_EQ(discarded(), std::vector{kBand});
}

// Calls `during` while it flushes.
class HookedFlush final : public ForwardingDevice {
 public:
  using Device::append;
  using ForwardingDevice::ForwardingDevice;
  Result<> flush() override {
    if (const auto hook = std::exchange(during, nullptr)) hook();
    return ForwardingDevice::flush();
  }
  std::function<void()> during;
};

TEST_F(DiscardingTest, AResetDuringAFlushWaitsForTheNextFlush) {
  HookedFlush hooked(recorded_);
  DiscardingDevice device(hooked, true, [](Errc) {});
  ASSERT_EQ(device.reset(kBand), ok());
  hooked.during = [&] {
    EXPECT_EQ(device.reset(kBand), ok());
    EXPECT_EQ(device.reset(kOther), ok());
  };
  ASSERT_EQ(device.flush(), ok());
  device.discard_ready();
  EXPECT_TRUE(discarded().empty());
  ASSERT_EQ(device.flush(), ok());
  device.discard_ready();
  EXPECT_EQ(discarded(), (std::vector{kBand, kOther}));
}

TEST_F(DiscardingTest, TurningItOffDuringAFlushForgetsItsBands) {
  HookedFlush hooked(recorded_);
  DiscardingDevice device(hooked, true, [](Errc) {});
  ASSERT_EQ(device.reset(kBand), ok());
  hooked.during = [&] { device.set_on(false); };
  ASSERT_EQ(device.flush(), ok());
  device.discard_ready();
  EXPECT_TRUE(discarded().empty());
}

TEST_F(DiscardingTest, AFailedFlushMakesNothingReady) {
  reset(kBand);
  faulty_.fail_nth(Call::kFlush, 1, {.error = Errc::kDeviceFlush});
  ASSERT_EQ(device_.flush(), fail(Errc::kDeviceFlush));
  device_.discard_ready();
  EXPECT_TRUE(discarded().empty());
  ASSERT_EQ(device_.flush(), ok());
  device_.discard_ready();
  EXPECT_EQ(discarded(), std::vector{kBand});
}

TEST_F(DiscardingTest, LeavesABandThatWasWrittenAgain) {
  reset(kBand);
  append(kBand);
  ASSERT_EQ(device_.flush(), ok());
  device_.discard_ready();
  EXPECT_TRUE(discarded().empty());
  EXPECT_TRUE(reported_.empty());
}

TEST_F(DiscardingTest, ForgetsResetsWhileItIsOff) {
  reset(kBand);
  ASSERT_EQ(device_.flush(), ok());
  device_.set_on(false);
  reset(kOther);
  ASSERT_EQ(device_.flush(), ok());
  device_.set_on(true);
  device_.discard_ready();
  EXPECT_TRUE(discarded().empty());
  reset(kOther);
  device_.set_on(false);
  device_.set_on(true);
  ASSERT_EQ(device_.flush(), ok());
  device_.discard_ready();
  EXPECT_TRUE(discarded().empty());
  reset(BandId{3});
  ASSERT_EQ(device_.flush(), ok());
  device_.discard_ready();
  EXPECT_EQ(discarded(), std::vector{BandId{3}});
}

TEST_F(DiscardingTest, ReportsAFailureOnceAndContinues) {
  faulty_.fail_nth(Call::kDiscard, 1, {.error = Errc::kDeviceWrite});
  faulty_.fail_nth(Call::kDiscard, 2, {.error = Errc::kDeviceWrite});
  for (const BandId band : {kBand, kOther, BandId{3}}) {
    reset(band);
    ASSERT_EQ(device_.flush(), ok());
    device_.discard_ready();
  }
  EXPECT_EQ(reported_, std::vector{Errc::kDeviceWrite});
  EXPECT_EQ(discarded(), std::vector{BandId{3}});
}

TEST_F(DiscardingTest, TriesNoMoreWhenTheMediumTakesNoDiscards) {
  faulty_.fail_nth(Call::kDiscard, 1, {.error = Errc::kUnsupported});
  reset(kBand);
  reset(kOther);
  ASSERT_EQ(device_.flush(), ok());
  device_.discard_ready();
  reset(kBand);
  ASSERT_EQ(device_.flush(), ok());
  device_.discard_ready();
  EXPECT_EQ(reported_, std::vector{Errc::kUnsupported});
  EXPECT_EQ(faulty_.calls(Call::kDiscard), 1u);
  EXPECT_FALSE(device_.is_on());
}

}  // namespace
}  // namespace lazyfs::device
