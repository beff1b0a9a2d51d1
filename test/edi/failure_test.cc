// Real failures of the file or disk that holds an image: a limit on the size of files, a truncated
// file, a full file system below a loop device.
#include <sys/mount.h>

#include <filesystem>

#include "edi/format1.h"
#include "edi/link.h"
#include "fixture.h"
#include "test/support/file_size_limit.h"
#include "test/support/loop_device.h"
#include "test/support/result_printer.h"

namespace lazyfs::edi {
namespace {

using device::Piece;

// A file system of a given size in memory. Root only.
class SmallFilesystem {
 public:
  SmallFilesystem(std::string folder, std::uint64_t bytes) : folder_(std::move(folder)) {
    std::filesystem::create_directory(folder_);
    const std::string size = "size=" + std::to_string(bytes);
    is_mounted_ = mount("none", folder_.c_str(), "tmpfs", 0, size.c_str()) == 0;
  }
  ~SmallFilesystem() {
    if (is_mounted_) umount2(folder_.c_str(), MNT_DETACH);
    std::filesystem::remove(folder_);
  }
  SmallFilesystem(const SmallFilesystem&) = delete;
  SmallFilesystem& operator=(const SmallFilesystem&) = delete;

  bool is_mounted() const { return is_mounted_; }
  const std::string& folder() const { return folder_; }

