#include "fs/space/band_report.h"

#include "test/fsck/sample_volume.h"

namespace lazyfs::fs {
namespace {

using data::BandState;
using fsck::SampleVolume;

BandLine line_of(const BandReport& report, BandId band) {
  for (const BandLine& line : report.bands) {
    if (line.band == band) return line;
  }
  ADD_FAILURE() << "no line for band " << band.value;
  return {};
}

TEST(BandReportTest, ReportsWhatEachBandOfFileDataHolds) {
  SampleVolume volume;
  const auto report = report_bands(*volume.store, *volume.device);
  ASSERT_TRUE(report) << describe(report.error());
  const BandLine first = line_of(*report, SampleVolume::kB1);
  EXPECT_EQ(first.state, BandState::kOpen);
  EXPECT_EQ(first.write_pointer, 13u);
  EXPECT_EQ(first.live, 8u);
  EXPECT_EQ(first.dead, 5u);
  const BandLine second = line_of(*report, SampleVolume::kB2);
  EXPECT_EQ(second.live, 5u);
  EXPECT_EQ(second.dead, 0u);
  const BandLine unused = line_of(*report, SampleVolume::kUnused);
  EXPECT_EQ(unused.state, BandState::kFree);
  EXPECT_EQ(unused.write_pointer, 0u);
}

TEST(BandReportTest, DistinguishesSuperblocksAndLogFromFileData) {
  SampleVolume volume;
  const auto report = report_bands(*volume.store, *volume.device);
  ASSERT_TRUE(report);
  for (const BandId band : {BandId{0}, BandId{1}}) {
    const BandLine line = line_of(*report, band);
    EXPECT_EQ(line.state, BandState::kSuper);
    EXPECT_EQ(line.live, 1u);
    EXPECT_EQ(line.live + line.dead, line.write_pointer);
  }
  std::uint64_t live = 0, bands = 0;
  for (const BandLine& line : report->bands) {
    if (line.state != BandState::kLog) continue;
    EXPECT_EQ(line.live + line.dead, line.write_pointer);
    live += line.live;
    ++bands;
  }
  EXPECT_EQ(live, volume.store->stats().log_live_blocks);
  EXPECT_EQ(bands, volume.store->log_bands().size());
  EXPECT_EQ(report->totals.log_live, live);
  EXPECT_EQ(report->totals.log_bands, bands);
}

TEST(BandReportTest, AddsUpTheBandsOfFileData) {
  SampleVolume volume;
  const auto report = report_bands(*volume.store, *volume.device);
  ASSERT_TRUE(report);
  const BandTotals& totals = report->totals;
  EXPECT_EQ(totals.live, 17u);
  EXPECT_EQ(totals.dead, 6u);
  EXPECT_DOUBLE_EQ(totals.overhead(), 23.0 / 17.0);
  std::uint64_t blocks = 0, free_bands = 0;
  for (const BandLine& line : report->bands) {
    if (line.state == BandState::kLog || line.state == BandState::kSuper) continue;
    blocks += line.blocks;
    free_bands += line.state == BandState::kFree;
  }
  EXPECT_EQ(totals.free, blocks - 23);
  EXPECT_EQ(totals.free_bands, free_bands);
}

TEST(BandReportTest, CallsABandWrittenToItsEndUsed) {
  SampleVolume volume;
  const std::uint32_t blocks = volume.device->geometry().blocks_of(SampleVolume::kB2);
  volume.device->place_write_pointer(SampleVolume::kB2, blocks);
  const auto report = report_bands(*volume.store, *volume.device);
  ASSERT_TRUE(report);
  EXPECT_EQ(line_of(*report, SampleVolume::kB2).state, BandState::kFull);
}

TEST(BandReportTest, CallsARetiredBandOffline) {
  SampleVolume volume;
  const auto before = report_bands(*volume.store, *volume.device);
  volume.device->retire(SampleVolume::kUnused, device::BandCondition::kOffline);
  const auto report = report_bands(*volume.store, *volume.device);
  ASSERT_TRUE(before && report);
  EXPECT_EQ(line_of(*report, SampleVolume::kUnused).state, BandState::kBad);
  EXPECT_EQ(report->totals.free_bands, before->totals.free_bands - 1);
}

// As recovery does: it moves out what the device still has.
TEST(BandReportTest, CallsABandSetAsideWhoseDeviceLacksBlocksOfFiles) {
  SampleVolume volume;
  volume.device->place_write_pointer(SampleVolume::kB1, 12);
  const auto report = report_bands(*volume.store, *volume.device);
  ASSERT_TRUE(report) << describe(report.error());
  const BandLine line = line_of(*report, SampleVolume::kB1);
  EXPECT_EQ(title_of(line), "Set aside");
  EXPECT_EQ(line.live, 8u);
  EXPECT_EQ(report->totals.set_aside_bands, 1u);
  EXPECT_EQ(report->totals.live, 17u - 8u);
}

TEST(BandReportTest, CallsNoBandSetAsideThatHoldsNothingLive) {
  SampleVolume volume;
  volume.put(key_of(kVolumeOwner, Kind::kBandSummary, SampleVolume::kUnused.value),
             encode(BandSummaryRecord{.appended = 5}));
  volume.commit();
  const auto report = report_bands(*volume.store, *volume.device);
  ASSERT_TRUE(report);
  EXPECT_EQ(title_of(line_of(*report, SampleVolume::kUnused)), "Open") << "it was written";
  EXPECT_EQ(report->totals.set_aside_bands, 0u);
}

TEST(BandReportTest, TakesTheDaemonsWordForBandsSetAside) {
  SampleVolume volume;
  volume.device->place_write_pointer(SampleVolume::kB1, 12);  // not yet seen by the daemon
  const auto report =
      report_bands(*volume.store, *volume.device,
                   std::vector{SampleVolume::kB2, SampleVolume::kUnused, BandId{0}});
  ASSERT_TRUE(report);
  EXPECT_EQ(title_of(line_of(*report, SampleVolume::kB2)), "Set aside");
  EXPECT_EQ(title_of(line_of(*report, SampleVolume::kB1)), "Open");
  EXPECT_EQ(title_of(line_of(*report, SampleVolume::kUnused)), "Set aside");
  EXPECT_EQ(title_of(line_of(*report, BandId{0})), "Super");
  EXPECT_EQ(report->totals.set_aside_bands, 2u);
}

TEST(BandReportTest, CallsABandSetAsideWithMoreAppendedThanItHolds) {
  SampleVolume volume;
  const std::uint32_t blocks = volume.device->geometry().blocks_of(SampleVolume::kB1);
  volume.device->place_write_pointer(SampleVolume::kB1, blocks);
  volume.change_summary(SampleVolume::kB1, [&](BandSummaryRecord& s) {
    s = {.appended = blocks + 1u, .live = 0};
  });
  volume.commit();
  const auto report = report_bands(*volume.store, *volume.device);
  ASSERT_TRUE(report);
  EXPECT_EQ(title_of(line_of(*report, SampleVolume::kB1)), "Set aside");
}

// The records of a band without a write pointer say how far it was written.
TEST(BandReportTest, KnowsTheEndsOfBandsThatTheDeviceDoesNotKeep) {
  SampleVolume volume({.keeps_write_pointers = false});
  volume.device->forget_write_pointers();
  const auto report = report_bands(*volume.store, *volume.device);
  ASSERT_TRUE(report) << describe(report.error());
  const BandLine line = line_of(*report, SampleVolume::kB1);
  EXPECT_EQ(title_of(line), "Open");
  EXPECT_EQ(line.write_pointer, 13u);
  EXPECT_EQ(title_of(line_of(*report, SampleVolume::kUnused)), "Free");
  EXPECT_EQ(report->totals.set_aside_bands, 0u);
  EXPECT_GT(report->totals.log_live, 0u);
  for (const BandLine& log : report->bands) {
    if (log.state != BandState::kLog) continue;
    EXPECT_EQ(log.write_pointer, log.live > 0 ? log.blocks : 0);
  }
}

TEST(BandReportTest, ShowsConventionalBandsAndNoneThatAreLinkedAway) {
  device::Geometry geometry;
  geometry.band_blocks.assign(40, 64);
  geometry.band_kinds.assign(40, device::BandKind::kShingled);
  geometry.band_kinds[0] = device::BandKind::kConventional;
  geometry.band_blocks[7] = 0;  // linked to band 6
  geometry.super_bands = geometry.first_shingled();
  device::MemoryDevice device(geometry);
  ASSERT_TRUE(mkfs::make_filesystem(device, {}));
  const auto store = *meta::Store::open(device, {.background = false});
  const auto report = report_bands(*store, device);
  ASSERT_TRUE(report) << describe(report.error());
  EXPECT_EQ(report->bands.size(), 39u);
  EXPECT_EQ(line_of(*report, BandId{0}).state, BandState::kOpen);
  EXPECT_EQ(title_of(line_of(*report, BandId{0})), "Conventional");
  EXPECT_EQ(name_of(line_of(*report, BandId{1})), "super");
  EXPECT_EQ(report->totals.set_aside_bands, 0u);
}

TEST(BandReportTest, CountsDeletionsThatArePending) {
  SampleVolume volume;  // inode 7 has no name and two blocks
  const auto report = report_bands(*volume.store, *volume.device);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->totals.pending_deletions, 1u);
  EXPECT_EQ(report->totals.pending_blocks, 2u);
  volume.put(key_of(kVolumeOwner, Kind::kOrphan, 7),
             encode(OrphanRecord{OrphanRecord::Work::kTruncate}));
  volume.commit();
  const auto truncated = report_bands(*volume.store, *volume.device);
  ASSERT_TRUE(truncated);
  EXPECT_EQ(truncated->totals.pending_deletions, 0u);
}

TEST(BandReportTest, ComputesWriteAmplificationFromTheCounters) {
  SampleVolume volume;
  volume.put(key_of(kVolumeOwner, Kind::kCounters),
             encode(CounterRecord{.next_inode = 8, .user_blocks = 100, .collector_blocks = 50}));
  volume.commit();
  const auto report = report_bands(*volume.store, *volume.device);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->totals.host_blocks, 100u);
  EXPECT_EQ(report->totals.device_blocks, 150u);
  EXPECT_DOUBLE_EQ(report->totals.write_amplification(), 1.5);
}

TEST(BandReportTest, SharesOfNothingAreOne) {
  EXPECT_DOUBLE_EQ(BandTotals{}.overhead(), 1.0);
  EXPECT_DOUBLE_EQ(BandTotals{}.write_amplification(), 1.0);
}

TEST(BandReportTest, RefusesASummaryWithMoreLiveBlocksThanAppended) {
  SampleVolume volume;
  volume.change_summary(SampleVolume::kB1, [](BandSummaryRecord& s) { s.live = s.appended + 1; });
  volume.commit();
  EXPECT_EQ(report_bands(*volume.store, *volume.device).error(), Errc::kItemBad);
}

TEST(BandReportTest, RefusesASummaryOfABandThatDoesNotExist) {
  SampleVolume volume;
  const std::uint32_t bands = volume.device->geometry().band_count();
  volume.put(key_of(kVolumeOwner, Kind::kBandSummary, bands), encode(BandSummaryRecord{}));
  volume.commit();
  EXPECT_EQ(report_bands(*volume.store, *volume.device).error(), Errc::kItemBad);
}

}  // namespace
}  // namespace lazyfs::fs
