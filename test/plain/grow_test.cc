// Growing a plain block device.
#include "plain/grow.h"

#include <gtest/gtest.h>

#include "test/plain/plain_file.h"
#include "test/support/growth_cut.h"
#include "test/support/result_printer.h"
#include "test/support/seed.h"

namespace lazyfs::plain {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kSmall = 18 * kMiB + 4096, kLarge = 30 * kMiB + 12288;
constexpr std::uint32_t kSmallBands = 16, kLargeBands = 28;

class PlainGrowTest : public testing::Test {
 protected:
  PlainGrowTest() {
    identity_ = *plan_volume(kSmall, kMiB);
    identity_.label = "attic";
    EXPECT_EQ(create(file_.path(), identity_), ok());
  }
  void enlarge(std::uint64_t bytes = kLarge) const {
    std::filesystem::resize_file(file_.path(), bytes);
  }
  std::unique_ptr<PlainDevice> open_or_die(OpenOptions options = {}) const {
    auto opened = open(file_.path(), options);
    EXPECT_TRUE(opened) << describe(opened.error());
    return opened ? std::move(*opened) : nullptr;
  }
  static void fill(PlainDevice& device, BandId band, char letter) {
    AlignedBuffer bytes(kMiB);
    std::ranges::fill(bytes.span(), static_cast<std::byte>(letter));
    ASSERT_EQ(device.reset(band), ok());
    ASSERT_EQ(device.append({band, 0}, device::Piece(bytes.span())), ok());
    ASSERT_EQ(device.flush(), ok());
  }
  static bool holds(PlainDevice& device, BandId band, char letter) {
    AlignedBuffer bytes(kMiB);
    return device.read({band, 0}, bytes.span()) &&
           std::ranges::count(bytes.span(), static_cast<std::byte>(letter)) ==
               static_cast<std::ptrdiff_t>(kMiB);
  }

