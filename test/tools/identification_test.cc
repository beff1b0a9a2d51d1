// How other programs recognise a volume: lazyfs-id, libblkid's probe, file(1).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "base/buffer.h"
#include "edi/create.h"
#include "edi/image.h"
#include "meta/log/superblock_format.h"
#include "plain/identity_format.h"
#include "test/support/seed.h"
#include "test/support/test_folder.h"
#include "tools/uuid.h"
#include "tools/volume_id.h"

extern "C" {
#include "test/tools/libblkid_stub/superblocks.h"
extern const blkid_idinfo lazyfs_idinfo;
}

namespace lazyfs {
namespace {

constexpr std::uint64_t kBytes = (std::uint64_t{16} << 20) + 12288;
constexpr std::string_view kUuid = "00112233-4455-6677-8899-aabbccddeeff";

plain::Identity sample() {
  plain::Identity identity{.label = "archive 2", .volume_bytes = kBytes, .band_bytes = 65536,
                           .band_count = 200, .super_bands = {BandId{0}, BandId{199}},
                           .created_seconds = 5, .generation = 1};
  identity.uuid = *parse_uuid(kUuid);
  return identity;
}

class IdentificationTest : public ::testing::Test {
 protected:
  std::string path() const { return folder_ / "disk"; }
  void make_plain(const plain::Identity& identity) {
    std::ofstream(path(), std::ios::trunc).close();
    std::filesystem::resize_file(path(), kBytes);
    AlignedBuffer block(kBlockBytes);
    plain::encode(identity, block.span().first<kBlockBytes>());
    put(plain::kIdentityAt, block.span());
    put(plain::copy_at(kBytes), block.span());
  }
  void put(std::uint64_t at, std::span<const std::byte> bytes) {
    overwrite_file(path(), at, bytes);
  }
  std::string properties() {
    const auto id = identify(path());
    return id ? udev_properties(*id) : std::string(name_of(id.error()));
  }
  // As libblkid does it: the magic first, then the probe.
  bool probe(const std::string& bytes, stub_probe& out) {
    out = {.bytes = reinterpret_cast<const unsigned char*>(bytes.data()), .size = bytes.size()};
    const blkid_idmag& magic = lazyfs_idinfo.magics[0];
    const auto at = static_cast<std::size_t>(magic.kboff) * 1024 + magic.sboff;
    return bytes.size() >= lazyfs_idinfo.minsz &&
           std::memcmp(bytes.data() + at, magic.magic, magic.len) == 0 &&
           lazyfs_idinfo.probefunc(&out, &magic) == BLKID_PROBE_OK;
  }
  std::string contents() {
    std::ifstream file(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::string file_says() {
    const std::string command =
        "file -b -m " LAZYFS_SOURCE "/contrib/file/lazyfs.magic '" + path() + "'";
    FILE* pipe = popen(command.c_str(), "r");
    char line[1000] = "";
    if (pipe && !std::fgets(line, sizeof line, pipe)) line[0] = '\0';
    if (pipe) pclose(pipe);
    return line;
  }

  const TestFolder folder_;
};

TEST_F(IdentificationTest, PrintsWhatUdevImports) {
  make_plain(sample());
  EXPECT_EQ(properties(),
            "ID_FS_TYPE=lazyfs\nID_FS_USAGE=filesystem\nID_FS_VERSION=1\n"
            "ID_FS_UUID=00112233-4455-6677-8899-aabbccddeeff\n"
            "ID_FS_UUID_ENC=00112233-4455-6677-8899-aabbccddeeff\n"
            "ID_FS_LABEL=archive_2\nID_FS_LABEL_ENC=archive\\x202\n");
}

TEST_F(IdentificationTest, TheCopyIsUsedWhenTheFirstBlockIsLost) {
  make_plain(sample());
  const std::string whole = properties();
  put(plain::kIdentityAt, AlignedBuffer::zeroed(8).span());
  EXPECT_EQ(properties(), whole);
  put(plain::copy_at(kBytes) + 100, std::array{std::byte{0xFF}});
  EXPECT_EQ(properties(), "kIdentityMissing");
}

TEST_F(IdentificationTest, ALabelCannotAddOrEndLines) {
  plain::Identity identity = sample();
  identity.label = "a\nID_FS_TYPE=ext4\r\"$(reboot)`x`;'\\\xFF/../%";
  make_plain(identity);
  const std::string text = properties();
  EXPECT_EQ(std::ranges::count(text, '\n'), 7) << text;
  EXPECT_FALSE(text.contains("\nID_FS_TYPE=ext4")) << text;
  const std::string encoded = text.substr(text.find("LABEL_ENC="));
  for (const char c : {'$', '`', '"', '\'', '/', ' ', ';', '\r', '%'}) {
    EXPECT_FALSE(encoded.contains(c)) << encoded;
  }
  identity.label.assign(63, '\n');
  make_plain(identity);
  EXPECT_TRUE(properties().ends_with("\\x0a\n"));
  identity.label.clear();
  make_plain(identity);
  EXPECT_FALSE(properties().contains("LABEL"));
}

TEST_F(IdentificationTest, ImagesAreRecognised) {
  ASSERT_TRUE(edi::create(path(), *edi::fill(8 << 20, 16)));
  EXPECT_EQ(properties(), "kIdentityMissing");  // no filesystem yet
  meta::Superblock superblock{.uuid = {1}, .label = "image", .sequence = 1,
                              .log_bands = {BandId{2}}};
  superblock.new_uuid = *parse_uuid(kUuid);
  {
    const auto image = edi::open_image(path());
    superblock.band_count = (*image)->geometry().band_count();
    AlignedBuffer block(kBlockBytes);
    meta::encode(superblock, block.span().first<kBlockBytes>());
    ASSERT_TRUE((*image)->append({BandId{1}, 0}, block.span()));
    ASSERT_TRUE((*image)->flush());
  }
  EXPECT_EQ(properties(),
            "ID_FS_TYPE=lazyfs\nID_FS_USAGE=filesystem\nID_FS_VERSION=edi1\n"
            "ID_FS_UUID=00112233-4455-6677-8899-aabbccddeeff\n"
            "ID_FS_UUID_ENC=00112233-4455-6677-8899-aabbccddeeff\n"
            "ID_FS_LABEL=image\nID_FS_LABEL_ENC=image\n");
}

TEST_F(IdentificationTest, OtherFilesAreNot) {
  EXPECT_EQ(properties(), "kDeviceMissing");
  std::ofstream(path()) << "hello";
  EXPECT_EQ(properties(), "kIdentityMissing");
  EXPECT_EQ(identify(folder_.path()).error(), Errc::kIdentityMissing);
  EXPECT_EQ(identify("/dev/null").error(), Errc::kIdentityMissing);
}

TEST_F(IdentificationTest, ChangedBytesNeverPassForAVolumeAndDoNoHarm) {
  SCOPED_TRACE(seed_trace());
  std::mt19937_64 random(test_seed());
  make_plain(sample());
  const std::string whole = properties();
  AlignedBuffer block(kBlockBytes);
  plain::encode(sample(), block.span().first<kBlockBytes>());
  put(plain::copy_at(kBytes), AlignedBuffer::zeroed(kBlockBytes).span());
  std::string bytes = contents();
  stub_probe out;
  EXPECT_TRUE(probe(bytes, out));
  for (int i = 0; i < 300; ++i) {
    const std::size_t at = random() % (i % 2 == 0 ? 200 : kBlockBytes);
    const auto changed = block.span()[at] ^ static_cast<std::byte>(1 + random() % 255);
    put(plain::kIdentityAt + at, std::array{changed});
    EXPECT_EQ(properties(), "kIdentityMissing") << at;
    bytes[plain::kIdentityAt + at] = static_cast<char>(changed);
    EXPECT_FALSE(probe(bytes, out)) << at;
    bytes[plain::kIdentityAt + at] = static_cast<char>(block.span()[at]);
    put(plain::kIdentityAt + at, std::array{block.span()[at]});
  }
  EXPECT_EQ(properties(), whole);
}

TEST_F(IdentificationTest, LibblkidsProbeAgrees) {
  make_plain(sample());
  stub_probe out;
  ASSERT_TRUE(probe(contents(), out));
  EXPECT_STREQ(lazyfs_idinfo.name, "lazyfs");
  EXPECT_EQ(lazyfs_idinfo.usage, BLKID_USAGE_FILESYSTEM);
  EXPECT_TRUE(std::ranges::equal(out.uuid, sample().uuid));
  EXPECT_STREQ(out.label, "archive 2");
  EXPECT_STREQ(out.version, identify(path())->version.c_str());
  EXPECT_EQ(out.fssize, kBytes);
  EXPECT_EQ(out.fsblocksize, kBlockBytes);
  EXPECT_EQ(out.block_size, kBlockBytes);
  EXPECT_FALSE(probe(contents().substr(0, 65536 + 2000), out));
  EXPECT_FALSE(probe(std::string(kBytes, '\0'), out));
}

TEST_F(IdentificationTest, FileKnowsVolumesAndImages) {
  if (std::system("file --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "no file(1)";
  make_plain(sample());
  EXPECT_EQ(file_says(),
            "lazyfs filesystem, label \"archive 2\", UUID 00112233-4455-6677-8899-aabbccddeeff, " +
                std::to_string(kBytes) + " bytes, 200 bands of 65536 bytes\n");
  plain::Identity unnamed = sample();
  unnamed.label.clear();
  make_plain(unnamed);
  EXPECT_TRUE(file_says().starts_with("lazyfs filesystem, UUID 0011")) << file_says();
  for (const std::uint32_t format : {0u, 1u}) {
    ASSERT_TRUE(edi::create(path(), {.format = format, .zones = {{50, 16}}, .overwrite = true}));
    const std::string end = format == 0 ? " of 16 blocks\n" : "\n";
    EXPECT_EQ(file_says(), "Emulated Disk Image, format " + std::to_string(format) +
                               ", 50 bands" + end);
  }
  put(0, AlignedBuffer::zeroed(4096).span());
  EXPECT_EQ(file_says(), "Emulated Disk Image (its first header is lost)\n");
}

}  // namespace
}  // namespace lazyfs
