// A plain device beyond the contract: its identification blocks, and what it does not write.
#include "plain/plain_device.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <utility>

#include "base/before_wait.h"
#include "base/buffer.h"
#include "test/plain/plain_file.h"
#include "test/support/file_size_limit.h"
#include "test/support/result_printer.h"
#include "test/support/units.h"

namespace lazyfs::plain {
namespace {

constexpr std::uint64_t kVolumeBytes = 18 * kMiB + 4096;
constexpr std::uint64_t kCopyAt = 17 * kMiB + 65536;

class PlainDeviceTest : public testing::Test {
 protected:
  PlainDeviceTest() {
    identity_ = *plan_volume(kVolumeBytes, kMiB);
    identity_.label = "attic";
    identity_.uuid[3] = 9;
    file_.overwrite(0, 4096, 'x');
    file_.overwrite(18 * kMiB, 4096, 'x');
    EXPECT_EQ(create(file_.path(), identity_), ok());
  }
  Errc open_error(OpenOptions options = {}) {
    const auto opened = open(file_.path(), options);
    return opened ? Errc::kInternal : opened.error();
  }
  void rewrite(const Identity& identity) {
    const auto backing =
        device::Backing::open(file_.path(), false, device::Backing::Claim::kNone);
    ASSERT_EQ(write_identity(*backing, identity), ok());
  }

