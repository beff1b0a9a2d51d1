// The promise of docs/format.md: volumes that an earlier version has made are read and written for
// ever. Each volume in this directory is opened, compared with its listing, and changed.
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "edi/image.h"
#include "plain/plain_device.h"
#include "test/corpus/listing.h"
#include "test/fsck/expect_clean.h"
#include "test/support/test_folder.h"

namespace lazyfs::corpus {
namespace {

using fs::kRootInode;

namespace stdfs = std::filesystem;

constexpr std::string_view kSuffix = ".xz";

std::vector<std::string> volumes() {
  std::vector<std::string> names;
  for (const auto& entry : stdfs::directory_iterator(LAZYFS_SOURCE_DIR "/test/corpus")) {
    const std::string name = entry.path().filename();
    if (name.ends_with(kSuffix)) names.push_back(name.substr(0, name.size() - kSuffix.size()));
  }
  std::ranges::sort(names);
  return names;
}

class CorpusTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const std::string unpack = fmt::format("xz -dc '{}/{}{}' > '{}'", kDirectory, GetParam(),
                                           kSuffix, volume_file());
    ASSERT_EQ(std::system(unpack.c_str()), 0) << unpack;
  }

  std::string volume_file() const { return folder_ / "volume"; }
  Result<std::unique_ptr<device::Device>> open(device::OpenOptions options) const {
    if (GetParam().ends_with(".plain")) return plain::open(volume_file(), options);
    return edi::open(volume_file(), options);
  }
  static std::string expected() {
    std::ifstream in(fmt::format("{}/{}.txt", kDirectory, GetParam()));
    EXPECT_TRUE(in);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
  }
  void expect_contents(fs::Volume& volume) {
    const auto contents = list_contents(volume);
    ASSERT_TRUE(contents) << describe(contents.error());
    EXPECT_EQ(*contents, expected());
  }

  static constexpr std::string_view kDirectory = LAZYFS_SOURCE_DIR "/test/corpus";
  const TestFolder folder_;
};

TEST_P(CorpusTest, IsReadWithoutAChange) {
  const auto device = open({.read_only = true});
  ASSERT_TRUE(device) << describe(device.error());
  const auto store = meta::Store::open(**device, {.background = false, .read_only = true});
  ASSERT_TRUE(store) << describe(store.error());
  const auto print = [](const std::string& problem) { ADD_FAILURE() << problem; };
  ASSERT_TRUE(fsck::check(**store, **device, {.data = true}, print));
  const auto volume = fs::Volume::mount(**device, {.read_only = true, .background = false});
  ASSERT_TRUE(volume) << describe(volume.error());
  expect_contents(**volume);
  EXPECT_TRUE((*volume)->unmount());
}

TEST_P(CorpusTest, IsWrittenAndReadAgain) {
  const auto device = open({});
  ASSERT_TRUE(device) << describe(device.error());
  const auto mount = [&] {
    auto volume = fs::Volume::mount(**device, {.background = false});
    EXPECT_TRUE(volume) << describe(volume.error());
    return volume ? std::move(*volume) : nullptr;
  };
  auto volume = mount();
  ASSERT_TRUE(volume);
  expect_contents(*volume);
  const auto made = volume->make_directory(kRootInode, "a new one", 0755, {});
  ASSERT_TRUE(made) << describe(made.error());
  EXPECT_TRUE(volume->unmount());
  volume.reset();
  fsck::expect_clean(**device);
  volume = mount();
  ASSERT_TRUE(volume);
  EXPECT_TRUE(volume->remove_directory(kRootInode, "a new one"));
  const auto contents = list_contents(*volume);
  ASSERT_TRUE(contents);
  const auto without_root = [](const std::string& text) { return text.substr(text.find('\n')); };
  EXPECT_EQ(without_root(*contents), without_root(expected()));  // the root's mtime has changed
  EXPECT_TRUE(volume->unmount());
}

INSTANTIATE_TEST_SUITE_P(, CorpusTest, testing::ValuesIn(volumes()),
                         [](const auto& volume) {
                           std::string name = volume.param;
                           std::ranges::replace(name, '.', '_');
                           return name;
                         });

TEST(CorpusFilesTest, AreThere) { EXPECT_GE(volumes().size(), 12u); }

}  // namespace
}  // namespace lazyfs::corpus