 private:
  const std::string folder_;
  bool is_mounted_ = false;
};

using FailureTest = ImageTest;

TEST_F(FailureTest, AnAppendThatFailsHalfWayLeavesTheWritePointerAtItsEnd) {
  make(uniform(8, 16));
  auto image = open_or_die();
  const auto bytes = blocks_of(6, 'x');
  ASSERT_EQ(image->append({kBand, 0}, Piece(bytes.span()).first(kBlockBytes)), ok());
  {
    FileSizeLimit limit(image->layout().band_starts[kBand.value] + 4 * kBlockBytes);
    EXPECT_EQ(image->append({kBand, 1}, Piece(bytes.span())), fail(Errc::kDeviceNoSpace));
  }
  EXPECT_EQ(image->write_pointer(kBand), 4u);
  AlignedBuffer found(4 * kBlockBytes);
  ASSERT_EQ(image->read({kBand, 0}, found.span()), ok());
  EXPECT_EQ(found.data()[4 * kBlockBytes - 1], std::byte{'x'});
}

TEST_F(FailureTest, AFailedBandRefusesAppendsUntilItIsResetOrSet) {
  make(uniform(8, 16));
  auto image = open_or_die();
  const auto one = blocks_of(1, 'x');
  for (const bool by_reset : {true, false}) {
    {
      FileSizeLimit limit(image->layout().band_starts[kBand.value]);
      EXPECT_EQ(image->append({kBand, 0}, Piece(one.span())), fail(Errc::kDeviceNoSpace));
    }
    EXPECT_EQ(image->append({kBand, 0}, Piece(one.span())), fail(Errc::kBandFailed));
    EXPECT_EQ(image->append({BandId{1}, 0}, Piece(one.span())), ok());
    ASSERT_EQ(image->reset(BandId{1}), ok());
    ASSERT_EQ(by_reset ? image->reset(kBand) : image->set_write_pointer(kBand, 0), ok());
    EXPECT_EQ(image->append({kBand, 0}, Piece(one.span())), ok());
    ASSERT_EQ(image->reset(kBand), ok());
  }
}

TEST_F(FailureTest, AFailedTableWriteFailsTheFlushAndALaterFlushRetries) {
  make(uniform(8, 16));
  auto image = open_or_die();
  const auto one = blocks_of(1, 'x');
  ASSERT_EQ(image->append({kBand, 0}, Piece(one.span())), ok());
  {
    FileSizeLimit limit(image->layout().table_start);
    EXPECT_EQ(image->flush(), fail(Errc::kDeviceFlush));
  }
  EXPECT_EQ(image->flush(), ok());
  image.reset();
  EXPECT_EQ(open_or_die()->write_pointer(kBand), 1u);
}

TEST_F(FailureTest, ALinkThatFailsBesideADamagedHeaderLeavesAValidOne) {
  // The header has more than a page: the limit below tears its second copy.
  make({.zones = std::vector<Zone>(600, {1, 16})});
  flip(48);  // in the first copy
  auto image = open_or_die();
  {
    FileSizeLimit limit(kHeaderAreaBytes + kBlockBytes);
    EXPECT_EQ(link_bands(image, BandId{0}, BandId{1}), fail(Errc::kDeviceNoSpace));
  }
  EXPECT_EQ(image, nullptr);
  image = open_or_die();
  ASSERT_NE(image, nullptr);
  EXPECT_EQ(image->geometry().blocks_of(BandId{0}), 32u);
}

// As after a power cut while bands were linked. open_image() leaves the older copy as it is.
TEST_F(FailureTest, ALinkThatFailsBesideAnOlderHeaderKeepsTheEarlierLink) {
  make({.zones = std::vector<Zone>(600, {1, 16})});
  Header newer = open_or_die()->layout().header;
  ++newer.sequence;
  newer.links = {{0, 1}};
  AlignedBuffer copy(kHeaderAreaBytes);
  encode_header1(newer, copy.span().first<kHeaderAreaBytes>());
  std::fstream(path(), std::ios::in | std::ios::out | std::ios::binary)
      .seekp(kHeaderAreaBytes)
      .write(reinterpret_cast<const char*>(copy.data()), kHeaderAreaBytes);
  auto image = open_or_die();
  {
    FileSizeLimit limit(kHeaderAreaBytes + kBlockBytes);
    EXPECT_EQ(link_bands(image, BandId{2}, BandId{3}), fail(Errc::kDeviceNoSpace));
  }
  image = open_or_die();
  ASSERT_NE(image, nullptr);
  EXPECT_EQ(image->geometry().blocks_of(BandId{0}), 32u);
}

TEST_F(FailureTest, ANewImageThatHasNoRoomLeavesNoFile) {
  FileSizeLimit limit(1 << 20);
  EXPECT_EQ(create(path(), uniform(8, 64)), fail(Errc::kDeviceNoSpace));
  EXPECT_FALSE(std::filesystem::exists(path()));
}

TEST_F(FailureTest, ReadingAnImageThatWasTruncatedWhileOpenFails) {
  make(uniform(8, 16));
  auto image = open_or_die();
  auto one = blocks_of(1, 'x');
  ASSERT_EQ(image->append({BandId{7}, 0}, Piece(one.span())), ok());
  std::filesystem::resize_file(path(), image->layout().band_starts[7]);
  EXPECT_EQ(image->read({BandId{7}, 0}, one.span()), fail(Errc::kDeviceTruncated));
}

TEST_F(FailureTest, ABlockDeviceThatFailsToReadIsAnError) {
  const auto loop = LoopDevice::make(std::uint64_t{16} << 20, true);
  if (!loop) GTEST_SKIP() << "cannot set up a loop device (requires root)";
  ASSERT_EQ(create(loop->path(), uniform(8, 16)), ok());
  auto image = *open_image(loop->path());
  auto one = blocks_of(1, 'x');
  ASSERT_EQ(image->append({BandId{7}, 0}, Piece(one.span())), ok());
  ASSERT_TRUE(loop->cut_file(image->layout().band_starts[7]));
  EXPECT_EQ(image->read({BandId{7}, 0}, one.span()), fail(Errc::kDeviceRead));
}

// Blocks of 512 bytes go through the page cache, so only the barrier reports the error.
TEST_F(FailureTest, AfterAFailedBarrierEveryFlushFails) {
  SmallFilesystem small(path("small"), std::uint64_t{2} << 20);
  if (!small.is_mounted()) GTEST_SKIP() << "cannot mount a file system (requires root)";
  const auto loop = LoopDevice::make(std::uint64_t{64} << 20, false, 512, small.folder());
  ASSERT_NE(loop, nullptr);
  ASSERT_EQ(create(loop->path(), {.block_bytes = 512, .zones = {{8, 8192}}}), ok());
  auto image = *open_image(loop->path());
  const auto much = blocks_of(1000, 'x');
  ASSERT_EQ(image->append({kBand, 0}, Piece(much.span())), ok());
  EXPECT_EQ(image->flush(), fail(Errc::kDeviceFlush));
  EXPECT_EQ(image->flush(), fail(Errc::kDeviceFlush));
  ASSERT_EQ(image->reset(kBand), ok());
  EXPECT_EQ(image->flush(), fail(Errc::kDeviceFlush));
}

TEST_F(FailureTest, AFlushAfterAWriteToAConventionalBandHasABarrier) {
  make({.zones = {{8, 16}}, .conventional = {0}});
  auto image = open_or_die();
  const auto one = blocks_of(1, 'x');
  ASSERT_EQ(image->append({BandId{0}, 3}, Piece(one.span())), ok());
  EXPECT_EQ(image->flush(), ok());
  EXPECT_EQ(image->barriers(), 1u);
}

TEST_F(FailureTest, AFlushCostsOneBarrierAndNoneWhenNothingHasChanged) {
  make(uniform(2000, 8));
  auto image = open_or_die();
  EXPECT_EQ(image->flush(), ok());
  EXPECT_EQ(image->barriers(), 0u);
  const auto one = blocks_of(1, 'x');
  for (std::uint32_t band = 0; band < 2000; band += 400) {
    ASSERT_EQ(image->append({BandId{band}, 0}, Piece(one.span())), ok());
  }
  EXPECT_EQ(image->flush(), ok());
  EXPECT_EQ(image->flush(), ok());
  EXPECT_EQ(image->barriers(), 1u);
  ASSERT_EQ(image->reset(BandId{400}), ok());
  EXPECT_EQ(image->flush(), ok());
  EXPECT_EQ(image->barriers(), 2u);
}

}  // namespace
}  // namespace lazyfs::edi