  PlainFile file_{kVolumeBytes};
  Identity identity_;
};

TEST_F(PlainDeviceTest, PutsTheBandsBetweenTheFirstAndTheLastMiB) {
  const auto device = *open(file_.path());
  EXPECT_EQ(device->identity(), identity_);
  EXPECT_EQ(device->geometry().band_count(), 16u);
  EXPECT_EQ(device->geometry().blocks_of(BandId{15}), 256u);
  EXPECT_EQ(device->geometry().super_bands, (std::array{BandId{0}, BandId{15}}));
  EXPECT_EQ(device->band_at(BandId{0}), kMiB);
  EXPECT_EQ(device->band_at(BandId{15}), 16 * kMiB);
  EXPECT_FALSE(device->capabilities().keeps_write_pointers);
  EXPECT_FALSE(device->capabilities().set_write_pointer);
}

TEST_F(PlainDeviceTest, CreatingWipesWhatOthersLeftAtBothEnds) {
  EXPECT_EQ(file_.bytes(0, 4096), std::string(4096, '\0'));
  EXPECT_EQ(file_.bytes(18 * kMiB, 4096), std::string(4096, '\0'));
  PlainFile larger(kVolumeBytes + 5 * kMiB);
  for (std::uint64_t mib = 16; mib < 20; ++mib) larger.overwrite(mib * kMiB, kMiB, 'x');
  ASSERT_EQ(create(larger.path(), identity_), ok());
  EXPECT_EQ(larger.bytes(16 * kMiB, kMiB), std::string(kMiB, 'x')) << "of the last band";
  EXPECT_EQ(larger.bytes(17 * kMiB, 65536), std::string(65536, '\0'));
  EXPECT_EQ(larger.bytes(kCopyAt + 4096, 2 * kMiB - 65536 - 4096),
            std::string(2 * kMiB - 65536 - 4096, '\0'));
  EXPECT_EQ(larger.bytes(19 * kMiB, kMiB), std::string(kMiB, 'x')) << "past the volume";
}

TEST_F(PlainDeviceTest, WritesNothingButWhatIsAppended) {
  const std::string first = file_.bytes(0, kMiB), last = file_.bytes(17 * kMiB, kMiB + 4096);
  {
    const auto device = *open(file_.path());
    AlignedBuffer band(kMiB);
    std::ranges::fill(band.span(), std::byte{'b'});
    for (const BandId id : {BandId{0}, BandId{15}}) {
      ASSERT_EQ(device->reset(id), ok());
      ASSERT_EQ(device->append({id, 0}, device::Piece(band.span())), ok());
    }
    ASSERT_EQ(device->reset(BandId{0}), ok());
    ASSERT_EQ(device->flush(), ok());
  }
  EXPECT_EQ(file_.bytes(0, kMiB), first);
  EXPECT_EQ(file_.bytes(17 * kMiB, kMiB + 4096), last);
  EXPECT_EQ(file_.bytes(kMiB, kMiB), std::string(kMiB, 'b'));
  EXPECT_EQ(file_.bytes(16 * kMiB, kMiB), std::string(kMiB, 'b'));
}

TEST_F(PlainDeviceTest, FindsTheCopyWhenTheFirstBlockIsLost) {
  EXPECT_TRUE((*open(file_.path()))->found().first_is_good);
  EXPECT_TRUE((*open(file_.path()))->found().copy_is_current);
  for (const std::size_t length : {4, 4096}) {
    file_.overwrite(kIdentityAt, length, '?');
    const auto device = open(file_.path());
    ASSERT_TRUE(device);
    EXPECT_EQ((*device)->identity(), identity_);
    EXPECT_FALSE((*device)->found().first_is_good);
  }
  file_.overwrite(kCopyAt, 4);
  EXPECT_EQ(open_error(), Errc::kIdentityMissing);
  rewrite(identity_);
  file_.overwrite(kIdentityAt + 100, 1, '?');
  file_.overwrite(kCopyAt + 100, 1, '?');
  EXPECT_EQ(open_error(), Errc::kIdentityBad);
  file_.overwrite(kIdentityAt, 4);
  EXPECT_EQ(open_error(), Errc::kIdentityBad) << "of the copy";
}

TEST_F(PlainDeviceTest, NoticesACopyThatIsNotCurrent) {
  file_.overwrite(kCopyAt, 4096);
  EXPECT_FALSE((*open(file_.path()))->found().copy_is_current);
  rewrite(identity_);
  const std::string old = file_.bytes(kIdentityAt, 4096);
  Identity next = identity_;
  ++next.generation;
  rewrite(next);
  EXPECT_TRUE((*open(file_.path()))->found().copy_is_current);
  std::fstream(file_.path(), std::ios::in | std::ios::out | std::ios::binary)
      .seekp(kIdentityAt)
      .write(old.data(), 4096);  // as after a power cut between the two writes
  const auto device = *open(file_.path());
  EXPECT_EQ(device->identity(), identity_);
  EXPECT_FALSE(device->found().copy_is_current);
}

TEST_F(PlainDeviceTest, ACopyOfAVolumeOfAnotherSizeIsNone) {
  Identity smaller = *plan_volume(17 * kMiB, kMiB);
  const auto backing = *device::Backing::open(file_.path(), false, device::Backing::Claim::kNone);
  AlignedBuffer block(kBlockBytes);
  encode(smaller, block.span().first<kBlockBytes>());
  ASSERT_EQ(backing.write(kCopyAt, block.span()), ok());
  file_.overwrite(kIdentityAt, 4096);
  EXPECT_EQ(open_error(), Errc::kIdentityMissing);
}

TEST_F(PlainDeviceTest, RefusesFeaturesThatItDoesNotKnow) {
  Identity identity = identity_;
  identity.compat = 0x80000000;
  rewrite(identity);
  EXPECT_TRUE(open(file_.path()));
  identity.ro_compat = 0x80000000;
  rewrite(identity);
  EXPECT_EQ(open_error(), Errc::kIdentityReadOnly);
  EXPECT_TRUE(open(file_.path(), {.read_only = true}));
  identity.incompat = 0x80000000;
  rewrite(identity);
  EXPECT_EQ(open_error(), Errc::kIdentityFeatures);
  EXPECT_EQ(open_error({.read_only = true}), Errc::kIdentityFeatures);
}

TEST_F(PlainDeviceTest, RefusesADeviceThatIsShorterThanTheVolume) {
  std::filesystem::resize_file(file_.path(), kVolumeBytes - 4096);
  EXPECT_EQ(open_error(), Errc::kDeviceTruncated);
  EXPECT_EQ(create(file_.path(), identity_), fail(Errc::kDeviceTruncated));
  std::filesystem::resize_file(file_.path(), kVolumeBytes + 5 * kMiB);
  EXPECT_TRUE(open(file_.path())) << "a larger one is no trouble";
}

// A device on which every band but the first is written, and that band is reset.
std::unique_ptr<PlainDevice> written_device(const std::string& path) {
  auto device = *open(path);
  AlignedBuffer band(kMiB);
  std::ranges::fill(band.span(), std::byte{'b'});
  for (std::uint32_t i = 0; i < device->geometry().band_count(); ++i) {
    EXPECT_EQ(device->reset(BandId{i}), ok());
    EXPECT_EQ(device->append({BandId{i}, 0}, device::Piece(band.span())), ok());
  }
  EXPECT_EQ(device->flush(), ok());
  EXPECT_EQ(device->reset(BandId{0}), ok());
  return device;
}

TEST_F(PlainDeviceTest, ADiscardFreesTheSpaceOfTheBandAlone) {
  const auto device = written_device(file_.path());
  const std::uint64_t before = file_.allocated_bytes();
  EXPECT_EQ(device->discard(BandId{0}), kMiB);
  EXPECT_LE(file_.allocated_bytes(), before - kMiB + 64 * 1024);
  EXPECT_EQ(file_.bytes(kMiB, kMiB), std::string(kMiB, '\0'));
  EXPECT_EQ(file_.bytes(2 * kMiB, kMiB), std::string(kMiB, 'b'));
  EXPECT_EQ(file_.bytes(kIdentityAt, 4096), file_.bytes(kCopyAt, 4096));
}

TEST(PlainDeviceOnLoopTest, ADiscardReachesABlockDevice) {
  const auto loop = LoopDevice::make(kVolumeBytes);
  if (!loop) GTEST_SKIP() << "this machine has no loop device for the test";
  ASSERT_EQ(create(loop->path(), *plan_volume(kVolumeBytes, kMiB)), ok());
  const auto device = written_device(loop->path());
  const std::uint64_t before = loop->allocated_bytes();
  EXPECT_EQ(device->discard(BandId{0}), kMiB);
  EXPECT_LE(loop->allocated_bytes(), before - kMiB + 64 * 1024);
  AlignedBuffer other(kMiB);
  ASSERT_EQ(device->read({BandId{1}, 0}, other.span()), ok());
  EXPECT_TRUE(std::ranges::all_of(other.span(), [](auto byte) { return byte == std::byte{'b'}; }));
}

// The next append calls `action` when it is about to write.
class DuringAppend {
 public:
  explicit DuringAppend(std::function<void()> action) : action_(std::move(action)) {}

