// Accidents at the start of a volume, block by block: whatever other programs write into the first
// MiB, the files are readable, or readable after a repair, and mkfs recognises the volume.
#include <gtest/gtest.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/buffer.h"
#include "base/log.h"
#include "disk/open.h"
#include "edi/create.h"
#include "fs/volume/volume.h"
#include "mkfs/mkfs.h"
#include "plain/create.h"
#include "test/support/test_folder.h"
#include "tools/contents.h"

namespace lazyfs {
namespace {

constexpr std::uint64_t kMib = 1 << 20;
constexpr std::uint64_t kBytes = 64 * kMib;
constexpr std::uint32_t kBandBlocks = 256;  // 1 MiB

enum class Layout { kPlain, kImage };

class AccidentsTest : public ::testing::TestWithParam<Layout> {
 protected:
  AccidentsTest() {
    log::set_level(log::Level::kError);
    make();
    fd_ = ::open(path().c_str(), O_RDWR | O_CLOEXEC);
  }
  ~AccidentsTest() override {
    ::close(fd_);
    log::set_level(log::Level::kInfo);
  }

  std::string path() const { return folder_ / "disk"; }

  void make() {
    mkfs::Options options{.label = "x", .uuid = {1, 2, 3}};
    if (GetParam() == Layout::kImage) {
      ASSERT_TRUE(edi::create(path(), *edi::fill(kBytes, kBandBlocks)));
    } else {
      const int fd = ::open(path().c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
      ASSERT_EQ(::ftruncate(fd, kBytes), 0);
      ::close(fd);
      auto identity = *plain::plan_volume(kBytes, kBandBlocks * kBlockBytes);
      identity.uuid = options.uuid;
      identity.label = options.label;
      ASSERT_TRUE(plain::create(path(), identity));
    }
    const auto device = *disk::open(path());
    ASSERT_TRUE(mkfs::make_filesystem(*device, options));
    const auto volume = *fs::Volume::mount(*device, {.background = false});
    for (int i = 0; i < kFiles; ++i) {
      const auto file = *volume->create(fs::kRootInode, std::to_string(i), 0100644, {});
      ASSERT_TRUE(volume->write(file.attributes.inode, 0, contents(i)));
      volume->release(file.file);
      volume->forget(file.attributes.inode, 1);
    }
    ASSERT_TRUE(volume->unmount());
  }
  static std::vector<std::byte> contents(int i) {
    return std::vector<std::byte>(1 + 9000u * static_cast<unsigned>(i), std::byte('a' + i));
  }

  AlignedBuffer block_at(std::uint64_t at) {
    AlignedBuffer block(kBlockBytes);
    EXPECT_EQ(::pread(fd_, block.data(), kBlockBytes, static_cast<off_t>(at)), kBlockBytes);
    return block;
  }
  void put(std::uint64_t at, std::span<const std::byte> bytes) {
    ASSERT_EQ(::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(at)),
              static_cast<ssize_t>(bytes.size()));
  }

  // Whether a mount for reading shows all files.
  bool is_readable() {
    const auto device = disk::open(path(), {.read_only = true});
    if (!device) return false;
    const auto volume = fs::Volume::mount(**device, {.read_only = true, .background = false});
    if (!volume) return false;
    for (int i = 0; i < kFiles; ++i) {
      const auto found = (*volume)->lookup(fs::kRootInode, std::to_string(i));
      if (!found) return false;
      const auto expected = contents(i);
      std::vector<std::byte> got(expected.size() + 1);
      const auto length = (*volume)->read(found->inode, 0, got);
      if (!length || *length != expected.size()) return false;
      if (!std::ranges::equal(expected, std::span(got).first(*length))) return false;
    }
    return true;
  }

  static constexpr int kFiles = 4;
  const TestFolder folder_;
  int fd_ = -1;
};

AlignedBuffer partition_table() {
  auto block = AlignedBuffer::zeroed(kBlockBytes);
  const auto bytes = block.span();
  std::ranges::fill(bytes.first(440), std::byte{0xEB});  // code
  bytes[446 + 4] = std::byte{0x83};
  bytes[446 + 8] = std::byte{8};
  bytes[446 + 13] = std::byte{1};
  bytes[510] = std::byte{0x55};
  bytes[511] = std::byte{0xAA};
  return block;
}

TEST_P(AccidentsTest, AnyBlockOfTheFirstMiBMayBeLost) {
  const auto zeros = AlignedBuffer::zeroed(kBlockBytes), table = partition_table();
  for (std::uint64_t at = 0; at < kMib; at += kBlockBytes) {
    const AlignedBuffer before = block_at(at);
    for (const AlignedBuffer* accident : {&zeros, &table}) {
      const std::size_t length = accident == &zeros ? kBlockBytes : 512;
      if (std::ranges::equal(before.span().first(length), accident->span().first(length))) {
        continue;
      }
      put(at, accident->span().first(length));
      EXPECT_TRUE(is_readable()) << at;
      EXPECT_TRUE(find_contents(path())) << at;
      put(at, before.span());
    }
  }
  EXPECT_TRUE(is_readable());
}

TEST_P(AccidentsTest, TheWholeFirstMiBMayBeLostOnAPlainDevice) {
  if (GetParam() == Layout::kImage) GTEST_SKIP() << "both headers of an image lie there";
  put(0, AlignedBuffer::zeroed(kMib).span());
  EXPECT_TRUE(is_readable());
  EXPECT_TRUE(find_contents(path()));
}

TEST(AccidentsTextTest, NoErrorAdvisesMkfs) {
  for (int i = 0; i <= static_cast<int>(Errc::kInternal); ++i) {
    const auto error = static_cast<Errc>(i);
    EXPECT_FALSE(describe(error).contains("mkfs")) << name_of(error);
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, AccidentsTest, ::testing::Values(Layout::kPlain, Layout::kImage),
                         [](const auto& given) {
                           return given.param == Layout::kPlain ? "plain" : "image";
                         });

}  // namespace
}  // namespace lazyfs
