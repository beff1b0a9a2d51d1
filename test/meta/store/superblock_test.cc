// What the superblock says of sessions: how the last one ended, mounts, checks.
#include "base/buffer.h"
#include "base/crc32c.h"
#include "base/endian.h"
#include "meta/log/features.h"
#include "meta/log/superblock_format.h"
#include "meta/log/superblock_log.h"
#include "meta/store/store.h"
#include "test/meta/fixture.h"

namespace lazyfs::meta {
namespace {

class SuperblockTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(Store::format(*device, small_superblock(6))); }
  void open() {
    auto opened = Store::open(*device, options);
    ASSERT_TRUE(opened.has_value()) << describe(opened.error());
    store = std::move(*opened);
  }
  void put(std::uint64_t number) {
    Batch batch;
    batch.put({1, 1, number}, as_value("value"));
    ASSERT_TRUE(store->apply(batch));
  }
  void close() {
    ASSERT_TRUE(store->close());
    store.reset();
  }
  Superblock on_disk() { return *read_superblock(*device); }

  std::unique_ptr<device::MemoryDevice> device = device::MemoryDevice::uniform(16, 64);
  StoreOptions options = quiet_options();
  std::unique_ptr<Store> store;
};

TEST_F(SuperblockTest, SaysThatTheVolumeEndedCleanlyOnlyWhenItDid) {
  EXPECT_TRUE(on_disk().ended_cleanly());
  open();
  EXPECT_TRUE(store->was_clean());
  EXPECT_FALSE(on_disk().ended_cleanly());
  put(1);
  close();
  EXPECT_TRUE(on_disk().ended_cleanly());

  open();
  EXPECT_TRUE(store->was_clean());
  put(2);
  ASSERT_TRUE(store->commit());
  store->abandon();  // a crash
  store.reset();
  EXPECT_FALSE(on_disk().ended_cleanly());
  open();
  EXPECT_FALSE(store->was_clean());
  close();
  EXPECT_TRUE(on_disk().ended_cleanly());
}

TEST_F(SuperblockTest, AVolumeThatFailedDidNotEndCleanly) {
  open();
  put(1);
  for (std::uint32_t band = 2; band < 8; ++band) {
    device->retire(BandId{band}, device::BandCondition::kReadOnly);
  }
  EXPECT_FALSE(store->commit());
  (void)store->close();
  EXPECT_FALSE(on_disk().ended_cleanly());
}

TEST_F(SuperblockTest, ReadingChangesNothingOfIt) {
  const Superblock before = on_disk();
  options.read_only = true;
  options.mount_seconds = options.check_seconds = 1;
  open();
  EXPECT_TRUE(store->was_clean());
  close();
  EXPECT_EQ(on_disk(), before);
}

// Rounds enough for the log to pass through all of its bands.
TEST_F(SuperblockTest, ACleanEndNamesTheBlockWhereTheLogEnds) {
  for (std::uint64_t round = 0; round < 100; ++round) {
    open();
    put(round);
    ASSERT_TRUE(store->commit());
    put(round + 1);
    close();
    const Superblock s = on_disk();
    ASSERT_TRUE(s.ended_cleanly());
    const auto ends_there = [&](BandId band) {
      return device->write_pointer(band) == s.head_rba + s.head_blocks;
    };
    EXPECT_TRUE(std::ranges::any_of(s.log_bands, ends_there)) << round;
  }
}

TEST_F(SuperblockTest, CountsMountsForWritingAndKeepsTheTimes) {
  EXPECT_EQ(on_disk().mounts, 0u);
  options.mount_seconds = 1800000000;
  open();
  close();
  options.mount_seconds = 1800000001;
  open();
  close();
  options.mount_seconds = 0;
  options.check_seconds = 1800000002;
  open();
  close();
  EXPECT_EQ(on_disk().mounts, 2u);
  EXPECT_EQ(on_disk().last_mount_seconds, 1800000001u);
  EXPECT_EQ(on_disk().last_check_seconds, 1800000002u);
}

