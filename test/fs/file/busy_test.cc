// Work that ends, and succeeds, although other threads change the same files meanwhile: here
// whenever a block of a file is written to the device or read from it.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>

#include "device/forwarding.h"
#include "meta/store/store.h"
#include "test/fs/volume_fixture.h"

namespace lazyfs::fs {
namespace {

class BusyDevice final : public device::ForwardingDevice {
 public:
  using ForwardingDevice::append;
  using ForwardingDevice::ForwardingDevice;
  using ForwardingDevice::read;
  std::function<void(BandId)> before_append;
  std::function<void()> before_read;

  Result<> read(BandAddress from, std::span<std::byte> to) override {
    if (before_read) before_read();
    return ForwardingDevice::read(from, to);
  }
  Result<> append(BandAddress to, std::span<const device::Piece> pieces) override {
    if (before_append) before_append(to.band);
    return ForwardingDevice::append(to, pieces);
  }
};

class BusyTest : public VolumeTest {
 protected:
  static constexpr int kMost = 300;  // then the other thread stops, so that each test ends

  void SetUp() override {
    // In a smaller log the other thread would wait for write-back, which it is called by here.
    ASSERT_TRUE(mkfs::make_filesystem(*device_, {.log_bytes = 16 << 20}));
    options_.commit_interval = std::chrono::milliseconds(0);
    auto volume = Volume::mount(busy_, options_);
    ASSERT_TRUE(volume) << describe(volume.error());
    volume_ = std::move(*volume);
  }
  void TearDown() override {
    busy_.before_append = nullptr;
    busy_.before_read = nullptr;
    VolumeTest::TearDown();
  }
  void at_each_append_of_data(std::function<void(int)> others) {
    const auto store = meta::Store::open(*device_, {.background = false, .read_only = true});
    busy_.before_append = [this, logs = (*store)->log_bands(), others](BandId band) {
      const bool is_data = band.value > 1 && !std::ranges::count(logs, band);
      if (!is_data || is_busy_ || appends_ == kMost) return;
      is_busy_ = true;  // appends of the other thread call nothing
      others(++appends_);
      is_busy_ = false;
    };
  }
  // `blocks` blocks of a letter.
  void write_letter(InodeNo file, std::uint64_t block, std::uint64_t blocks, char letter) {
    write(file, block * kBlockBytes, std::string(blocks * kBlockBytes, letter));
  }

