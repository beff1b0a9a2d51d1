// Which bands a mounted volume discards, and when.
#include <array>
#include <chrono>
#include <set>

#include "data/band_table.h"
#include "device/memory.h"
#include "fs/volume/trim.h"
#include "test/fs/volume_fixture.h"
#include "test/support/result_printer.h"
#include "test/support/stats.h"

namespace lazyfs::fs {
namespace {

using device::Call;

constexpr std::uint64_t kDiscardBandBytes = std::uint64_t{256} * kBlockBytes;
constexpr std::uint64_t kDiscardVolumeBytes = 64 * kDiscardBandBytes;

// Stands still, unless it is set.
class StandingClock final : public Clock {
 public:
  Timestamp now() override { return {}; }
  std::chrono::nanoseconds monotonic() override { return at_; }
  void pass(std::chrono::nanoseconds time) { at_ += time; }

 private:
  std::chrono::nanoseconds at_{std::chrono::hours(1)};
};

class DiscardTest : public VolumeTest {
 protected:
  DiscardTest() {
    faulty_.fail_when([this](const device::CallInfo& call) -> std::optional<device::Fault> {
      if (call.call == Call::kDiscard) discarded_.insert(call.at.band);
      return std::nullopt;
    });
  }
  void mount() override {
    auto volume = Volume::mount(faulty_, options_, clock_);
    ASSERT_TRUE(volume) << describe(volume.error());
    volume_ = std::move(*volume);
  }
  // The contents of the file fill more than one band.
  InodeNo write_bands(std::string_view name) {
    const InodeNo file = create(name);
    write(file, 0, std::string(3 * kDiscardBandBytes, name.front()));
    EXPECT_EQ(volume_->sync(), ok());
    return file;
  }
  void remove(std::string_view name, InodeNo file) {
    ASSERT_EQ(volume_->unlink(kRootInode, name), ok());
    volume_->forget(file, 1);
  }
  // Resets what is empty and makes the resets durable.
  void reset_empty_bands() {
    volume_->tick();
    ASSERT_EQ(volume_->sync(), ok());
  }
  // And lets the background discard, when users are quiet.
  void work() {
    reset_empty_bands();
    clock_.pass(std::chrono::seconds(1));
    volume_->tick();
  }
  std::uint64_t trimmed(const TrimRange& range = {}) {
    discarded_.clear();
    const auto bytes = volume_->trim(range);
    EXPECT_TRUE(bytes) << describe(bytes.error());
    return bytes.value_or(0);
  }
  std::uint64_t free_bands() { return stat_of(*volume_, "space", "free_bands"); }