  PlainFile file_{kSmall};
  Identity identity_;
};

TEST_F(PlainGrowTest, AddsTheBandsThatTheDeviceHasRoomForWhileItIsUsed) {
  {
    const auto device = open_or_die();
    fill(*device, BandId{15}, 'a');
    const device::Geometry& before = device->geometry();
    enlarge();
    ASSERT_EQ(device->grow(0), ok());
    EXPECT_EQ(before.band_count(), kSmallBands);
    EXPECT_EQ(device->geometry().band_count(), kLargeBands);
    EXPECT_EQ(device->geometry().super_bands, (std::array{BandId{0}, BandId{15}}));
    EXPECT_EQ(device->write_pointer(BandId{27}), 256u);  // its end is unknown
    fill(*device, BandId{16}, 'b');
    fill(*device, BandId{27}, 'c');
    EXPECT_TRUE(holds(*device, BandId{15}, 'a'));
  }
  const auto device = open_or_die();
  EXPECT_TRUE(device->found().first_is_good);
  EXPECT_TRUE(device->found().copy_is_current);
  EXPECT_EQ(device->identity().label, "attic");
  EXPECT_EQ(device->identity().generation, identity_.generation + 1);
  EXPECT_EQ(device->geometry().band_count(), kLargeBands);
  EXPECT_TRUE(holds(*device, BandId{15}, 'a'));
  EXPECT_TRUE(holds(*device, BandId{16}, 'b'));
  EXPECT_TRUE(holds(*device, BandId{27}, 'c'));
}

TEST_F(PlainGrowTest, EnlargesAFile) {
  const auto device = open_or_die();
  ASSERT_EQ(device->grow(kLarge), ok());
  EXPECT_EQ(device->geometry().band_count(), kLargeBands);
  EXPECT_EQ(std::filesystem::file_size(file_.path()), kLarge);
}

TEST_F(PlainGrowTest, RefusesWhatAddsNoBand) {
  const auto device = open_or_die();
  EXPECT_EQ(device->grow(0), fail(Errc::kGrowNoRoom));
  EXPECT_EQ(device->grow(kSmall - 1), fail(Errc::kGrowSmaller));
  enlarge(19 * kMiB - 512);
  EXPECT_EQ(device->grow(0), fail(Errc::kGrowNoRoom));
  enlarge(19 * kMiB);
  EXPECT_EQ(device->grow(0), ok());
  EXPECT_EQ(device->geometry().band_count(), kSmallBands + 1);
  EXPECT_EQ(open_or_die({.read_only = true, .exclusive = false})->grow(0),
            fail(Errc::kDeviceReadOnly));
}

TEST_F(PlainGrowTest, GrowsAgainFromWhereItIs) {
  const auto device = open_or_die();
  ASSERT_EQ(device->grow(24 * kMiB), ok());
  fill(*device, BandId{21}, 'a');
  EXPECT_EQ(device->grow(24 * kMiB), fail(Errc::kGrowNoRoom));
  ASSERT_EQ(device->grow(kLarge), ok());
  EXPECT_TRUE(holds(*device, BandId{21}, 'a'));
  EXPECT_EQ(device->identity().generation, identity_.generation + 2);
}

TEST_F(PlainGrowTest, HasAtMostAsManyBandsAsTheFormatAllows) {
  const std::uint64_t most = std::uint64_t{kMaxBands} * 4096 + 2 * kMiB;
  const Identity small = *plan_volume(most - 4096, 4096);
  const Growth growth = *plan_growth(small, 2 * most);
  EXPECT_EQ(growth.identity.band_count, kMaxBands);
  const auto more = plan_growth(growth.identity, 3 * most);
  EXPECT_TRUE(!more && more.error() == Errc::kGrowNoRoom);
}

TEST_F(PlainGrowTest, LeavesTheSizeOfABlockDeviceToTheDevice) {
  const auto loop = LoopDevice::make(kSmall);
  if (!loop) GTEST_SKIP() << "no loop device";
  ASSERT_EQ(create(loop->path(), identity_), ok());
  const auto device = open(loop->path());
  ASSERT_TRUE(device);
  EXPECT_EQ((*device)->grow(kLarge), fail(Errc::kGrowSize));
  EXPECT_EQ((*device)->grow(0), fail(Errc::kGrowNoRoom));
}

TEST_F(PlainGrowTest, FindsTheNewCopyAndNeverTheOldOne) {
  const std::string old_copy = file_.bytes(17 * kMiB + 65536, 4096);
  enlarge();
  ASSERT_EQ(open_or_die()->grow(0), ok());
  EXPECT_EQ(file_.bytes(17 * kMiB + 65536, 4096), old_copy);  // in band 16, which holds nothing
  file_.overwrite(kIdentityAt, 4096);
  EXPECT_EQ(open_or_die()->geometry().band_count(), kLargeBands);
  file_.overwrite(29 * kMiB + 65536, 4096);
  EXPECT_EQ(open(file_.path()).error(), Errc::kIdentityMissing);
}

// After any prefix of the writes, with any part of the next one, the device has its earlier bands
// or all of the new ones, and each band holds what it held. Growing again completes it.
TEST_F(PlainGrowTest, IsGrownOrNotAfterAPowerCutAtAnyWrite) {
  SCOPED_TRACE(seed_trace());
  std::mt19937_64 random(test_seed());
  std::set<std::uint32_t> outcomes;
  for (std::size_t whole = 0; whole <= 2; ++whole) {
    for (const unsigned percent : {0u, 3u, 20u, 50u, 80u, 97u}) {
      SCOPED_TRACE(testing::Message() << whole << " steps, then " << percent << " %");
      enlarge(kSmall);
      ASSERT_EQ(create(file_.path(), identity_), ok());
      for (std::uint32_t i = 0; i < kSmallBands; ++i) {
        fill(*open_or_die(), BandId{i}, static_cast<char>('a' + i));
      }
      enlarge();
      file_.overwrite(29 * kMiB, kMiB, 'x');
      const Growth growth = *plan_growth(identity_, kLarge);
      ASSERT_EQ(growth.steps.size(), 2u);
      write_cut_growth(file_.path(), growth.steps, whole, percent, random);
      const auto device = open_or_die();
      ASSERT_NE(device, nullptr);
      outcomes.insert(device->geometry().band_count());
      for (std::uint32_t i = 0; i < kSmallBands; ++i) {
        EXPECT_TRUE(holds(*device, BandId{i}, static_cast<char>('a' + i))) << i;
      }
      const Result<> again = device->grow(0);
      EXPECT_TRUE(again || again.error() == Errc::kGrowNoRoom);
      EXPECT_EQ(device->geometry().band_count(), kLargeBands);
    }
  }
  EXPECT_EQ(outcomes, (std::set{kSmallBands, kLargeBands}));
}

}  // namespace
}  // namespace lazyfs::plain