 private:
  std::function<void()> action_;
  const std::function<void()> once_ = [this] {
    if (const auto action = std::exchange(action_, nullptr)) action();
  };
  const BeforeWait before_wait_{once_};
};

TEST_F(PlainDeviceTest, ABandThatIsBeingWrittenIsNotDiscarded) {
  const auto device = *open(file_.path());
  ASSERT_EQ(device->reset(BandId{0}), ok());
  const AlignedBuffer block = AlignedBuffer::zeroed(kBlockBytes);
  DuringAppend discard([&] { EXPECT_EQ(device->discard(BandId{0}), 0u); });
  EXPECT_EQ(device->append({BandId{0}, 0}, device::Piece(block.span())), ok());
  EXPECT_EQ(device->write_pointer(BandId{0}), 1u);
}

TEST_F(PlainDeviceTest, ABandTakesOneAppendAtATime) {
  const auto device = *open(file_.path());
  ASSERT_EQ(device->reset(BandId{0}), ok());
  const AlignedBuffer block = AlignedBuffer::zeroed(kBlockBytes);
  const auto append = [&](std::uint32_t rba) {
    return device->append({BandId{0}, rba}, device::Piece(block.span()));
  };
  {
    DuringAppend another([&] { EXPECT_EQ(append(0), fail(Errc::kNotAtWritePointer)); });
    EXPECT_EQ(append(0), ok());
  }
  EXPECT_EQ(append(1), ok());
}

TEST_F(PlainDeviceTest, AnAppendThatAResetHasOvertakenCountsForNothing) {
  const auto device = *open(file_.path());
  ASSERT_EQ(device->reset(BandId{0}), ok());
  const AlignedBuffer block = AlignedBuffer::zeroed(kBlockBytes);
  {
    DuringAppend reset([&] { EXPECT_EQ(device->reset(BandId{0}), ok()); });
    EXPECT_EQ(device->append({BandId{0}, 0}, device::Piece(block.span())),
              fail(Errc::kNotAtWritePointer));
  }
  EXPECT_EQ(device->write_pointer(BandId{0}), 0u);
  EXPECT_EQ(device->append({BandId{0}, 0}, device::Piece(block.span())), ok());
}

TEST_F(PlainDeviceTest, ABandWhoseAppendFailedRefusesAppendsUntilItsReset) {
  const auto device = *open(file_.path());
  ASSERT_EQ(device->reset(BandId{0}), ok());
  AlignedBuffer blocks = AlignedBuffer::zeroed(4 * kBlockBytes);
  const device::Piece piece(blocks.span());
  {
    const FileSizeLimit limit(device->band_at(BandId{0}) + 3 * kBlockBytes);
    EXPECT_EQ(device->append({BandId{0}, 0}, piece), fail(Errc::kDeviceNoSpace));
  }
  EXPECT_EQ(device->write_pointer(BandId{0}), 3u);
  EXPECT_EQ(device->append({BandId{0}, 3}, piece), fail(Errc::kBandFailed));
  EXPECT_EQ(device->read({BandId{0}, 0}, blocks.span().first(3 * kBlockBytes)), ok());
  ASSERT_EQ(device->reset(BandId{0}), ok());
  EXPECT_EQ(device->append({BandId{0}, 0}, piece), ok());
}

TEST_F(PlainDeviceTest, AfterAFailedBarrierEveryFlushFails) {
  const auto device = *open(file_.path());
  ASSERT_EQ(device->reset(BandId{0}), ok());
  const AlignedBuffer block = AlignedBuffer::zeroed(kBlockBytes);
  ASSERT_EQ(device->append({BandId{0}, 0}, device::Piece(block.span())), ok());
  const int descriptor = device->backing().descriptor();
  const int real = ::dup(descriptor), null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  ASSERT_GE(::dup2(null, descriptor), 0);  // it cannot be synced
  EXPECT_EQ(device->flush(), fail(Errc::kDeviceFlush));
  ASSERT_GE(::dup2(real, descriptor), 0);  // the next fdatasync(2) would succeed
  for (const int fd : {real, null}) ::close(fd);
  EXPECT_EQ(device->flush(), fail(Errc::kDeviceFlush));
  EXPECT_EQ(device->append({BandId{0}, 1}, device::Piece(block.span())), ok());
  EXPECT_EQ(device->flush(), fail(Errc::kDeviceFlush));
}

TEST_F(PlainDeviceTest, ClaimsTheDevice) {
  const auto device = *open(file_.path());
  EXPECT_EQ(open_error(), Errc::kDeviceBusy);
  EXPECT_TRUE(open(file_.path(), {.read_only = true, .exclusive = false}));
}

TEST_F(PlainDeviceTest, PlansOnlyVolumesThatCanBe) {
  EXPECT_EQ(plan_volume(2 * kMiB, kMiB), fail(Errc::kBadGeometry));
  EXPECT_EQ(plan_volume(3 * kMiB, kMiB), fail(Errc::kBadGeometry)) << "one band only";
  EXPECT_EQ(plan_volume(100 * kMiB, 0), fail(Errc::kBadGeometry));
  EXPECT_EQ(plan_volume(100 * kMiB, 1000), fail(Errc::kBadGeometry));
  EXPECT_EQ(plan_volume(4 * kMiB, kMiB)->band_count, 2u);
  EXPECT_EQ(plan_volume(std::uint64_t{kMaxBands} * 8192, 4096)->band_count, kMaxBands);
}

}  // namespace
}  // namespace lazyfs::plain
