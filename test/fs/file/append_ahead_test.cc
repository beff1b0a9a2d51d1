// Write-back appends the next blocks of a group while it records the ones before. The bands are
// longer than one append.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "base/json.h"
#include "device/discarding.h"
#include "device/forwarding.h"
#include "device/power_cut.h"
#include "device/recording.h"
#include "fs/file/write_back_group.h"
#include "fs/volume/mounted_volume.h"
#include "test/fs/volume_fixture.h"
#include "test/meta/forwarding_store.h"
#include "test/support/seed.h"

namespace lazyfs::fs {
namespace {

// Returns when it is so; a test that would wait for ever fails instead.
template <class Condition>
void await(const Condition& is_so) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!is_so() && !testing::Test::HasFailure()) {
    if (std::chrono::steady_clock::now() > end) ADD_FAILURE() << "appending waits for recording";
    std::this_thread::yield();
  }
}

constexpr std::uint32_t kBandBlocks = kAppendBlocks + 500;
constexpr std::uint64_t kFileBlocks = 2 * kBandBlocks;

// Calls a function before appends of file data.
class WatchedDevice final : public device::ForwardingDevice {
 public:
  using ForwardingDevice::append;
  using ForwardingDevice::ForwardingDevice;
  std::function<Result<>(int)> before_append;  // with its number, from 1 on
  std::vector<BandId> others;                  // bands without file data
  int appends() const { return appends_; }     // that have begun, while before_append is set

  Result<> append(BandAddress to, std::span<const device::Piece> pieces) override {
    if (before_append && !std::ranges::count(others, to.band)) TRY(before_append(++appends_));
    return ForwardingDevice::append(to, pieces);
  }

 private:
  std::atomic<int> appends_ = 0;
};

// Calls a function before changes that record file data, or fails them.
class WatchedStore final : public meta::ForwardingStore {
 public:
  explicit WatchedStore(std::unique_ptr<meta::Store> below)
      : ForwardingStore(*below), below_(std::move(below)) {}
  std::function<void()> before_record;
  bool fails = false;

  Result<Seq> try_apply(const meta::Batch& batch, meta::Reserve reserve) override {
    const bool records = reserve == meta::Reserve::kPromised;
    if (records && before_record) before_record();
    if (records && fails) return fail(Errc::kNodeChecksumBad);
    return ForwardingStore::try_apply(batch, reserve);
  }

 private:
  const std::unique_ptr<meta::Store> below_;
};

class AppendAheadTest : public VolumeTest {
 protected:
  void SetUp() override {
    device_ = test_device(24, kBandBlocks);
    ASSERT_TRUE(mkfs::make_filesystem(*device_, {}));
    device_->forget_write_pointers();
    options_.background = true;
    options_.commit_interval = std::chrono::hours(1);  // nothing is written before it is asked for
    mount();
  }
  void mount() override {
    recorded_.emplace(*device_);
    watched_.emplace(*recorded_);
    auto disk = std::make_unique<device::DiscardingDevice>(*watched_, true, [](Errc) {});
    auto opened = meta::Store::open(*disk, {});
    ASSERT_TRUE(opened);
    watched_->others = (*opened)->log_bands();
    watched_->others.insert(watched_->others.end(), {BandId{0}, BandId{1}});
    auto store = std::make_unique<WatchedStore>(std::move(*opened));
    store_ = store.get();
    auto volume = std::make_unique<MountedVolume>(std::move(disk), options_, system_clock(),
                                                  std::move(store));
    ASSERT_TRUE(volume->start({}));
    volume_ = std::move(volume);
  }
  // A file whose blocks are numbered. None of it is on the device yet.
  InodeNo make_file() {
    const InodeNo file = create("file");
    std::string contents;
    for (std::uint64_t block = 0; block < kFileBlocks; ++block) contents += block_text(block);
    write(file, 0, contents);
    return file;
  }
  static std::string block_text(std::uint64_t block) {
    std::string text = std::to_string(block);
    text.resize(kBlockBytes, '.');
    return text;
  }
  // What of the file can be read is what was written.
  static void expect_contents(Volume& volume, InodeNo file, std::uint64_t blocks) {
    std::string text(kBlockBytes, '?');
    for (std::uint64_t block = 0; block < blocks; ++block) {
      const auto n =
          volume.read(file, block * kBlockBytes, std::as_writable_bytes(std::span(text)));
      ASSERT_TRUE(n) << describe(n.error());
      ASSERT_EQ(text, block_text(block));
    }
  }
  std::uint64_t live_blocks() {
    return (*Json::parse(volume_->stats_json()))["space"]["live_blocks"].number();
  }

