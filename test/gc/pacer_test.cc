// When a volume cleans: the pacer, on a band table that is nearly full and a clock set by hand.
#include "gc/pacer.h"

#include <gtest/gtest.h>

#include "device/memory.h"

namespace lazyfs::gc {
namespace {

using std::chrono_literals::operator""s;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""ns;

struct ManualClock final : Clock {
  Timestamp now() override { return {}; }
  std::chrono::nanoseconds monotonic() override { return time; }
  std::chrono::nanoseconds time = 100s;
};

class PacerTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kBands = 16, kBandBlocks = 100;

  PacerTest() {
    // All bands but the reserve are written, and half of them is dead.
    for (std::uint32_t i = 0; i < kBands - 3; ++i) {
      bands_.restore(BandId{i}, {.appended = kBandBlocks, .live = kBandBlocks / 2});
    }
  }
  // A program that writes `blocks` and then nothing for `pause`, again and again for `time`.
  // Whether cleaning was due at the end of any pause.
  bool was_due(std::uint64_t blocks, std::chrono::nanoseconds pause, std::chrono::seconds time) {
    bool due = false;
    for (const auto end = clock_.time + time; clock_.time < end;) {
      pacer_.note_request();
      pacer_.delay(blocks);
      clock_.time += pause;
      due |= pacer_.is_idle_cleaning_due();
    }
    return due;
  }

  std::unique_ptr<device::MemoryDevice> device_ =
      device::MemoryDevice::uniform(kBands, kBandBlocks);
  data::BandTable bands_{device_->geometry(), {}, {}};
  ManualClock clock_;
  Pacer pacer_{bands_, {}, clock_};
};

TEST_F(PacerTest, CleaningIsDueWithoutAnyRequest) {
  EXPECT_TRUE(pacer_.is_idle_cleaning_due());
  EXPECT_EQ(pacer_.priority(), CleanPriority::kHigh);
}

TEST_F(PacerTest, CleaningIsNotDueWhileDataArrivesFast) {
  was_due(100, 500ms, 30s);  // until the average has settled
  EXPECT_FALSE(was_due(100, 500ms, 30s));
}

TEST_F(PacerTest, CleaningIsDueTwoSecondsAfterTheLastRequest) {
  was_due(1000, 500ms, 30s);
  EXPECT_FALSE(was_due(1000, 2s - 1ns, 1s));
  EXPECT_TRUE(was_due(1000, 2s, 1s));
}

// The timer alone would never fire: a log file grows by a line each half second.
TEST_F(PacerTest, CleaningIsDueWhileLittleDataArrives) {
  EXPECT_TRUE(was_due(1, 500ms, 30s));
}

TEST_F(PacerTest, TheTimerIsAsLongAsTheOptionSays) {
  pacer_.set_options({.idle = {.quiet_for = 5s}});
  was_due(1000, 500ms, 30s);
  EXPECT_FALSE(was_due(1000, 5s - 1ns, 5s));
  EXPECT_TRUE(was_due(1000, 5s, 5s));
}

TEST_F(PacerTest, TheRateThatCountsAsIdleIsTheOption) {
  pacer_.set_options({.idle = {.rate_below = 0}});
  EXPECT_FALSE(was_due(1, 500ms, 30s));  // the timer alone
  pacer_.set_options({.idle = {.rate_below = 300}});
  was_due(100, 500ms, 30s);
  EXPECT_TRUE(was_due(100, 500ms, 1s));  // 200 blocks a second
  was_due(200, 500ms, 30s);
  EXPECT_FALSE(was_due(200, 500ms, 30s));
}

TEST_F(PacerTest, CleaningIsNotDueRightAfterARequestThatBringsNoData) {
  EXPECT_FALSE(was_due(0, 50ms, 30s));
}

TEST_F(PacerTest, CleaningIsNotDueWhileThereIsRoom) {
  data::BandTable empty(device_->geometry(), {}, {});
  Pacer pacer(empty, {}, clock_);
  EXPECT_FALSE(pacer.is_idle_cleaning_due());
  EXPECT_EQ(pacer.priority(), CleanPriority::kNone);
}

TEST_F(PacerTest, TheRestOfASealedBandIsNoRoom) {
  data::BandTable bands(device_->geometry(), {}, {});
  for (std::uint32_t i = 0; i < kBands - 6; ++i) {
    bands.restore(BandId{i}, {.appended = kBandBlocks, .live = kBandBlocks / 2});
  }
  for (std::uint32_t i = kBands - 6; i < kBands - 3; ++i) {
    bands.restore(BandId{i}, {.appended = 1, .live = 1});
  }
  Pacer pacer(bands, {}, clock_);
  EXPECT_EQ(pacer.priority(), CleanPriority::kNone);
  bands.seal_all_but(1);
  EXPECT_EQ(pacer.priority(), CleanPriority::kHigh);
}

TEST_F(PacerTest, TriggersThatAreSwitchedOffAskForNothing) {
  Pacer pacer(bands_, {.on_idle = false, .on_space = false}, clock_);
  EXPECT_FALSE(pacer.is_idle_cleaning_due());
  EXPECT_EQ(pacer.priority(), CleanPriority::kNone);
  EXPECT_EQ(pacer.delay(1000), 0ns);
}

}  // namespace
}  // namespace lazyfs::gc