  BusyDevice busy_{*device_};
  int appends_ = 0;
  bool is_busy_ = false;
};

TEST_F(BusyTest, FsyncEndsAlthoughABlockIsWrittenAgainAndAgain) {
  const InodeNo file = create("f");
  write_letter(file, 0, 2, 'a');
  at_each_append_of_data([&](int) { write_letter(file, 0, 1, 'b'); });
  ASSERT_TRUE(volume_->fsync(file, nullptr, false));
  EXPECT_LT(appends_, 10);
  lose_power();
  EXPECT_EQ(read(lookup("f")).substr(kBlockBytes), std::string(kBlockBytes, 'a'));
}

TEST_F(BusyTest, FsyncEndsAlthoughTheFileGrows) {
  const InodeNo file = create("f");
  write_letter(file, 0, 2, 'a');
  at_each_append_of_data([&](int n) { write_letter(file, 1 + static_cast<unsigned>(n), 1, 'b'); });
  ASSERT_TRUE(volume_->fsync(file, nullptr, false));
  EXPECT_LT(appends_, 10);
  lose_power();
  EXPECT_EQ(read(lookup("f")).substr(0, 2 * kBlockBytes), std::string(2 * kBlockBytes, 'a'));
}

// The size is past all data.
TEST_F(BusyTest, FsyncKeepsTheSizeOfAFileThatIsWrittenToMeanwhile) {
  const InodeNo file = create("f");
  write_letter(file, 0, 1, 'a');
  ASSERT_TRUE(volume_->set_attributes(file, {.size = 100 * kBlockBytes}));
  at_each_append_of_data([&](int) { write_letter(file, 0, 1, 'b'); });
  ASSERT_TRUE(volume_->fsync(file, nullptr, false));
  EXPECT_LT(appends_, 10);
  lose_power();
  EXPECT_EQ(volume_->get_attributes(lookup("f"))->size, 100 * kBlockBytes);
}

// As many blocks as a pass takes at once.
TEST_F(BusyTest, SyncEndsAlthoughALargeFileIsRewritten) {
  const InodeNo file = create("large"), other = create("other");
  write_letter(file, 0, 3000, 'a');
  write_letter(other, 0, 1, 'o');
  at_each_append_of_data([&](int) { write_letter(file, 0, 2048, 'b'); });
  ASSERT_TRUE(volume_->sync());
  EXPECT_LT(appends_, 100);
  busy_.before_append = nullptr;
  lose_power();
  EXPECT_EQ(read(lookup("other")), std::string(kBlockBytes, 'o'));
  EXPECT_EQ(read(lookup("large"), 2999 * kBlockBytes), std::string(kBlockBytes, 'a'));
}

// A sync(2) promises what another thread is writing back, too.
TEST_F(BusyTest, SyncWaitsForAFileThatAnotherThreadWritesBack) {
  const InodeNo file = create("f");
  write_letter(file, 0, 10, 'a');
  std::atomic<bool> is_appended{false}, was_appended{false};
  std::future<Result<>> sync;
  at_each_append_of_data([&](int append) {
    if (append > 1) return;
    sync = std::async(std::launch::async, [&] {
      auto done = volume_->sync();
      was_appended = is_appended.load();
      return done;
    });
    sync.wait_for(std::chrono::milliseconds(100));  // it could end here, but must not
    is_appended = true;
  });
  ASSERT_TRUE(volume_->fsync(file, nullptr, false));
  ASSERT_TRUE(sync.get());
  EXPECT_TRUE(was_appended);
}

TEST_F(BusyTest, ALargeFileThatIsRewrittenKeepsNoOtherFromBeingWrittenBack) {
  const InodeNo file = create("large"), other = create("other");
  write_letter(file, 0, 2048, 'a');
  write_letter(other, 0, 1, 'o');
  at_each_append_of_data([&](int) { write_letter(file, 0, 2048, 'b'); });
  volume_->tick();
  EXPECT_LT(appends_, 100);
  busy_.before_append = nullptr;
  ASSERT_TRUE(volume_->fsync_directory(kRootInode));  // a commit
  lose_power();
  EXPECT_EQ(read(lookup("other")), std::string(kBlockBytes, 'o'));
}

// Each change of the map makes the block that the write has loaded worthless.
TEST_F(BusyTest, AWriteSucceedsHoweverOftenTheMapChangesWhileItLoadsABlock) {
  constexpr std::uint64_t kChanges = 1200;
  const InodeNo file = create("f");
  write_letter(file, 0, kChanges + 1, 'a');
  ASSERT_TRUE(volume_->sync());
  std::uint64_t changes = 0;
  busy_.before_read = [&] {
    if (changes == kChanges || is_busy_) return;
    is_busy_ = true;
    EXPECT_TRUE(volume_->punch(file, ++changes * kBlockBytes, kBlockBytes, {}));
    is_busy_ = false;
  };
  write(file, 10, "b");
  EXPECT_EQ(changes, kChanges);
  EXPECT_EQ(read(file, 0, 20), "aaaaaaaaaabaaaaaaaaa");
}

TEST_F(BusyTest, ACopyEndsWhereItsSourceEndsThatIsTruncatedMeanwhile) {
  const InodeNo source = create("source"), target = create("target");
  write_letter(source, 0, 10, 's');
  ASSERT_TRUE(volume_->sync());
  write_letter(target, 0, 1, 't');
  at_each_append_of_data([&](int) { EXPECT_TRUE(volume_->set_attributes(source, {.size = 0})); });
  EXPECT_EQ(volume_->copy_range(source, 0, target, 0, 10 * kBlockBytes, false), 0u);
  EXPECT_EQ(appends_, 1);
  EXPECT_EQ(read(target), std::string(kBlockBytes, 't'));
}

// The token that fsync holds keeps the first pass from moving the block.
TEST_F(BusyTest, InlineBlockOfABusyFileKeepsItsAge) {
  ASSERT_TRUE(volume_->unmount());
  class : public Clock {
   public:
    Timestamp now() override { return {1'700'000'000, 0}; }
    std::chrono::nanoseconds monotonic() override { return time; }
    std::chrono::nanoseconds time = std::chrono::hours(1);
  } clock;
  volume_ = std::move(*Volume::mount(busy_, options_, clock));
  const InodeNo file = create("f");
  write_letter(file, 0, 1, 'a');
  ASSERT_TRUE(volume_->sync());
  write(file, kBlockBytes, std::string(2000, 'b'));
  ASSERT_TRUE(volume_->fsync(file, nullptr, false));
  const auto sectors = [&] { return volume_->get_attributes(file)->blocks_512; };
  ASSERT_EQ(sectors(), 8u + 4);
  clock.time += std::chrono::seconds(31);
  at_each_append_of_data([&](int) { volume_->tick(); });
  write(file, 0, "c");
  ASSERT_TRUE(volume_->fsync(file, nullptr, false));
  ASSERT_EQ(appends_, 1);
  busy_.before_append = nullptr;
  EXPECT_EQ(sectors(), 8u + 4);
  volume_->tick();
  EXPECT_EQ(sectors(), 8u + 8);
  ASSERT_TRUE(volume_->unmount());
  volume_.reset();  // before its clock
}

}  // namespace
}  // namespace lazyfs::fs