  std::optional<device::RecordingDevice> recorded_;
  std::optional<WatchedDevice> watched_;
  WatchedStore* store_ = nullptr;
};

// The second append begins before the first one is recorded, and ends after it.
TEST_F(AppendAheadTest, BlocksAreRecordedWhileTheNextAppendHangs) {
  const InodeNo file = make_file();
  const std::uint64_t before = live_blocks();
  store_->before_record = [&] { await([&] { return watched_->appends() > 1; }); };
  watched_->before_append = [&](int append) {
    if (append == 2) await([&] { return live_blocks() == before + kAppendBlocks; });
    return ok();
  };
  ASSERT_TRUE(volume_->fsync(file, nullptr, false));
  watched_->before_append = nullptr;
  expect_contents(*volume_, file, kFileBlocks);
}

TEST_F(AppendAheadTest, AnAppendThatFailsTakesNothingFromTheOneBefore) {
  const InodeNo file = make_file();
  watched_->before_append = [](int append) {
    return append == 2 ? fail(Errc::kDeviceWrite) : ok();
  };
  ASSERT_TRUE(volume_->fsync(file, nullptr, false));  // in other bands
  watched_->before_append = nullptr;
  expect_contents(*volume_, file, kFileBlocks);
  lose_power();
  expect_contents(*volume_, lookup("file"), kFileBlocks);
}

// What was appended meanwhile is recorded as dead.
TEST_F(AppendAheadTest, BlocksThatCannotBeRecordedAreWrittenAgain) {
  const InodeNo file = make_file();
  store_->fails = true;
  EXPECT_FALSE(volume_->fsync(file, nullptr, false));
  store_->fails = false;
  ASSERT_TRUE(volume_->fsync(file, nullptr, false));
  expect_contents(*volume_, file, kFileBlocks);
  lose_power();
  expect_contents(*volume_, lookup("file"), kFileBlocks);
}

TEST_F(AppendAheadTest, APowerCutAfterAnyChangeLeavesTheFileWhole) {
  const InodeNo root = kRootInode;
  const std::size_t begin = recorded_->op_count();
  const InodeNo file = make_file();
  ASSERT_TRUE(volume_->fsync(file, nullptr, false));
  const std::size_t synced = recorded_->op_count();
  const device::Recording recording = recorded_->recording();
  const auto check = [&](std::size_t ops, device::Choice&& choice) {
    SCOPED_TRACE("after " + std::to_string(ops) + " changes");
    const auto disk = device::after_power_cut(recording, ops, choice);
    auto volume = Volume::mount(*disk, {.background = false});
    ASSERT_TRUE(volume) << describe(volume.error());
    const auto found = (*volume)->lookup(root, "file");
    if (found) expect_contents(**volume, found->inode, found->size / kBlockBytes);
    if (ops == synced) {
      ASSERT_TRUE(found);
      EXPECT_EQ(found->size, kFileBlocks * kBlockBytes);
    }
    ASSERT_TRUE((*volume)->unmount());
    volume->reset();
    disk->forget_write_pointers();
    fsck::expect_clean(*disk);
  };
  SCOPED_TRACE(seed_trace());
  for (std::size_t ops = begin; ops <= synced; ++ops) {
    check(ops, device::KeepAll());
    check(ops, device::LoseAll());
    check(ops, device::RandomChoice(test_seed() + ops));
  }
}

}  // namespace
}  // namespace lazyfs::fs
