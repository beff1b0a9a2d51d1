// Reads of files whose blocks lie scattered: several reads from the device at once.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <thread>

#include "base/before_wait.h"
#include "base/json.h"
#include "device/forwarding.h"
#include "fs/file/file_reader.h"
#include "test/fs/volume_fixture.h"
#include "test/support/seed.h"

namespace lazyfs::fs {
namespace {

constexpr std::uint64_t kFileBlocks = 64;

// Calls a function before reads.
class WatchedDevice final : public device::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  std::function<Result<>(BandAddress from, std::size_t blocks)> before_read;

  Result<> read(BandAddress from, std::span<std::byte> to) override {
    if (before_read) TRY(before_read(from, to.size() / kBlockBytes));
    return ForwardingDevice::read(from, to);
  }
};

class ScatteredReadTest : public VolumeTest {
 protected:
  void mount() override {
    watched_.emplace(*device_);
    auto volume = Volume::mount(*watched_, options_);
    ASSERT_TRUE(volume) << describe(volume.error());
    volume_ = std::move(*volume);
  }
  // Each block is appended by itself, and none next to one that precedes it in the file.
  InodeNo make_file() {
    const InodeNo file = create("file");
    for (std::uint64_t i = 0; i < kFileBlocks; ++i) {
      const std::uint64_t block = i * 7 % kFileBlocks;
      write(file, block * kBlockBytes, block_text(block));
      EXPECT_TRUE(volume_->fsync(file, nullptr, false));
    }
    return file;
  }
  static std::string block_text(std::uint64_t block) {
    std::string text = std::to_string(block);
    text.resize(kBlockBytes, static_cast<char>('a' + block % 26));
    return text;
  }
  static std::string file_text() {
    std::string text;
    for (std::uint64_t block = 0; block < kFileBlocks; ++block) text += block_text(block);
    return text;
  }
  Result<std::string> try_read(InodeNo file, std::uint64_t offset, std::size_t length) {
    std::string text(length, '?');
    ASSIGN_OR_RETURN(const std::size_t n,
                     volume_->read(file, offset, std::as_writable_bytes(std::span(text))));
    text.resize(n);
    return text;
  }
  double read_errors() {
    return (*Json::parse(volume_->stats_json()))["data"]["read_errors"].number();
  }

  std::optional<WatchedDevice> watched_;
};

// Each of the first reads waits until as many have begun.
TEST_F(ScatteredReadTest, SeveralReadsAreUnderWayAtOnce) {
  options_.background = true;
  remount();
  const InodeNo file = make_file();
  std::atomic<std::size_t> begun = 0;
  watched_->before_read = [&](BandAddress, std::size_t) -> Result<> {
    ++begun;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (begun < FileReader::kReadsAtOnce) {
      if (std::chrono::steady_clock::now() > end) return fail(Errc::kDeviceRead);
      std::this_thread::yield();
    }
    return ok();
  };
  EXPECT_EQ(try_read(file, 0, kFileBlocks * kBlockBytes), file_text());
  watched_->before_read = nullptr;
}

TEST_F(ScatteredReadTest, AThreadThatMustNotWaitReadsNothingFromTheDisk) {
  options_.background = true;
  remount();
  const InodeNo file = make_file();
  remount();
  std::atomic<int> reads = 0;
  watched_->before_read = [&](BandAddress, std::size_t) {
    ++reads;
    return ok();
  };
  {
    const MustNotWait must_not_wait;
    for (const std::size_t blocks : {std::uint64_t{1}, kFileBlocks}) {
      const auto text = try_read(file, 0, blocks * kBlockBytes);
      ASSERT_FALSE(text);
      EXPECT_EQ(text.error(), Errc::kWouldWait);
    }
  }
  EXPECT_EQ(read_errors(), 0);
  EXPECT_EQ(try_read(file, 0, kFileBlocks * kBlockBytes), file_text());
  EXPECT_GT(reads, 0);
  watched_->before_read = nullptr;
}

TEST_F(ScatteredReadTest, WithoutBackgroundTheCallerReadsAll) {
  options_.background = false;
  remount();
  const InodeNo file = make_file();
  const auto caller = std::this_thread::get_id();
  std::atomic<int> by_others = 0;
  watched_->before_read = [&](BandAddress, std::size_t) {
    by_others += std::this_thread::get_id() != caller;
    return ok();
  };
  EXPECT_EQ(try_read(file, 0, kFileBlocks * kBlockBytes), file_text());
  EXPECT_EQ(by_others, 0);
  watched_->before_read = nullptr;
}

TEST_F(ScatteredReadTest, ABlockThatCannotBeReadConcernsItsReadersAlone) {
  options_.background = true;
  remount();
  const InodeNo file = make_file();
  const std::uint64_t bad = 13;
  BandAddress place{};
  watched_->before_read = [&](BandAddress from, std::size_t) {
    place = from;
    return ok();
  };
  ASSERT_TRUE(try_read(file, bad * kBlockBytes, kBlockBytes));
  remount();  // what was read ahead is forgotten
  watched_->before_read = [place](BandAddress from, std::size_t blocks) -> Result<> {
    const bool has_it = from.band == place.band && from.rba <= place.rba &&
                        place.rba - from.rba < blocks;
    return has_it ? fail(Errc::kDeviceRead) : ok();
  };
  const double before = read_errors();
  const auto all = try_read(file, 0, kFileBlocks * kBlockBytes);
  ASSERT_FALSE(all);
  EXPECT_EQ(all.error(), Errc::kDeviceRead);
  EXPECT_EQ(read_errors(), before + 1);
  EXPECT_EQ(try_read(file, 0, bad * kBlockBytes), file_text().substr(0, bad * kBlockBytes));
  EXPECT_EQ(try_read(file, (bad + 1) * kBlockBytes, kFileBlocks * kBlockBytes),
            file_text().substr((bad + 1) * kBlockBytes));
  watched_->before_read = nullptr;
}

// Ranges that begin and end anywhere, with holes, dirty blocks and a short last block among them.
TEST_F(ScatteredReadTest, AnyRangeIsWhatWasWritten) {
  options_.background = true;
  remount();
  SCOPED_TRACE(seed_trace());
  std::mt19937_64 random(test_seed());
  const InodeNo file = make_file();
  std::string text = file_text();
  ASSERT_TRUE(volume_->punch(file, 3 * kBlockBytes, 2 * kBlockBytes, {.keep_size = true}));
  text.replace(3 * kBlockBytes, 2 * kBlockBytes, 2 * kBlockBytes, '\0');
  text += "the end";
  write(file, kFileBlocks * kBlockBytes, "the end");
  ASSERT_TRUE(volume_->fsync(file, nullptr, false));
  write(file, 9 * kBlockBytes + 5, "not written back");
  text.replace(9 * kBlockBytes + 5, 16, "not written back");
  for (int i = 0; i < 500; ++i) {
    const std::size_t offset = random() % text.size();
    const std::size_t length = random() % (text.size() + 100);
    const auto found = try_read(file, offset, length);
    ASSERT_TRUE(found) << describe(found.error());
    ASSERT_TRUE(*found == text.substr(offset, length)) << offset << ", " << length;
  }
}

}  // namespace
}  // namespace lazyfs::fs
