// Refused options and paths, and damaged or truncated images, with their errors.
#include <sys/resource.h>

#include <algorithm>
#include <iterator>
#include <limits>

#include "edi/copies.h"
#include "edi/format1.h"
#include "fixture.h"
#include "test/support/loop_device.h"

namespace lazyfs::edi {
namespace {

TEST_F(ImageTest, CreateRefusesImpossibleGeometry) {
  const CreateOptions bad[] = {
      {},
      {.zones = {{0, 8}}},
      {.zones = {{8, 0}}},
      {.block_bytes = 1000, .zones = {{8, 8}}},
      {.block_bytes = 256, .zones = {{8, 8}}},
      {.zones = {{kMaxBands, 8}, {1, 8}}},
      {.zones = std::vector<Zone>(kMaxHeaderEntries + 1, {1, 8})},
      {.zones = {{kMaxBands, std::numeric_limits<std::uint32_t>::max()}}},
      {.zones = {{8, 8}}, .conventional = {8}},
      {.zones = {{8, 8}}, .linked = {{5, 8}}},
      {.zones = {{8, 8}}, .linked = {{3, 3}}},
      {.zones = {{8, 8}}, .linked = {{0, 2}, {2, 4}}},
      {.zones = {{8, 8}}, .conventional = {1}, .linked = {{0, 2}}},
      {.format = 0, .zones = {{8, 8}}, .conventional = {1}},
      {.format = 0, .zones = {{8, 8}, {8, 16}}},
  };
  for (const CreateOptions& options : bad) {
    EXPECT_EQ(create(path(), options).error(), Errc::kBadGeometry) << &options - bad;
    EXPECT_FALSE(std::filesystem::exists(path()));
  }
  EXPECT_EQ(create(path(), {.format = 2, .zones = {{8, 8}}}).error(), Errc::kEdiBadVersion);
}

TEST_F(ImageTest, ManyConventionalBandsInARowTakeOneEntryOfTheHeader) {
  CreateOptions options = uniform(2 * kMaxHeaderEntries, 1);
  for (std::uint32_t band = 0; band <= kMaxHeaderEntries; ++band) {
    options.conventional.push_back(band);
  }
  EXPECT_TRUE(image_bytes(options));
}

TEST_F(ImageTest, CreateKeepsAFileWithoutOverwrite) {
  make(uniform(4, 8));
  EXPECT_EQ(create(path(), uniform(4, 8)).error(), Errc::kEdiExists);
  {
    auto image = open_or_die();
    ASSERT_TRUE(image->append({BandId{0}, 0}, blocks_of(1, 'x').span()));
    ASSERT_TRUE(image->flush());
  }
  CreateOptions options = uniform(5, 8);
  options.overwrite = true;
  make(options);
  EXPECT_EQ(open_or_die()->geometry().band_count(), 5u);
  EXPECT_EQ(*open_or_die()->write_pointer(BandId{0}), 0u);
}

TEST_F(ImageTest, CreateMakesASparseFileOfTheExpectedSize) {
  const CreateOptions options = uniform(128, 65536);
  make(options);
  EXPECT_EQ(std::filesystem::file_size(path()), *image_bytes(options));
}

TEST_F(ImageTest, FillTakesAsManyBandsAsFit) {
  const std::uint64_t bytes = 64 << 20;
  const auto options = fill(bytes, 256);
  ASSERT_TRUE(options);
  EXPECT_LE(*image_bytes(*options), bytes);
  CreateOptions more = *options;
  ++more.zones[0].count;
  EXPECT_GT(*image_bytes(more), bytes);
  EXPECT_EQ(fill(1 << 20, 256).error(), Errc::kBadGeometry);
  EXPECT_EQ(fill(*image_bytes(*options), 256)->zones, options->zones) << "exactly as many";
}

TEST_F(ImageTest, OpenReportsAnInvalidPath) {
  EXPECT_EQ(open_error(), Errc::kDeviceMissing);
  EXPECT_EQ(open_image(folder_.path(), {.read_only = true}).error(), Errc::kIsDirectory);
  EXPECT_EQ(open_image("/dev/null").error(), Errc::kNotADisk);
  EXPECT_EQ(create(folder_ / "no" / "such", uniform(4, 8)).error(), Errc::kDeviceMissing);
}

TEST_F(ImageTest, OpenRefusesAFileThatIsNotAnImage) {
  std::ofstream(path()) << "";
  EXPECT_EQ(open_error(), Errc::kEdiBadMagic);
  std::ofstream(path()) << "hello, world";
  EXPECT_EQ(open_error(), Errc::kEdiBadMagic);
}

TEST_F(ImageTest, OpenRefusesAnUnknownVersion) {
  make(uniform(4, 8, 0));
  flip(4, 1);
  EXPECT_EQ(open_error(), Errc::kEdiBadVersion);
  make_again(uniform(4, 8));
  flip(4, 1);
  flip(kHeaderAreaBytes + 4, 1);
  EXPECT_EQ(open_error(), Errc::kEdiBadVersion);
}

TEST_F(ImageTest, OpenSurvivesAFlippedBitInOneHeaderButNotInBoth) {
  make({.zones = {{4, 8}, {2, 16}}, .conventional = {0}, .linked = {{1, 2}}});
  const auto expected = open_or_die()->layout().header;
  for (std::uint64_t at = 0; at < kHeader1Bytes + 8 * 4; ++at) {
    flip(at, at % 8);
    EXPECT_EQ(open_or_die()->layout().header, expected) << at;
    flip(kHeaderAreaBytes + at, at % 8);
    const Errc why = at < 4   ? Errc::kEdiBadMagic
                     : at < 8 ? Errc::kEdiBadVersion
                              : Errc::kEdiBadChecksum;
    EXPECT_EQ(open_error(), why) << at;
    flip(at, at % 8);
    EXPECT_EQ(open_or_die()->layout().header, expected) << at;
    flip(kHeaderAreaBytes + at, at % 8);
  }
}

TEST_F(ImageTest, ADamagedFirstHeaderIsNotTakenForFormat0) {
  make(uniform(4, 8));
  const auto expected = open_or_die()->layout().header;
  flip(4);  // version 1 becomes 0
  EXPECT_EQ(open_or_die()->layout().header, expected);
}

TEST_F(ImageTest, OpenRefusesImpossibleValuesInAFormat0Header) {
  for (const std::uint64_t at : {8u, 12u, 16u}) {
    CreateOptions options = uniform(8, 64, 0);
    options.overwrite = true;
    make(options);
    std::fstream file(path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at));
    file.write("\0\0\0\0", 4);
    file.close();
    EXPECT_EQ(open_error(), Errc::kEdiBadHeader) << at;
  }
}

TEST_F(ImageTest, OpensAnImageOfFormat0ThatIsShorterThanTheHeadersOfFormat1) {
  make(uniform(1, 8, 0));
  ASSERT_LT(std::filesystem::file_size(path()), std::size_t{kHeaderCopies} * kHeaderAreaBytes);
  EXPECT_EQ(open_or_die()->geometry().blocks_of(BandId{0}), 8u);
}

TEST_F(ImageTest, OpenRefusesAFormat0WritePointerPastItsBand) {
  make(uniform(8, 64, 0));
  flip(20, 7);
  EXPECT_EQ(open_error(), Errc::kEdiBadHeader);
}

TEST_F(ImageTest, OpenRefusesATruncatedImage) {
  for (std::uint32_t format : {0u, 1u}) {
    CreateOptions options = uniform(8, 64, format);
    options.overwrite = true;
    for (std::uint64_t length : {*image_bytes(options) - 1, std::uint64_t{12}}) {
      make(options);
      std::filesystem::resize_file(path(), length);
      EXPECT_EQ(open_error(), Errc::kDeviceTruncated) << format << " " << length;
    }
  }
}

void overwrite(const std::string& path, std::uint64_t at, const std::string& bytes) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(at));
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  ASSERT_TRUE(file.good());
}

