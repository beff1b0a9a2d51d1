// A commit beside the failure of the store.
#include "meta/store/committer.h"

#include <thread>

#include "meta/store/commit_cycles.h"
#include "test/meta/fixture.h"
#include "test/meta/spare_bands.h"

namespace lazyfs::meta {
namespace {

class CommitterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(device->reset_all());
    superblock.open_for_writing();
    log.reset_retired();
    WriterLock lock(tree.mu);
    tree.cache.create(0);
    tree.limits = limits_of(log.band_sizes(), 1000);
  }
  static RecoveredLog empty_log() {
    RecoveredLog found;
    found.spare = small_superblock(8).log_bands;
    return found;
  }
  std::uint64_t blocks_written() {
    std::uint64_t blocks = 0;
    for (std::uint32_t band = 0; band < device->geometry().band_count(); ++band) {
      blocks += device->write_pointer(BandId{band}).value_or(0);
    }
    return blocks;
  }

  std::unique_ptr<device::MemoryDevice> device = device::MemoryDevice::uniform(16, 256);
  StoreOptions options = quiet_options();
  StoreFailure failure;
  CommitCycles cycles{failure};
  Log log{*device, {Uuid{}, 1}, empty_log()};
  SharedTree tree{100, 7, Seq{1}, Tree::kRoot, 0};
  StoreSuperblock superblock{*device, log, failure, small_superblock(8)};
  LogSizer sizer{*device, options, log, tree, superblock, [] {}};
  Committer committer{*device, log, tree, sizer, superblock, cycles, failure, Seq{0}};
};

TEST_F(CommitterTest, WritesWhatHasChanged) {
  EXPECT_TRUE(committer.commit(Additions{}));
  EXPECT_GT(blocks_written(), 0u);
}

// A batch that was made by half is in memory.
TEST_F(CommitterTest, WritesNothingOnceTheStoreHasFailed) {
  failure.set(Errc::kNodeBad, "a test", Seq{0});
  EXPECT_EQ(committer.commit(Additions{}).error(), Errc::kLogFailed);
  EXPECT_EQ(blocks_written(), 0u);
}

// Such as a flush of file data.
TEST_F(CommitterTest, TakesNoBandFromTheVolumeWhenNothingHasChanged) {
  ASSERT_TRUE(committer.commit(Additions{}));  // begins a band
  while (log.remove_free_band()) continue;
  for (bool has_room = true; has_room;) {
    {
      WriterLock lock(tree.mu);
      tree.cache.make_dirty(*tree.cache.find(Tree::kRoot));
    }
    ASSERT_TRUE(committer.commit(Additions{}));
    ReaderLock lock(tree.mu);
    has_room = tree.limits.cost(0, 0) <= log.space().available;
  }
  SpareBands spare(12, 3);
  sizer.set_source(spare.source());
  ASSERT_TRUE(committer.commit(Additions{}));
  EXPECT_EQ(spare.size(), 3u);
}

TEST_F(CommitterTest, CountsTheBandsThatItHasAdoptedAndNoOthers) {
  ASSERT_TRUE(committer.commit(Additions{}));
  const auto adoption = [](std::size_t entries) {
    Additions additions;
    additions.victim = CleanChoice{CleanChoice::Kind::kAdopt, 1, true};
    additions.cold_index.assign(entries, {1, 2, EntryKind::kColdBand});
    return additions;
  };
  ASSERT_TRUE(committer.commit(adoption(0)));  // nothing is live in the band
  EXPECT_EQ(committer.figures().bands_adopted, 0u);
  ASSERT_TRUE(committer.commit(adoption(1'000'000)));  // more than the log has room for
  EXPECT_EQ(committer.figures().bands_adopted, 0u);
  ASSERT_TRUE(committer.commit(adoption(1)));
  EXPECT_EQ(committer.figures().bands_adopted, 1u);
}

TEST(CommitCyclesTest, NobodyWaitsForATransactionOfAFailedStore) {
  for (int round = 0; round < 50; ++round) {  // in some the thread waits already
    StoreFailure failure;
    CommitCycles cycles(failure);
    std::atomic<bool> has_begun{false};
    Result<> sealed = ok();
    std::thread waiter([&] {
      has_begun = true;
      sealed = cycles.wait_until_sealed(Seq{1});
    });
    while (!has_begun) std::this_thread::yield();
    failure.set(Errc::kNodeBad, "a test", Seq{0});
    EXPECT_EQ(cycles.begin_commit().error(), Errc::kLogFailed);
    waiter.join();  // hangs if the thread was not told
    EXPECT_EQ(sealed.error(), Errc::kLogFailed);
  }
}

}  // namespace
}  // namespace lazyfs::meta