  StandingClock clock_;
  std::set<BandId> discarded_;
};

TEST_F(DiscardTest, DiscardsBandsWhoseFilesWereDeleted) {
  remove("a", write_bands("a"));
  ASSERT_EQ(volume_->sync(), ok());
  EXPECT_TRUE(discarded_.empty());
  work();
  EXPECT_GE(discarded_.size(), 2u);
  EXPECT_GE(stat_of(*volume_, "data", "bytes_discarded"), 2 * kDiscardBandBytes);
}

TEST_F(DiscardTest, WhileUsersAreBusyAStepDiscardsOneBand) {
  const InodeNo a = write_bands("a"), b = write_bands("b");
  remove("a", a);
  remove("b", b);
  for (std::size_t steps = 1; steps <= 3; ++steps) {
    reset_empty_bands();
    EXPECT_LE(discarded_.size(), steps);
  }
  EXPECT_GE(discarded_.size(), 2u);
  clock_.pass(std::chrono::seconds(1));
  volume_->tick();
  EXPECT_GE(discarded_.size(), 5u);
}

TEST_F(DiscardTest, DiscardsWhatTheUnmountResets) {
  remove("a", write_bands("a"));
  remount();
  EXPECT_GE(discarded_.size(), 2u);
}

TEST_F(DiscardTest, DiscardsNothingAfterAShutdown) {
  remove("a", write_bands("a"));
  volume_->tick();
  ASSERT_EQ(volume_->sync(), ok());
  discarded_.clear();
  lose_power();
  EXPECT_TRUE(discarded_.empty());
}

TEST_F(DiscardTest, TheOptionTurnsItOff) {
  EXPECT_TRUE(volume_->info().options.ends_with(",discard"));
  options_.discard = false;
  remount();
  EXPECT_TRUE(volume_->info().options.ends_with(",nodiscard"));
  discarded_.clear();
  remove("a", write_bands("a"));
  work();
  EXPECT_TRUE(discarded_.empty());
  options_.discard = true;
  ASSERT_EQ(volume_->change_options(options_), ok());
  remove("b", write_bands("b"));
  work();
  EXPECT_GE(discarded_.size(), 2u);
  discarded_.clear();
  options_.discard = false;
  ASSERT_EQ(volume_->change_options(options_), ok());
  remove("c", write_bands("c"));
  work();
  EXPECT_TRUE(discarded_.empty());
}

TEST_F(DiscardTest, ADiskThatTakesNoDiscardsIsAskedOnce) {
  faulty_.fail_when([](const device::CallInfo& call) -> std::optional<device::Fault> {
    if (call.call != Call::kDiscard) return std::nullopt;
    return device::Fault{.error = Errc::kUnsupported};
  });
  const std::uint64_t before = faulty_.calls(Call::kDiscard);
  remove("a", write_bands("a"));
  work();
  remove("b", write_bands("b"));
  work();
  EXPECT_EQ(faulty_.calls(Call::kDiscard), before + 1);
  EXPECT_EQ(volume_->trim({}), fail(Errc::kUnsupported));
  EXPECT_EQ(read(write_bands("c"), 0, 1), "c");
}

TEST_F(DiscardTest, ATrimDiscardsFreeBandsAndNoOthers) {
  const InodeNo kept = write_bands("k");
  const std::uint64_t bytes = trimmed();
  EXPECT_GE(bytes, free_bands() * kDiscardBandBytes);
  EXPECT_EQ(bytes, discarded_.size() * kDiscardBandBytes);
  EXPECT_EQ(read(kept, 0, 4 * kDiscardBandBytes), std::string(3 * kDiscardBandBytes, 'k'));
  remove("k", kept);
  EXPECT_GE(trimmed(), bytes + 2 * kDiscardBandBytes) << "bands are emptied first";
}

TEST_F(DiscardTest, ATrimAfterAMountDiscardsFreeBandsToo) {
  remount();
  EXPECT_GE(trimmed(), free_bands() * kDiscardBandBytes);
  remount();
  EXPECT_GE(trimmed(), free_bands() * kDiscardBandBytes);
}

TEST_F(DiscardTest, ATrimKeepsToItsRange) {
  const std::uint64_t all = trimmed();
  const std::uint64_t half = 32 * kDiscardBandBytes;
  const std::uint64_t lower = trimmed({.start = 0, .length = half});
  for (const BandId band : discarded_) EXPECT_LT(band.value, 32u);
  const std::uint64_t upper = trimmed({.start = half});
  for (const BandId band : discarded_) EXPECT_GE(band.value, 32u);
  EXPECT_EQ(lower + upper, all);
  EXPECT_GT(lower, 0u);
  EXPECT_EQ(trimmed({.start = 8 * kDiscardBandBytes + 1, .length = kDiscardBandBytes}),
            kDiscardBandBytes);
  EXPECT_EQ(discarded_, std::set{BandId{9}});
  EXPECT_EQ(trimmed({.min_bytes = kDiscardVolumeBytes}), 0u);
  EXPECT_EQ(trimmed({.start = 8 * kDiscardBandBytes, .length = 3 * kDiscardBandBytes,
                     .min_bytes = 3 * kDiscardBandBytes}), 3 * kDiscardBandBytes);
  EXPECT_EQ(trimmed({.start = 8 * kDiscardBandBytes, .length = 3 * kDiscardBandBytes,
                     .min_bytes = 3 * kDiscardBandBytes + 1}), 0u);
}

TEST_F(DiscardTest, ATrimRefusesARangeThatCannotBe) {
  EXPECT_EQ(volume_->trim({.start = kDiscardVolumeBytes}), fail(Errc::kInvalid));
  EXPECT_EQ(volume_->trim({.length = kBlockBytes - 1}), fail(Errc::kInvalid));
  EXPECT_TRUE(volume_->trim({.start = kDiscardVolumeBytes - 1}));
}

TEST_F(DiscardTest, AReadOnlyVolumeDiscardsNothing) {
  options_.read_only = true;
  remount();
  discarded_.clear();
  EXPECT_EQ(volume_->trim({}), fail(Errc::kReadOnly));
  EXPECT_TRUE(discarded_.empty());
}

// Bands of 8 blocks: free are 2 and 3, 5, and 8 to 10; 7 is conventional, 11 has no blocks.
class TrimTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kBandBytes = 8 * kBlockBytes;

  static device::Geometry geometry() {
    device::Geometry geometry;
    geometry.band_blocks.assign(12, 8);
    geometry.band_kinds.assign(12, device::BandKind::kShingled);
    geometry.band_kinds[7] = device::BandKind::kConventional;
    geometry.band_blocks[11] = 0;
    return geometry;
  }
  void SetUp() override {
    bands_.restore(BandId{4}, {.appended = 8, .live = 8});
    device_.place_write_pointer(BandId{6}, 1);
  }

  device::MemoryDevice device_{geometry()};
  data::BandTable bands_{geometry(), std::array{BandId{0}, BandId{1}}, std::array{BandId{6}}};
};

TEST_F(TrimTest, TakesRunsOfFreeBandsThatAreLongEnough) {
  EXPECT_EQ(trim_free_bands(device_, bands_, {}), 6 * kBandBytes);
  EXPECT_EQ(trim_free_bands(device_, bands_, {.min_bytes = 2 * kBandBytes}), 5 * kBandBytes);
  EXPECT_EQ(trim_free_bands(device_, bands_, {.min_bytes = 3 * kBandBytes}), 3 * kBandBytes);
  EXPECT_EQ(trim_free_bands(device_, bands_, {.min_bytes = 4 * kBandBytes}), 0u);
}

TEST_F(TrimTest, TakesABandOfTheLogThatIsEmpty) {
  device_.place_write_pointer(BandId{6}, 0);
  EXPECT_EQ(trim_free_bands(device_, bands_, {}), 7 * kBandBytes);
}

TEST_F(TrimTest, TakesABandOfARangeOfOneBlock) {
  EXPECT_EQ(trim_free_bands(device_, bands_, {.start = 2 * kBandBytes, .length = kBlockBytes}),
            kBandBytes);
}

}  // namespace
}  // namespace lazyfs::fs