// What other programs write to the start of a disk by accident.
std::string partition_table() {
  std::string sector(512, '\0');
  sector[446 + 4] = '\x83';
  sector[510] = '\x55';
  sector[511] = '\xAA';
  return sector;
}

TEST_F(ImageTest, OpensFromTheSecondHeaderWhateverHasOverwrittenTheFirst) {
  make({.zones = {{4, 8}, {2, 16}}, .conventional = {0}, .linked = {{1, 2}}});
  const auto expected = open_or_die()->layout().header;
  for (const std::string& accident :
       {std::string(4, '\0'), std::string(4096, '\0'), std::string(65536, '\xFF'),
        partition_table(), std::string(4086, '\0') + "SWAPSPACE2"}) {
    overwrite(path(), 0, accident);
    EXPECT_EQ(open_or_die()->layout().header, expected);
    EXPECT_EQ(damaged_headers(*open_or_die()).size(), 1u);
    EXPECT_EQ(mend_copies(*open_or_die())->size(), 1u);
    EXPECT_EQ(damaged_headers(*open_or_die()).size(), 0u);
  }
}

TEST_F(ImageTest, AnImageWithTwoDamagedHeadersIsStillKnownByTheSecond) {
  make(uniform(4, 8));
  overwrite(path(), 0, std::string(4096, '\0'));
  flip(kHeaderAreaBytes + 48);
  EXPECT_EQ(open_error(), Errc::kEdiBadChecksum);
}