TEST_F(SuperblockTest, KeepsFlagsAndRoomOfALaterLazyfs) {
  Superblock later = on_disk();
  later.flags |= 0x80000000;
  later.room[7] = std::byte{7};
  ASSERT_TRUE(SuperblockLog(*device, on_disk()).write(later));
  open();
  put(1);
  close();
  EXPECT_EQ(on_disk().flags, 0x80000000u | Superblock::kCleanEnd | Superblock::kHeadOpen |
                                 Superblock::kDataEndsKnown);
  EXPECT_EQ(on_disk().room, later.room);
}

// ---- Features -----------------------------------------------------------------------------------

class FeaturesTest : public SuperblockTest {
 protected:
  void set(Features features) {
    Superblock next = on_disk();
    next.features = features;
    ASSERT_TRUE(SuperblockLog(*device, on_disk()).write(next));
  }
  Result<> try_open(bool read_only) {
    options.read_only = read_only;
    auto opened = Store::open(*device, options);
    if (!opened) return fail(opened.error());
    return (*opened)->close();
  }
  Result<> try_repair() {
    auto opened = Store::repair(
        *device, quiet_options(), [](const std::string&) {},
        [](Store&, const std::vector<KeyRange>&) { return ok(); });
    if (!opened) return fail(opened.error());
    return (*opened)->close();
  }
};

TEST_F(FeaturesTest, AnIncompatibleOneThatIsNotKnownKeepsTheVolumeClosed) {
  set({.incompat = 0x80000021});
  const Superblock before = on_disk();
  EXPECT_EQ(try_open(false).error(), Errc::kFeatureUnknown);
  EXPECT_EQ(try_open(true).error(), Errc::kFeatureUnknown);
  EXPECT_EQ(try_repair().error(), Errc::kFeatureUnknown);
  EXPECT_EQ(on_disk(), before);
  EXPECT_EQ(explain(*device, Errc::kFeatureUnknown),
            "the volume has features that this lazyfs does not know: use a newer version "
            "(incompatible features: bits 0, 5 and 31)");
}

TEST_F(FeaturesTest, AReadOnlyCompatibleOneThatIsNotKnownAllowsReading) {
  set({.ro_compat = 2});
  const Superblock before = on_disk();
  EXPECT_EQ(try_open(false).error(), Errc::kFeatureReadOnly);
  EXPECT_EQ(try_repair().error(), Errc::kFeatureReadOnly);
  EXPECT_TRUE(try_open(true));
  EXPECT_EQ(on_disk(), before);
  EXPECT_EQ(explain(*device, Errc::kFeatureReadOnly),
            "the volume has features that this lazyfs does not know: it can be read (-o ro), and "
            "changed with a newer version only (read-only compatible features: bit 1)");
}

TEST_F(FeaturesTest, ACompatibleOneThatIsNotKnownIsKept) {
  set({.compat = 0x80000001});
  EXPECT_TRUE(try_open(false));
  EXPECT_TRUE(try_open(true));
  EXPECT_TRUE(try_repair());
  EXPECT_EQ(on_disk().features, Features{.compat = 0x80000001});
}

// An older lazyfs must not continue from before an upgrade.
TEST_F(FeaturesTest, AVolumeThatANewerLazyfsHasChangedIsRefused) {
  Superblock next = on_disk();
  next.sequence += 1;
  AlignedBuffer buffer(kBlockBytes);
  const auto block = buffer.span().first<kBlockBytes>();
  encode(next, block);
  store_le_at<std::uint32_t>(block, 8, 7);
  store_le_at(block, 4, crc32c(std::span<const std::byte>(block).subspan(8)));
  ASSERT_TRUE(device->append({BandId{0}, *device->write_pointer(BandId{0})}, block));
  EXPECT_EQ(try_open(false).error(), Errc::kSuperblockNewer);
  EXPECT_EQ(try_open(true).error(), Errc::kSuperblockNewer);
  EXPECT_EQ(try_repair().error(), Errc::kSuperblockNewer);
}

}  // namespace
}  // namespace lazyfs::meta
