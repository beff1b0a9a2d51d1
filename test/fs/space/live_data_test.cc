// Which blocks of a band the collector sees. It moves no block that a user has replaced.
#include "fs/space/live_data.h"

#include <vector>

#include "fs/file/extent_map.h"
#include "fs/volume/recovery.h"
#include "test/fsck/sample_volume.h"

namespace lazyfs::fs {
namespace {

using fsck::SampleVolume;
constexpr InodeNo kBig{6};
constexpr BandId kB1 = SampleVolume::kB1, kB3 = SampleVolume::kB3, kTo = SampleVolume::kUnused;

class LiveDataTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(recover_bands(*sample_.device, *sample_.store, bands_, false));
    ASSERT_TRUE(bands_.lease(kTo, data::Stream::kCollector));
  }
  // Appends the copy of a run to kTo, and remaps the run to it.
  void move(const gc::LiveRun& run) {
    const std::uint32_t rba = *sample_.device->write_pointer(kTo);
    sample_.append(kTo, run.blocks());
    const auto done = live_data_.remap_if_unchanged(run, {kTo, rba});
    ASSERT_TRUE(done) << describe(done.error());
  }
  gc::LiveRun first_run() { return live_data_.visit_live(kB1, 0, 1).runs.front(); }
  // Where the blocks of `big` from number 0 on lie.
  std::vector<BandAddress> places(std::uint64_t blocks) {
    std::vector<BandAddress> places;
    const auto extents = read_extents(*sample_.store, kBig, 0, blocks);
    for (const MappedExtent& mapped : *extents) {
      for (std::uint32_t i = 0; i < mapped.extent.blocks(); ++i) {
        places.push_back({mapped.extent.at.band, mapped.extent.at.rba + i});
      }
    }
    return places;
  }

  SampleVolume sample_;
  InodeTable inodes_{*sample_.store, {}};
  data::BandTable bands_{sample_.device->geometry(), sample_.store->superblock().super_bands,
                         sample_.store->log_bands()};
  LiveData live_data_{*sample_.store, inodes_, bands_};
};

TEST_F(LiveDataTest, VisitsEachLiveBlockOnce) {
  // Block 3, which died, was written again to the same band.
  const auto value = sample_.store->get(key_of(kBig, Kind::kExtent, 8));
  sample_.put(key_of(kBig, Kind::kExtent, 3), bytes_of(**value));
  sample_.erase(key_of(kBig, Kind::kExtent, 8));
  sample_.change_append(kB1, 8, [](AppendRecord& record) { record.file_block = 3; });
  sample_.commit();
  const auto visit = live_data_.visit_live(kB1, 0, 100);
  std::vector<std::uint64_t> blocks;
  for (const gc::LiveRun& run : visit.runs) {
    for (std::uint32_t i = 0; i < run.blocks(); ++i) blocks.push_back(run.file_block + i);
  }
  EXPECT_EQ(blocks, (std::vector<std::uint64_t>{0, 1, 2, 4, 5, 6, 7, 3}));
  EXPECT_TRUE(visit.is_end);
}

TEST_F(LiveDataTest, ContinuesAfterTheRecordThatBroughtEnough) {
  const auto first = live_data_.visit_live(kB1, 0, 1);
  EXPECT_EQ(first.runs.size(), 2u);
  EXPECT_EQ(first.next_rba, 1u);
  EXPECT_FALSE(first.is_end);
  const auto second = live_data_.visit_live(kB1, first.next_rba, 100);
  ASSERT_EQ(second.runs.size(), 1u);
  EXPECT_EQ(second.runs[0].file_block, 8u);
  EXPECT_TRUE(second.is_end);
}

TEST_F(LiveDataTest, VisitsTheLastBlockOfABand) {
  const BandAddress last{kB1, 63};
  sample_.put(key_of(kB1, Kind::kAppendRecord, last.rba), encode(AppendRecord{kBig, 20, 1, 0}));
  sample_.put(key_of(kBig, Kind::kExtent, 20), encode(ExtentRecord{last, last.rba, {0}}));
  sample_.commit();
  const auto visit = live_data_.visit_live(kB1, 13, 100);
  ASSERT_EQ(visit.runs.size(), 1u);
  EXPECT_EQ(visit.runs[0].at, last);
}

TEST_F(LiveDataTest, CopiesOfBlocksThatWereReplacedMeanwhileAreLost) {
  const gc::LiveRun run = first_run();
  ASSERT_EQ(run.blocks(), 3u);
  const gc::LiveRun middle{kBig, 1, {kB1, 1}, {run.crcs[1]}};
  move(middle);  // now it lies elsewhere, as if a user had replaced it
  move(run);
  EXPECT_EQ(places(3), (std::vector<BandAddress>{{kTo, 1}, {kTo, 0}, {kTo, 3}}));
  move(run);
  EXPECT_EQ(places(3), (std::vector<BandAddress>{{kTo, 1}, {kTo, 0}, {kTo, 3}}));
  EXPECT_EQ(sample_.problems(), std::vector<std::string>{});
  EXPECT_EQ(read_counters(*sample_.store)->collector_blocks, 7u + 1 + 3 + 3);
}

TEST_F(LiveDataTest, CopiesForAnInodeThatWasDeletedMeanwhileAreLost) {
  gc::LiveRun run = first_run();
  run.owner = InodeNo{99};
  move(run);
  EXPECT_EQ(places(3), (std::vector<BandAddress>{{kB1, 0}, {kB1, 1}, {kB1, 2}}));
  EXPECT_EQ(bands_.view(kTo).counters.appended, 3u);
  EXPECT_EQ(bands_.view(kTo).counters.live, 0u);
  EXPECT_EQ(sample_.problems(), std::vector<std::string>{});
}

TEST_F(LiveDataTest, FindsTheLastAppendBeforeAPlace) {
  EXPECT_EQ(live_data_.last_append_before(kB1, 0).value(), std::nullopt);
  EXPECT_EQ((*live_data_.last_append_before(kB1, 8))->rba, 0u);
  EXPECT_EQ((*live_data_.last_append_before(kB1, 9))->rba, 8u);
  EXPECT_EQ((*live_data_.last_append_before(kB1, 9))->live_blocks, 1u);
  EXPECT_EQ((*live_data_.last_append_before(kB1, 13))->live_blocks, 0u);  // lost
}

TEST_F(LiveDataTest, SumsUpTheRecordsAtTheEndOfABand) {
  const auto all = live_data_.log_tail(kB1, 0, 3);
  ASSERT_TRUE(all && *all);
  EXPECT_EQ((*all)->dead_blocks, 1u + 4);  // a death, and an append that was lost
  EXPECT_EQ((*all)->append_records, 3u);
  EXPECT_EQ((*all)->delete_records, 1u);
  EXPECT_EQ(live_data_.log_tail(kB1, 0, 2)->has_value(), false);
  EXPECT_EQ(live_data_.log_tail(kB3, 1, 1)->has_value(), true);  // one death alone
  EXPECT_EQ(live_data_.log_tail(kB3, 1, 0)->has_value(), false);
}

TEST_F(LiveDataTest, ErasesNoTailThatHasOtherRecordsByNow) {
  EXPECT_EQ(live_data_.erase_log_tail(kB1, 9, 4, {.dead_blocks = 4}).error(), Errc::kItemBad);
  EXPECT_EQ(sample_.problems(), std::vector<std::string>{});
}

}  // namespace
}  // namespace lazyfs::fs