TEST_F(ImageTest, ASecondHeaderCountsOnlyIfItsImageFits) {
  make(uniform(8, 64));
  overwrite(path(), 0, std::string(4096, '\0'));
  std::filesystem::resize_file(path(), std::filesystem::file_size(path()) - 4096);
  EXPECT_EQ(open_error(), Errc::kDeviceTruncated);
}

TEST_F(ImageTest, ASecondHeaderOfAnEarlierImageDoesNotComeBack) {
  const auto loop = LoopDevice::make(8 << 20);
  if (!loop) GTEST_SKIP() << "cannot set up a loop device (requires root)";
  ASSERT_TRUE(create(loop->path(), uniform(4, 64)));
  overwrite(loop->path(), 0, std::string(4096, '\0'));
  EXPECT_EQ(create(loop->path(), uniform(4, 64, 0)).error(), Errc::kEdiExists);
  CreateOptions options = uniform(4, 64, 0);
  options.overwrite = true;
  ASSERT_TRUE(create(loop->path(), options));
  overwrite(loop->path(), 0, std::string(4096, '\0'));
  EXPECT_EQ(edi::open(loop->path(), {.read_only = true}).error(), Errc::kEdiBadMagic);
}

// Returns the maximum resident memory of the process so far.
long peak_kib() {
  struct rusage usage;
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// Runs in a child process, which starts with the memory of this one.
TEST_F(ImageTest, BandsThatOnlyTheHeaderClaimsTakeNoMemory) {
  constexpr long kEnoughKib = 32 << 10;
  auto head = AlignedBuffer::zeroed(std::size_t{kHeaderCopies} * kHeaderAreaBytes);
  const Header header{.zones = {{kMaxBands, 1}}};
  encode_header1(header, head.span().first<kHeaderAreaBytes>());
  encode_header1(header, head.span().last<kHeaderAreaBytes>());
  std::ofstream(path(), std::ios::binary)
      .write(reinterpret_cast<const char*>(head.data()),
             static_cast<std::streamsize>(head.span().size()));
  EXPECT_EXIT(
      {
        const long before = peak_kib();
        const Errc error = open_error();
        const long taken = peak_kib() - before;
        std::fprintf(stderr, "%s, %ld KiB\n", name_of(error).data(), taken);
        std::_Exit(error == Errc::kDeviceTruncated && taken < kEnoughKib ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

using Strings = std::vector<std::string>;

Strings damaged_copies(const Image& image) {
  Strings all = damaged_headers(image);
  std::ranges::move(older_headers(image), std::back_inserter(all));
  std::ranges::move(*damaged_slots(image), std::back_inserter(all));
  return all;
}

TEST_F(ImageTest, ReportsAndRewritesEachDamagedCopy) {
  make({.zones = {{600, 8}}, .conventional = {0}, .linked = {{1, 2}}});
  {
    auto image = open_or_die();
    for (const std::uint32_t band : {3u, 599u}) {
      ASSERT_TRUE(image->append({BandId{band}, 0}, blocks_of(1, 'x').span()));
      ASSERT_TRUE(image->flush());
    }
    EXPECT_EQ(damaged_copies(*image), Strings{});
  }
  const std::uint64_t table = open_or_die()->layout().table_start;
  struct {
    std::uint64_t at;
    std::string_view name;
  } const copies[] = {
      {100 * 8, "Copy 1 of the image's header"},
      {kHeaderAreaBytes + 9, "Copy 2 of the image's header"},
      {table + 40, "Slot 1 of block 0 of"},
      {table + kTableBlockBytes + 40, "Slot 2 of block 0 of"},
      {table + 2 * kTableBlockBytes + 40, "Slot 1 of block 1 of"},
      {table + 3 * kTableBlockBytes + 40, "Slot 2 of block 1 of"},
  };
  for (const auto& copy : copies) {
    SCOPED_TRACE(copy.name);
    flip(copy.at);
    auto image = open_or_die();
    ASSERT_TRUE(image);
    const auto found = damaged_copies(*image);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_TRUE(found.front().starts_with(copy.name)) << found.front();
    EXPECT_EQ(mend_copies(*image)->size(), 1u);
    EXPECT_EQ(damaged_copies(*image), Strings{});
    image.reset();
    EXPECT_EQ(damaged_copies(*open_or_die({.read_only = true})), Strings{});
    EXPECT_EQ(*mend_copies(*open_or_die()), Strings{});
  }
}

TEST_F(ImageTest, TheNextFlushRewritesASlotTornByAPowerCut) {
  make({.zones = {{600, 8}}});
  const std::uint64_t table = open_or_die()->layout().table_start;
  flip(table + 2 * kTableBlockBytes + 40);
  ASSERT_TRUE(open_or_die({.read_only = true})->flush());
  EXPECT_EQ(damaged_slots(*open_or_die({.read_only = true}))->size(), 1u);
  {
    auto image = open_or_die();
    ASSERT_TRUE(image->append({BandId{0}, 0}, blocks_of(1, 'x').span()));  // of another block
    ASSERT_TRUE(image->flush());
  }
  EXPECT_EQ(*damaged_slots(*open_or_die({.read_only = true})), Strings{});
}

class OlderHeaderTest : public ImageTest {
 protected:
  // Returns the header of the second copy.
  Header write_newer_second_header() {
    Header newer = open_or_die()->layout().header;
    ++newer.sequence;
    AlignedBuffer bytes(kHeaderAreaBytes);
    encode_header1(newer, bytes.span().first<kHeaderAreaBytes>());
    std::fstream file(path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(kHeaderAreaBytes);
    file.write(reinterpret_cast<const char*>(bytes.data()), kHeaderAreaBytes);
    return newer;
  }
};

TEST_F(OlderHeaderTest, IsReportedAndRewritten) {
  make({.zones = {{8, 8}}});
  const Header newer = write_newer_second_header();
  EXPECT_EQ(damaged_copies(*open_or_die()),
            Strings{"Copy 1 of the image's header is not the newest."});
  EXPECT_EQ(mend_copies(*open_or_die())->size(), 1u);
  EXPECT_EQ(damaged_copies(*open_or_die()), Strings{});
  EXPECT_EQ(open_or_die()->layout().header, newer);
}

TEST_F(OlderHeaderTest, ADamagedOneIsLeftToFsck) {
  make({.zones = {{8, 8}}});
  flip(48);
  EXPECT_TRUE(open(path()));
  EXPECT_EQ(damaged_headers(*open_or_die()).size(), 1u);
}

TEST_F(OlderHeaderTest, IsRewrittenWhenTheDeviceIsOpenedForWriting) {
  make({.zones = {{8, 8}}});
  write_newer_second_header();
  EXPECT_TRUE(open(path(), {.read_only = true}));
  EXPECT_EQ(older_headers(*open_or_die()).size(), 1u);
  EXPECT_TRUE(open(path()));
  EXPECT_EQ(older_headers(*open_or_die()).size(), 0u);
}

}  // namespace
}  // namespace lazyfs::edi
