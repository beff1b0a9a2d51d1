#include "sim/stream_detector.h"

#include <gtest/gtest.h>

#include "test/sim/units.h"

namespace lazyfs::sim {
namespace {

class StreamDetectorTest : public testing::Test {
 protected:
  // Writes a run in requests of 1 MiB. Returns whether the last of them is part of a stream.
  bool write(std::uint64_t sector, std::uint64_t mib) {
    bool is_stream = false;
    for (std::uint64_t i = 0; i < mib; ++i) {
      is_stream = detector_.note_write(sector + i * kMib, kMib).is_stream;
    }
    return is_stream;
  }
  StreamDetector detector_{8 << 20};
};

TEST_F(StreamDetectorTest, TakesARunOf8MibForAStream) {
  EXPECT_FALSE(write(1000, 7));
  EXPECT_TRUE(write(1'000'000, 8));
}

TEST_F(StreamDetectorTest, AWriteIntoTheCacheEndsAStreamUntil8MibFollow) {
  EXPECT_TRUE(write(0, 20));
  detector_.note_cache_write();
  EXPECT_FALSE(write(20 * kMib, 7));
  EXPECT_TRUE(write(27 * kMib, 1));
}

TEST_F(StreamDetectorTest, AStreamContinuesAfterAFlush) {
  EXPECT_TRUE(write(0, 20));
  detector_.note_flush();
  EXPECT_TRUE(write(20 * kMib, 1));
}

TEST_F(StreamDetectorTest, ShortRunsThatAreFlushedAreNoStream) {
  for (std::uint64_t i = 0; i < 100; ++i) {
    EXPECT_FALSE(write(i * kMib, 1));
    detector_.note_flush();
  }
  EXPECT_TRUE(detector_.note_write(100 * kMib, kMib).is_synced_sequence);
}

TEST_F(StreamDetectorTest, ARunSomewhereElseAfterAFlushIsASyncedWriteUpToAGibibyte) {
  detector_.note_flush();
  EXPECT_FALSE(write(1'000'000'000, 1024));
  EXPECT_TRUE(write(1'000'000'000 + 1024 * kMib, 1));
}

TEST_F(StreamDetectorTest, ALongRunThatContinuesAfterItsFlushIsAStream) {
  detector_.note_flush();
  for (std::uint64_t i = 0; i < 20; ++i) {  // as a journal: 20 MiB, of which each goes to the cache
    EXPECT_FALSE(write(i * kMib, 1));
    detector_.note_cache_write();
  }
  detector_.note_flush();
  EXPECT_TRUE(write(20 * kMib, 1));
}

TEST_F(StreamDetectorTest, AShortRunMayBecomeAStreamAfterItsFlush) {
  detector_.note_flush();
  EXPECT_FALSE(write(0, 1));
  detector_.note_flush();
  EXPECT_FALSE(write(kMib, 7));
  EXPECT_TRUE(write(8 * kMib, 1));
}

TEST_F(StreamDetectorTest, ARunThatContinuesAnEarlierOneAfterAFlushIsKnown) {
  EXPECT_TRUE(write(0, 8));
  EXPECT_TRUE(write(1'000'000'000, 8));
  detector_.note_flush();
  EXPECT_TRUE(write(8 * kMib, 1));
  EXPECT_TRUE(write(1'000'000'000 + 8 * kMib, 1));
}

TEST_F(StreamDetectorTest, RemembersEightRuns) {
  for (std::uint64_t run = 0; run < 8; ++run) EXPECT_TRUE(write(run * 100'000'000, 8));
  EXPECT_TRUE(detector_.note_write(8 * kMib, 8).continues);
  EXPECT_TRUE(write(900'000'000, 8));  // forgets the run that was used least recently
  EXPECT_FALSE(detector_.note_write(100'000'000 + 8 * kMib, 8).continues);
}

}  // namespace
}  // namespace lazyfs::sim
