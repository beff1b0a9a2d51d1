#include "meta/log/log_layout.h"
#include "mkfs/mkfs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>

#include "base/buffer.h"
#include "device/faulty.h"
#include "device/power_cut.h"
#include "device/recording.h"
#include "fs/volume/volume.h"
#include "test/fsck/expect_clean.h"
#include "test/fsck/sample_volume.h"
#include "test/support/rounds.h"
#include "test/support/seed.h"

namespace lazyfs::mkfs {
namespace {

using namespace fs;
using fsck::SampleVolume, fsck::FixedClock, fsck::sample_uuid;

device::Geometry uniform(std::uint32_t bands, std::uint32_t blocks) {
  device::Geometry geometry;
  geometry.band_blocks.assign(bands, blocks);
  geometry.band_kinds.assign(bands, device::BandKind::kShingled);
  return geometry;
}

TEST(MkfsTest, LogLiesInTheMiddleOfTheDevice) {
  const auto layout = plan_layout(uniform(100, 64), {});
  ASSERT_TRUE(layout);
  EXPECT_EQ(layout->log_bands, (std::vector{BandId{48}, BandId{49}, BandId{50}, BandId{51}}));
  EXPECT_EQ(layout->log_blocks, 256u);
  EXPECT_EQ(layout->data_bands, 94u);
  EXPECT_EQ(layout->data_blocks, 94u * 64);
}

TEST(MkfsTest, LogIsA64thOfALargerDevice) {
  EXPECT_EQ(plan_layout(uniform(640, 64), {})->log_bands.size(), 10u);
}

TEST(MkfsTest, LogOfAnEightTerabyteDiskIs16GiB) {
  const auto layout = plan_layout(uniform(32768, 65536), {});
  EXPECT_EQ(layout->log_blocks * kBlockBytes, std::uint64_t{16} << 30);
  EXPECT_EQ(layout->log_bands.size(), 64u);
}

TEST(MkfsTest, LogSizeIsRoundedUpToBands) {
  EXPECT_EQ(plan_layout(uniform(100, 64), {.log_bytes = 64 * 5 * 4096})->log_bands.size(), 5u);
  EXPECT_EQ(plan_layout(uniform(100, 64), {.log_bytes = 64 * 5 * 4096 + 1})->log_bands.size(), 6u);
  EXPECT_EQ(plan_layout(uniform(100, 64), {.log_bytes = 1})->log_bands.size(), kMinLogBands);
}

TEST(MkfsTest, LogMayTakeAllButTheBandsThatFilesNeed) {
  EXPECT_TRUE(plan_layout(uniform(20, 64), {.log_bytes = 12 * 64 * 4096}));
  EXPECT_EQ(plan_layout(uniform(20, 64), {.log_bytes = 13 * 64 * 4096}).error(),
            Errc::kMkfsLogTooLarge);
}

TEST(MkfsTest, LogAvoidsConventionalAndTinyBands) {
  device::Geometry geometry = uniform(30, 64);
  geometry.band_kinds[15] = device::BandKind::kConventional;
  geometry.band_blocks[14] = meta::kMinLogBandBlocks - 1;
  const auto layout = plan_layout(geometry, {});
  EXPECT_EQ(layout->log_bands, (std::vector{BandId{12}, BandId{13}, BandId{16}, BandId{17}}));
}

TEST(MkfsTest, LogAvoidsSuperBandsInTheMiddle) {
  device::Geometry geometry = uniform(40, 64);
  std::fill_n(geometry.band_kinds.begin(), 19, device::BandKind::kConventional);
  geometry.super_bands = geometry.first_shingled();
  const auto layout = plan_layout(geometry, {});
  EXPECT_EQ(layout->log_bands, (std::vector{BandId{21}, BandId{22}, BandId{23}, BandId{24}}));
}

TEST(MkfsTest, LogOfASmallDeviceHasRoomForEveryTransaction) {
  EXPECT_EQ(plan_layout(uniform(100, 32), {})->log_blocks, 256u);
}

TEST(MkfsTest, LogHasNoMoreBandsThanASuperblockHolds) {
  constexpr std::uint64_t kBandBytes = std::uint64_t{64} * kBlockBytes;
  const auto geometry = uniform(2000, 64);
  EXPECT_TRUE(plan_layout(geometry, {.log_bytes = meta::kMaxLogBands * kBandBytes}));
  EXPECT_EQ(plan_layout(geometry, {.log_bytes = meta::kMaxLogBands * kBandBytes + 1}).error(),
            Errc::kMkfsLogTooLarge);
}

TEST(MkfsTest, SmallestDeviceIsAccepted) {
  EXPECT_TRUE(plan_layout(uniform(kMinBands, meta::kMinLogBandBlocks), {}));
}

TEST(MkfsTest, DeviceWithOneBandLessIsRefused) {
  EXPECT_EQ(plan_layout(uniform(kMinBands - 1, 64), {}).error(), Errc::kMkfsTooFewBands);
}

TEST(MkfsTest, DeviceWithoutWritePointersNeedsOneBandMore) {
  const device::Capabilities plain{.keeps_write_pointers = false};
  EXPECT_EQ(min_bands({}), kMinBands);
  EXPECT_EQ(min_bands(plain), kMinBands + 1);
  EXPECT_TRUE(plan_layout(uniform(min_bands(plain), 64), {}, plain));
  EXPECT_EQ(plan_layout(uniform(min_bands(plain) - 1, 64), {}, plain).error(),
            Errc::kMkfsTooFewBands);
}

TEST(MkfsTest, DeviceWithBandsTooSmallForALogIsRefused) {
  device::Geometry geometry = uniform(50, meta::kMinLogBandBlocks - 1);
  geometry.band_blocks[0] = geometry.band_blocks[1] = meta::kMinLogBandBlocks;
  EXPECT_EQ(plan_layout(geometry, {}).error(), Errc::kMkfsTooFewBands);
}

TEST(MkfsTest, BlocksOfAnotherSizeAreRefused) {
  device::Geometry geometry = uniform(50, 64);
  geometry.block_bytes = 512;
  EXPECT_EQ(plan_layout(geometry, {}).error(), Errc::kMkfsBlockSize);
}

TEST(MkfsTest, LabelOf64BytesIsRefused) {
  EXPECT_TRUE(plan_layout(uniform(50, 64), {.label = std::string(63, 'x')}));
  EXPECT_EQ(plan_layout(uniform(50, 64), {.label = std::string(64, 'x')}).error(),
            Errc::kMkfsLabelTooLong);
}

TEST(MkfsTest, ConventionalSuperBandIsRefused) {
  device::Geometry geometry = uniform(50, 64);
  geometry.band_kinds[1] = device::BandKind::kConventional;
  EXPECT_EQ(plan_layout(geometry, {}).error(), Errc::kMkfsSuperBands);
}

TEST(MkfsTest, ConventionalBandsMayBeTheFirst) {
  device::Geometry geometry = uniform(40, 64);
  for (const std::size_t band : {0, 1, 2}) {
    geometry.band_kinds[band] = device::BandKind::kConventional;
  }
  geometry.super_bands = geometry.first_shingled();
  EXPECT_EQ(geometry.super_bands, (std::array{BandId{3}, BandId{4}}));
  device::MemoryDevice device(geometry, {.max_open_bands = 6});
  ASSERT_TRUE(make_filesystem(device, {}));
  auto volume = Volume::mount(device, {});
  ASSERT_TRUE(volume);
  EXPECT_TRUE((*volume)->unmount());
  fsck::expect_clean(device);
}

TEST(MkfsTest, BandsThatCannotBeWrittenAreLeftOut) {
  for (const auto condition : {device::BandCondition::kReadOnly, device::BandCondition::kOffline}) {
    SCOPED_TRACE(to_string(condition));
    auto device = device::MemoryDevice::uniform(40, 64, {.discards = true});
    const auto whole = plan_layout(device->geometry(), {});
    const BandId in_log = whole->log_bands.front(), in_data{39};
    const AlignedBuffer block = AlignedBuffer::zeroed(kBlockBytes);
    ASSERT_EQ(device->append({in_data, 0}, block.span()), ok());
    device->retire(in_log, condition);
    device->retire(in_data, condition);
    const auto made = make_filesystem(*device, {});
    ASSERT_TRUE(made) << describe(made.error());
    EXPECT_EQ(std::ranges::count(made->layout.log_bands, in_log), 0);
    EXPECT_EQ(made->layout.log_bands.size(), whole->log_bands.size());
    EXPECT_EQ(made->layout.data_bands, whole->data_bands - 2);
    EXPECT_EQ(made->dead_bands, (std::vector{in_log, in_data}));
    EXPECT_FALSE(made->discard_error);
    auto volume = Volume::mount(*device, {});
    ASSERT_TRUE(volume);
    EXPECT_TRUE((*volume)->unmount());
    fsck::expect_clean(*device);
  }
}

TEST(MkfsTest, ASuperBandThatCannotBeWrittenIsRefused) {
  auto device = device::MemoryDevice::uniform(40, 64);
  device->retire(BandId{1}, device::BandCondition::kReadOnly);
  EXPECT_EQ(make_filesystem(*device, {}).error(), Errc::kBandReadOnly);
}

TEST(MkfsTest, ADeviceThatAllowsTooFewOpenBandsIsRefused) {
  EXPECT_EQ(plan_layout(uniform(40, 64), {}, {.max_open_bands = 5}).error(), Errc::kFewOpenBands);
  EXPECT_TRUE(plan_layout(uniform(40, 64), {}, {.max_open_bands = 6}));
}

TEST(MkfsTest, TinySuperBandIsRefused) {
  device::Geometry geometry = uniform(50, 64);
  geometry.band_blocks[0] = meta::kMinLogBandBlocks - 1;
  EXPECT_EQ(plan_layout(geometry, {}).error(), Errc::kMkfsSuperBands);
}

TEST(MkfsTest, BandsThatAreLinkedAwayDoNotCount) {
  device::Geometry geometry = uniform(kMinBands + 1, 64);
  geometry.band_blocks[2] = 128;
  geometry.band_blocks[3] = 0;
  EXPECT_EQ(plan_layout(geometry, {})->data_bands, kMinDataBands);
  geometry.band_blocks[5] = 128;
  geometry.band_blocks[6] = 0;
  EXPECT_EQ(plan_layout(geometry, {}).error(), Errc::kMkfsTooFewBands);
}

TEST(MkfsTest, NewFilesystemHasARootAndNothingElse) {
  const auto device = device::MemoryDevice::uniform(24, 64);
  FixedClock clock;
  const Options options{
      .label = "new", .uuid = sample_uuid(), .owner = {7, 8}, .name_seed = 99};
  ASSERT_TRUE(make_filesystem(*device, options, clock));
  const auto store = *meta::Store::open(*device, {.background = false, .read_only = true});
  EXPECT_EQ(store->superblock().label, "new");
  EXPECT_EQ(store->superblock().uuid, sample_uuid());
  EXPECT_EQ(store->superblock().created_seconds, 1'700'000'000u);
  const auto items = *store->scan({}, {~0ull, 255, meta::kMaxOffset}, 10);
  ASSERT_EQ(items.size(), 2u);
  const InodeRecord root = *decode_inode(items[0].value);
  EXPECT_EQ(items[0].key, key_of(kRootInode, Kind::kInode));
  EXPECT_EQ(root.mode, S_IFDIR | 0755u);
  EXPECT_EQ(root.owner, (Owner{7, 8}));
  EXPECT_EQ(root.links, 2u);
  EXPECT_EQ(root.parent, kRootInode);
  EXPECT_EQ(root.name_seed, 99u);
  EXPECT_EQ(root.birth, clock.now());
  EXPECT_EQ(items[1].key, key_of(kVolumeOwner, Kind::kCounters));
  EXPECT_EQ(*decode_counters(items[1].value), CounterRecord{.inodes = 1});
}

TEST(MkfsTest, NewFilesystemIsClean) {
  const auto device = device::MemoryDevice::uniform(24, 64);
  ASSERT_TRUE(make_filesystem(*device, {.uuid = sample_uuid()}));
  const auto store = *meta::Store::open(*device, {.background = false, .read_only = true});
  std::vector<std::string> problems;
  const auto listener = [&](const std::string& problem) { problems.push_back(problem); };
  ASSERT_TRUE(fsck::check(*store, *device, {}, listener));
  EXPECT_EQ(problems, std::vector<std::string>{});
}

TEST(MkfsTest, EveryBandIsDiscardedUnlessAskedNotTo) {
  const auto device = device::MemoryDevice::uniform(24, 64, {.keeps_write_pointers = false});
  const auto fill = [&] {
    AlignedBuffer old = AlignedBuffer::zeroed(kBlockBytes);
    old.data()[0] = std::byte{1};
    for (std::uint32_t band = 0; band < 24; ++band) {
      for (std::uint32_t rba = 32; rba < 64; ++rba) device->poke({BandId{band}, rba}, old.span());
    }
  };
  const auto is_kept = [&](std::uint32_t band) {
    AlignedBuffer found(kBlockBytes);
    device->peek({BandId{band}, 63}, found.span());
    return found.data()[0] == std::byte{1};
  };
  fill();
  const auto kept = make_filesystem(*device, {.discard = false});
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->bytes_discarded, 0u);
  EXPECT_TRUE(is_kept(5));
  const auto made = make_filesystem(*device, {});
  ASSERT_TRUE(made);
  EXPECT_EQ(made->bytes_discarded, 24u * 64 * kBlockBytes);
  EXPECT_FALSE(made->discard_error);
  for (std::uint32_t band = 0; band < 24; ++band) EXPECT_FALSE(is_kept(band)) << band;
}

TEST(MkfsTest, ADeviceWithNothingToDiscardIsNoError) {
  const auto device = device::MemoryDevice::uniform(24, 64, {.discards = false});
  const auto made = make_filesystem(*device, {});
  ASSERT_TRUE(made);
  EXPECT_EQ(made->bytes_discarded, 0u);
  EXPECT_FALSE(made->discard_error);
}

TEST(MkfsTest, TellsHowManyBandsAreDone) {
  const auto device = device::MemoryDevice::uniform(24, 64);
  std::map<std::string, std::uint64_t> done;
  const auto count = [&](std::string_view stage, std::uint64_t bands, std::uint64_t total) {
    EXPECT_EQ(total, 24u);
    EXPECT_EQ(bands, ++done[std::string(stage)]);
  };
  ASSERT_TRUE(make_filesystem(*device, {}, system_clock(), count));
  EXPECT_EQ(done, (std::map<std::string, std::uint64_t>{{"discard", 24}, {"reset", 24}}));
}

TEST(MkfsTest, ADiskThatTakesNoDiscardsIsGoodEnough) {
  const auto device = device::MemoryDevice::uniform(24, 64);
  device::FaultyDevice faulty(*device);
  faulty.fail_nth(device::Call::kDiscard, 1, {.error = Errc::kUnsupported});
  const auto made = make_filesystem(faulty, {});
  ASSERT_TRUE(made);
  EXPECT_EQ(made->discard_error, Errc::kUnsupported);
  EXPECT_EQ(faulty.calls(device::Call::kDiscard), 1u);
}

// An interrupted mkfs must not leave an old filesystem whose bands are discarded.
TEST(MkfsTest, NoOldFilesystemIsLeftWhenBandsAreDiscarded) {
  for (const bool keeps_pointers : {true, false}) {
    const auto device =
        device::MemoryDevice::uniform(24, 64, {.keeps_write_pointers = keeps_pointers});
    ASSERT_TRUE(make_filesystem(*device, {}));
    device->forget_write_pointers();
    device::FaultyDevice faulty(*device);
    bool is_cut = false;
    faulty.fail_when([&](const device::CallInfo& call) -> std::optional<device::Fault> {
      is_cut |= call.call == device::Call::kDiscard;
      return is_cut ? std::optional(device::Fault{.error = Errc::kPowerCut}) : std::nullopt;
    });
    ASSERT_FALSE(make_filesystem(faulty, {}));
    EXPECT_TRUE(is_cut);
    device->forget_write_pointers();
    EXPECT_EQ(meta::read_superblock(*device).error(), Errc::kNoFilesystem);
  }
}

TEST(MkfsTest, EveryBandIsResetWhateverWasThere) {
  SampleVolume old;
  old.store.reset();
  ASSERT_TRUE(make_filesystem(*old.device, {.uuid = sample_uuid()}));
  EXPECT_EQ(*old.device->write_pointer(SampleVolume::kB1), 0u);
  EXPECT_EQ(*old.device->write_pointer(SampleVolume::kB2), 0u);
  old.open();
  EXPECT_EQ(old.problems(), std::vector<std::string>{});
  EXPECT_EQ(old.report.inodes, 1u);
}

// ---- Power cuts ---------------------------------------------------------------------------------

// The parameter: whether the device keeps write pointers.
class MkfsPowerCutTest : public testing::TestWithParam<bool> {
 protected:
  // A device without a volume, or with a whole one: the superblock is the last thing that is
  // written. Returns whether there is a volume.
  static bool has_whole_volume(device::MemoryDevice& device) {
    const auto volume = Volume::mount(device, {.read_only = true, .background = false});
    if (!volume) {
      const Errc error = volume.error();
      EXPECT_TRUE(error == Errc::kNoFilesystem || error == Errc::kSuperblockBad)
          << describe(error);
      return false;
    }
    const auto root = (*volume)->get_attributes(kRootInode);
    EXPECT_TRUE(root) << describe(root.error());
    EXPECT_TRUE((*volume)->unmount());
    fsck::expect_clean(device);
    return true;
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, MkfsPowerCutTest, testing::Bool(), [](const auto& kind) {
  return kind.param ? "WithWritePointers" : "WithoutWritePointers";
});

TEST_P(MkfsPowerCutTest, LeavesNoVolumeOrAWholeOne) {
  SCOPED_TRACE(seed_trace());
  const auto memory =
      device::MemoryDevice::uniform(24, 64, {.keeps_write_pointers = GetParam()});
  device::RecordingDevice recorded(*memory);
  ASSERT_TRUE(make_filesystem(recorded, {.uuid = sample_uuid()}));
  const device::Recording recording = recorded.recording();
  device::KeepAll keep_all;
  device::LoseAll lose_all;
  for (std::size_t ops = 0; ops <= recording.ops.size() && !HasFailure(); ++ops) {
    SCOPED_TRACE(ops);
    has_whole_volume(*device::after_power_cut(recording, ops, keep_all));
    const bool is_made = has_whole_volume(*device::after_power_cut(recording, ops, lose_all));
    EXPECT_TRUE(is_made || ops < recording.ops.size()) << "mkfs has returned";
    for (std::uint64_t round = 0; round < rounds_of_build(20, 3); ++round) {
      device::RandomChoice random(test_seed() + round);
      has_whole_volume(*device::after_power_cut(recording, ops, random));
    }
  }
}

}  // namespace
}  // namespace lazyfs::mkfs
