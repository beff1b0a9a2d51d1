#include "fs/volume/throttle.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "data/band_table.h"
#include "data/page_pool.h"
#include "device/memory.h"
#include "gc/pacer.h"
#include "meta/store/store.h"
#include "mkfs/mkfs.h"

namespace lazyfs::fs {
namespace {

// Four pages are the limit. Other threads are simulated by what the throttle asks of them.
class ThrottleTest : public testing::Test {
 protected:
  static constexpr std::size_t kLimitPages = 4;

  void SetUp() override {
    ASSERT_TRUE(mkfs::make_filesystem(*device_, {}));
    auto store = meta::Store::open(*device_, {.background = false});
    ASSERT_TRUE(store) << describe(store.error());
    store_ = std::move(*store);
    bands_.emplace(device_->geometry(), store_->superblock().super_bands, store_->log_bands());
    pacer_.emplace(*bands_, gc::PacerOptions{.on_space = false}, system_clock());
  }
  void TearDown() override {
    while (!dirty_.empty()) free_page();
  }
  Throttle& make(bool background) {
    return throttle_.emplace(*pacer_, pages_, *store_, system_clock(), stalls_,
                             kLimitPages * kBlockBytes, background,
                             Throttle::Requests{.write_back_soon = [this] { on_request_(); },
                                                .clean_soon = [] {},
                                                .write_back = [this] { return write_back_(); }});
  }
  void take_pages(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) dirty_.push_back(pages_.take());
  }
  void free_page() {
    pages_.give_back(dirty_.back());
    dirty_.pop_back();
  }

  std::unique_ptr<device::MemoryDevice> device_ = device::MemoryDevice::uniform(64, 256);
  std::unique_ptr<meta::Store> store_;
  std::optional<data::BandTable> bands_;
  std::optional<gc::Pacer> pacer_;
  data::PagePool pages_;
  std::vector<std::byte*> dirty_;
  TimeHistogram stalls_;
  std::function<void()> on_request_ = [] {};
  std::function<Result<>()> write_back_ = [] { return ok(); };
  std::optional<Throttle> throttle_;
  Inode file_{InodeNo{2}};
};

TEST_F(ThrottleTest, AdmitsAWriteBelowTheLimitAtOnceAndAsksForWriteBack) {
  Throttle& throttle = make(true);
  int requests = 0;
  on_request_ = [&] { ++requests; };
  EXPECT_TRUE(throttle.admit(file_, kBlockBytes));
  EXPECT_EQ(requests, 0);
  take_pages(kLimitPages - 1);
  EXPECT_TRUE(throttle.admit(file_, kBlockBytes));
  EXPECT_EQ(requests, 1);
  EXPECT_EQ(stalls_.count(), 0u);
}

TEST_F(ThrottleTest, WriterWaitsAtTheLimitUntilPagesAreFreed) {
  Throttle& throttle = make(true);
  take_pages(kLimitPages);
  int requests = 0;
  on_request_ = [&] {
    if (++requests < 3) return;
    free_page();
    throttle.pages_freed();
  };
  EXPECT_TRUE(throttle.admit(file_, kBlockBytes));
  EXPECT_EQ(pages_.used(), kLimitPages - 1);
  EXPECT_EQ(stalls_.count(), 1u);
}

// T3
TEST_F(ThrottleTest, DelaysOfSmallWritesAreWaitedForTogether) {
  for (std::uint32_t band = 0; band < bands_->band_count(); ++band) {  // no room is left
    const data::BandView view = bands_->view(BandId{band});
    if (view.state != data::BandState::kFree) continue;
    const auto blocks = static_cast<std::uint32_t>(view.blocks);
    bands_->restore(BandId{band}, {.appended = blocks, .live = blocks / 2});
  }
  pacer_.emplace(*bands_, gc::PacerOptions{}, system_clock());
  const auto delay = pacer_->delay(1);
  ASSERT_GT(delay.count(), 0);
  constexpr std::chrono::nanoseconds kPause = std::chrono::milliseconds(1);
  const auto writes_a_pause = (kPause + delay - std::chrono::nanoseconds(1)) / delay;
  ASSERT_GT(writes_a_pause, 1);
  Throttle& throttle = make(true);
  for (int i = 0; i < 5 * writes_a_pause; ++i) EXPECT_TRUE(throttle.admit(file_, kBlockBytes));
  EXPECT_EQ(stalls_.count(), 5u);
  EXPECT_TRUE(throttle.admit(file_, writes_a_pause * kBlockBytes));
  EXPECT_EQ(stalls_.count(), 6u);
}

TEST_F(ThrottleTest, WriterGetsTheErrorOfItsFileWhenPassesFreeNoPage) {
  Throttle& throttle = make(true);
  take_pages(kLimitPages);
  on_request_ = [&] { throttle.pass_ended(fail(Errc::kDeviceWrite)); };
  file_.last_write_error = Errc::kDeviceRead;
  file_.write_back_failed = true;
  EXPECT_EQ(throttle.admit(file_, kBlockBytes).error(), Errc::kDeviceRead);
}

TEST_F(ThrottleTest, WriterOfAnotherFileGoesALittlePastTheLimit) {
  for (const bool background : {true, false}) {
    Throttle& throttle = make(background);
    throttle.set_limit(16 * kBlockBytes);
    write_back_ = [] { return Result<>(fail(Errc::kDeviceWrite)); };
    on_request_ = [&] { throttle.pass_ended(fail(Errc::kDeviceWrite)); };
    take_pages(18 - dirty_.size());
    EXPECT_TRUE(throttle.admit(file_, kBlockBytes));
    take_pages(1);
    EXPECT_EQ(throttle.admit(file_, kBlockBytes).error(), Errc::kMemoryFull);
    free_page();
  }
}

TEST_F(ThrottleTest, WriterWaitsWhilePassesFailButFreePages) {
  Throttle& throttle = make(true);
  take_pages(kLimitPages + 8);
  on_request_ = [&] {
    free_page();
    throttle.pass_ended(fail(Errc::kDeviceWrite));
  };
  EXPECT_TRUE(throttle.admit(file_, kBlockBytes));
  EXPECT_EQ(pages_.used(), kLimitPages - 1);
}

TEST_F(ThrottleTest, NoCallWaitsAfterStop) {
  Throttle& throttle = make(true);
  take_pages(kLimitPages);
  on_request_ = [&] { throttle.stop(); };
  EXPECT_TRUE(throttle.admit(file_, kBlockBytes));
  EXPECT_FALSE(throttle.pause(std::chrono::hours(1)));
}

TEST_F(ThrottleTest, WithoutABackgroundTheWriterWritesBack) {
  Throttle& throttle = make(false);
  take_pages(kLimitPages);
  int calls = 0;
  write_back_ = [&] {
    ++calls;
    free_page();
    return ok();
  };
  EXPECT_TRUE(throttle.admit(file_, kBlockBytes));
  EXPECT_TRUE(throttle.admit(file_, kBlockBytes));
  EXPECT_EQ(calls, 1);
}

TEST_F(ThrottleTest, WithoutABackgroundTheWriterGetsTheErrorThatLeavesMemoryFull) {
  Throttle& throttle = make(false);
  take_pages(kLimitPages);
  write_back_ = [this] {
    file_.write_back_failed = true;
    return Result<>(fail(Errc::kDeviceWrite));
  };
  EXPECT_EQ(throttle.admit(file_, kBlockBytes).error(), Errc::kDeviceWrite);
}

}  // namespace
}  // namespace lazyfs::fs
