#include "device/read_turns.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "base/before_wait.h"
#include "base/buffer.h"
#include "device/memory.h"
#include "test/support/result_printer.h"
#include "test/support/seed.h"

namespace lazyfs::device {
namespace {

constexpr BandId kReadBand{1}, kNextBand{2};
constexpr std::uint32_t kMiB = (1u << 20) / kBlockBytes;  // blocks of a read of 1 MiB
constexpr std::uint32_t kLongBandBlocks = 40 * kMiB;

// Each read waits until its place is released.
class HeldDevice final : public ForwardingDevice {
 public:
  using Device::append;
  using ForwardingDevice::ForwardingDevice;

  Result<> read(BandAddress from, std::span<std::byte> to) override {
    MutexLock lock(mu_);
    ++reads_;
    changed_.notify_all();
    while (!released_[{from.band.value, from.rba}]) changed_.wait(mu_);
    return ForwardingDevice::read(from, to);
  }
  void release(BandAddress at) {
    MutexLock lock(mu_);
    released_[{at.band.value, at.rba}] = true;
    changed_.notify_all();
  }
  // Of all reads, also those that have ended.
  void await_reads(std::size_t count) {
    MutexLock lock(mu_);
    while (reads_ < count) changed_.wait(mu_);
  }
  std::size_t reads() {
    MutexLock lock(mu_);
    return reads_;
  }

 private:
  Mutex mu_;
  CondVar changed_;
  std::size_t reads_ = 0;
  std::map<std::pair<std::uint32_t, std::uint32_t>, bool> released_;
};

std::unique_ptr<MemoryDevice> written_device() {
  auto memory = std::make_unique<MemoryDevice>(
      Geometry{.band_blocks = std::vector(3, kLongBandBlocks),
               .band_kinds = std::vector(3, BandKind::kShingled)},
      Capabilities{.set_write_pointer = true});
  AlignedBuffer block(kBlockBytes);
  for (const BandId band : {kReadBand, kNextBand}) {
    for (std::uint32_t rba = 0; rba < kLongBandBlocks; ++rba) {
      std::memset(block.data(), static_cast<int>(rba % 251), block.size());
      EXPECT_EQ(memory->append({band, rba}, Piece(block.span())), ok());
    }
  }
  return memory;
}

class ReadTurnsTest : public testing::Test {
 protected:
  ~ReadTurnsTest() override {
    for (const BandAddress at : asked_) held_.release(at);
  }
  // Asks for `blocks` from a thread of its own, and returns when the read is under way or waits.
  void ask(BandAddress at, std::uint32_t blocks, bool waits) {
    const std::size_t reads = held_.reads();
    asked_.push_back(at);
    readers_.emplace_back([this, at, blocks] {
      AlignedBuffer bytes(std::size_t{blocks} * kBlockBytes);
      EXPECT_EQ(turns_.read(at, bytes.span()), ok());
    });
    if (waits) {
      ++waiting_;
      while (turns_.waiting() < waiting_ && held_.reads() == reads) std::this_thread::yield();
      EXPECT_EQ(turns_.waiting(), waiting_) << "did not wait: " << at.rba;
    } else {
      held_.await_reads(reads + 1);
    }
  }

  std::unique_ptr<MemoryDevice> memory_ = written_device();
  HeldDevice held_{*memory_};
  ReadTurnsDevice turns_{held_};
  std::vector<BandAddress> asked_;
  std::size_t waiting_ = 0;
  std::vector<std::jthread> readers_;  // the last member: ends first, after all were released
};

TEST_F(ReadTurnsTest, AReadWaitsForThoseShortlyBeforeIt) {
  for (const std::uint32_t n : {0u, 1u}) ask({kReadBand, n * kMiB}, kMiB, false);
  for (const std::uint32_t n : {2u, 3u}) ask({kReadBand, n * kMiB}, kMiB, true);
  held_.release({kReadBand, 0});
  held_.await_reads(3);
  EXPECT_EQ(turns_.waiting(), 1u) << "one read ended, one began";
  held_.release({kReadBand, 1 * kMiB});
  held_.await_reads(4);
  EXPECT_EQ(turns_.waiting(), 0u);
}

TEST_F(ReadTurnsTest, AReadOfAnotherPlaceDoesNotWait) {
  for (const std::uint32_t n : {4u, 5u}) ask({kReadBand, n * kMiB}, kMiB, false);
  ask({kReadBand, 6 * kMiB}, kMiB, true);
  ask({kReadBand, 3 * kMiB}, kMiB, false);
  ask({kReadBand, 30 * kMiB}, kMiB, false);
  ask({kNextBand, 6 * kMiB}, kMiB, false);
}

TEST_F(ReadTurnsTest, AShortReadDoesNotWait) {
  for (const std::uint32_t n : {0u, 1u}) ask({kReadBand, n * kMiB}, kMiB, false);
  ask({kReadBand, 2 * kMiB}, kMiB, true);
  ask({kReadBand, 2 * kMiB + 1}, ReadTurnsDevice::kLongBytes / kBlockBytes - 1, false);
}

TEST_F(ReadTurnsTest, AReadThatIsLongerThanATurnIsUnderWayAlone) {
  ask({kReadBand, 0}, kMiB, false);
  ask({kReadBand, kMiB}, 4 * kMiB, true);
  held_.release({kReadBand, 0});
  held_.await_reads(2);
}

TEST_F(ReadTurnsTest, AReadThatFailsGivesItsTurnBack) {
  const BandAddress at{kReadBand, kLongBandBlocks - kMiB};
  AlignedBuffer bytes(std::size_t{2 * kMiB} * kBlockBytes);
  held_.release(at);
  ASSERT_NE(turns_.read(at, bytes.span()), ok()) << "beyond the end of the band";
  ask({kReadBand, kLongBandBlocks - kMiB / 4}, kMiB / 4, false);
}

TEST_F(ReadTurnsTest, ALongReadSaysThatItWaits) {
  int waits = 0;
  const std::function<void()> count = [&waits] { ++waits; };
  const BeforeWait before_wait(count);
  AlignedBuffer bytes(ReadTurnsDevice::kLongBytes);
  held_.release({kReadBand, 0});
  ASSERT_EQ(turns_.read({kReadBand, 0}, bytes.span()), ok());
  EXPECT_EQ(waits, 1);
}

TEST(ReadTurnsRandomTest, AllReadsEndAndReadWhatIsThere) {
  const auto memory = written_device();
  ReadTurnsDevice turns(*memory);
  SCOPED_TRACE(seed_trace());
  std::vector<std::jthread> readers;
  for (unsigned n = 0; n < 8; ++n) {
    readers.emplace_back([&turns, n] {
      std::mt19937_64 random(test_seed() + n);
      AlignedBuffer bytes(std::size_t{4 * kMiB} * kBlockBytes);
      for (int i = 0; i < 200; ++i) {
        const auto blocks = static_cast<std::uint32_t>(1 + random() % (4 * kMiB));
        const auto rba = static_cast<std::uint32_t>(random() % (kLongBandBlocks - blocks));
        const auto to = bytes.span().first(std::size_t{blocks} * kBlockBytes);
        ASSERT_EQ(turns.read({kReadBand, rba}, to), ok());
        for (std::uint32_t block = 0; block < blocks; ++block) {
          ASSERT_EQ(to[std::size_t{block} * kBlockBytes], std::byte((rba + block) % 251));
        }
      }
    });
  }
  readers.clear();
  EXPECT_EQ(turns.waiting(), 0u);
}

}  // namespace
}  // namespace lazyfs::device
