#include "fs/item/schema.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/endian.h"

namespace lazyfs::fs {
namespace {

InodeRecord sample_inode() {
  InodeRecord r;
  r.mode = S_IFREG | 0640;
  r.links = 3;
  r.owner = {1000, 100};
  r.size = 0x1122334455;
  r.blocks = 7;
  r.rdev = 9;
  r.access = {-5, 999'999'999};
  r.modification = {5'000'000'000, 1};
  r.change = {1, 2};
  r.birth = {3, 4};
  r.parent = InodeNo{42};
  r.next_cookie = 17;
  r.entries = 11;
  r.generation = 2;
  r.xattrs = 5;
  r.name_seed = 0x8877665544332211;
  r.flags = kImmutable | 0x80000000;
  r.project = 0x77;
  r.room.fill(std::byte{9});
  return r;
}

TEST(SchemaTest, InodeComesBackAsItWas) {
  EXPECT_EQ(*decode_inode(encode(sample_inode())), sample_inode());
}

TEST(SchemaTest, InodeBytesAreGolden) {
  const auto bytes = encode(sample_inode());
  EXPECT_EQ(load_le_at<std::uint32_t>(bytes, 0), S_IFREG | 0640u);
  EXPECT_EQ(load_le_at<std::uint64_t>(bytes, 16), 0x1122334455u);
  EXPECT_EQ(load_le_at<std::uint64_t>(bytes, 40), static_cast<std::uint64_t>(-5));
  EXPECT_EQ(load_le_at<std::uint64_t>(bytes, 88), 42u);
  EXPECT_EQ(load_le_at<std::uint32_t>(bytes, 116), 5u);
  EXPECT_EQ(load_le_at<std::uint64_t>(bytes, 120), 0x8877665544332211u);
  EXPECT_EQ(load_le_at<std::uint32_t>(bytes, 128), 0x80000001u);
  EXPECT_EQ(load_le_at<std::uint32_t>(bytes, 132), 0x77u);
  EXPECT_EQ(load_le_at<std::uint64_t>(bytes, 136), 0x0909090909090909u);
}

TEST(SchemaTest, InodeOfNoKnownTypeIsRefused) {
  InodeRecord r = sample_inode();
  r.mode = 0644;
  EXPECT_EQ(decode_inode(encode(r)).error(), Errc::kItemBad);
  r.mode = kSharedMode;
  EXPECT_EQ(*decode_inode(encode(r)), r);
}

TEST(SchemaTest, EveryItemCutShortIsRefused) {
  const auto inode = encode(sample_inode());
  const auto dentry = encode(DentryRecord{InodeNo{5}, 1, 8, "name"});
  const auto extent = encode(ExtentRecord{{BandId{3}, 9}, 9, {1, 2}});
  for (std::size_t n = 0; n < inode.size(); ++n) {
    EXPECT_FALSE(decode_inode(std::span(inode).first(n)));
  }
  for (std::size_t n = 0; n < dentry.size(); ++n) {
    EXPECT_FALSE(decode_dentry(std::span(dentry).first(n)));
  }
  for (std::size_t n = 0; n < extent.size(); ++n) {
    EXPECT_FALSE(decode_extent(std::span(extent).first(n)));
  }
}

TEST(SchemaTest, DentriesOfOneHashComeBackInOrder) {
  const std::vector<DentryRecord> entries{{InodeNo{5}, 1, 8, "a"},
                                          {InodeNo{6}, 2, 4, std::string(255, 'x')}};
  EXPECT_EQ(*decode_dentries(encode(entries)), entries);
}

TEST(SchemaTest, DentryWithASlashOrADotNameIsRefused) {
  EXPECT_FALSE(decode_dentry(encode(DentryRecord{InodeNo{5}, 1, 8, "a/b"})));
  EXPECT_FALSE(decode_dentry(encode(DentryRecord{InodeNo{5}, 1, 8, ".."})));
  EXPECT_FALSE(decode_dentry(encode(DentryRecord{InodeNo{0}, 1, 8, "a"})));
}

TEST(SchemaTest, ExtentOfTheLargestSizeFitsAnItem) {
  ExtentRecord r{{BandId{7}, 100}, 50, std::vector<std::uint32_t>(kMaxExtentBlocks, 0xABCD)};
  const auto bytes = encode(r);
  EXPECT_LE(bytes.size(), meta::kMaxValueBytes);
  EXPECT_EQ(*decode_extent(bytes), r);
}

TEST(SchemaTest, ExtentThatStartsBeforeItsAppendRecordIsRefused) {
  EXPECT_FALSE(decode_extent(encode(ExtentRecord{{BandId{7}, 9}, 10, {1}})));
}

TEST(SchemaTest, ExtentBytesAreGolden) {
  const auto bytes = encode(ExtentRecord{{BandId{7}, 0x123}, 0x45, {0xAABBCCDD}});
  ASSERT_EQ(bytes.size(), 20u);
  EXPECT_EQ(load_le_at<std::uint32_t>(bytes, 0), 7u);
  EXPECT_EQ(load_le_at<std::uint32_t>(bytes, 4), 0x123u);
  EXPECT_EQ(load_le_at<std::uint32_t>(bytes, 8), 0x45u);
  EXPECT_EQ(load_le_at<std::uint32_t>(bytes, 12), 1u);  // blocks; no algorithm, nothing more
  EXPECT_EQ(load_le_at<std::uint32_t>(bytes, 16), 0xAABBCCDDu);
}

// A later lazyfs puts the stored length and the transaction of birth there.
TEST(SchemaTest, FurtherFieldsOfAnExtentAreReadPast) {
  const ExtentRecord r{{BandId{7}, 9}, 9, {1, 2}};
  auto bytes = encode(r);
  bytes[15] = std::byte{16};
  EXPECT_FALSE(decode_extent(bytes));
  bytes.insert(bytes.begin() + 16, 16, std::byte{0x55});
  EXPECT_EQ(*decode_extent(bytes), r);
}

TEST(SchemaTest, ExtentStoredByAnUnknownAlgorithmIsRefused) {
  auto bytes = encode(ExtentRecord{{BandId{7}, 9}, 9, {1, 2}});
  bytes[14] = std::byte{1};
  EXPECT_EQ(decode_extent(bytes).error(), Errc::kItemBad);
}

TEST(SchemaTest, ReservedBytesMayBeAnything) {
  auto orphan = encode(OrphanRecord{OrphanRecord::Work::kTruncate});
  orphan[7] = std::byte{1};
  EXPECT_EQ(*decode_orphan(orphan), OrphanRecord{OrphanRecord::Work::kTruncate});
}

TEST(SchemaTest, ReferencesAndExtentsAreToldApart) {
  const ReferenceRecord reference{InodeNo{77}, 5, kMaxExtentBlocks};
  const ExtentRecord extent{{BandId{7}, 100}, 50, {1, 2}};
  EXPECT_EQ(*decode_map_record(encode(reference)), MapRecord(reference));
  EXPECT_EQ(*decode_map_record(encode(MapRecord(extent))), MapRecord(extent));
  EXPECT_EQ(decode_extent(encode(reference)).error(), Errc::kItemBad);
  EXPECT_EQ(blocks_of(MapRecord(reference)), kMaxExtentBlocks);
}

TEST(SchemaTest, ImpossibleReferencesAndShareCountsAreRefused) {
  const ReferenceRecord good{InodeNo{77}, 5, 2};
  const auto refused = [](const ReferenceRecord& r) { return !decode_map_record(encode(r)); };
  EXPECT_FALSE(refused(good));
  EXPECT_TRUE(refused({InodeNo{0}, 5, 2}));
  EXPECT_TRUE(refused({InodeNo{kMaxInode + 1}, 5, 2}));
  EXPECT_TRUE(refused({InodeNo{77}, blocks_for(kMaxFileBytes) - 1, 2}));
  auto bytes = encode(good);
  bytes[4] = std::byte{0};
  EXPECT_FALSE(decode_map_record(bytes));
  bytes[4] = std::byte{kMaxExtentBlocks + 1};
  EXPECT_FALSE(decode_map_record(bytes));
  const auto whole = encode(good);
  for (std::size_t n = 0; n < kReferenceBytes; ++n) {
    EXPECT_FALSE(decode_map_record(std::span(whole).first(n)));
  }
  EXPECT_EQ(*decode_reference_count(encode(ReferenceCountRecord{128, 3})),
            (ReferenceCountRecord{128, 3}));
  EXPECT_FALSE(decode_reference_count(encode(ReferenceCountRecord{0, 1})));
  EXPECT_FALSE(decode_reference_count(encode(ReferenceCountRecord{129, 1})));
  EXPECT_FALSE(decode_reference_count(encode(ReferenceCountRecord{1, 0})));
}

TEST(SchemaTest, LogRecordsComeBackAsTheyWere) {
  const AppendRecord a{InodeNo{4}, 77, 3, 0x55};
  const DeleteRecord d{InodeNo{4}, 78, 12, 2, 11};
  EXPECT_EQ(*decode_append_record(encode(a)), a);
  EXPECT_EQ(*decode_delete_record(encode(d)), d);
  EXPECT_FALSE(decode_append_record(encode(AppendRecord{InodeNo{4}, 77, 0, 0})));
}

TEST(SchemaTest, BandWithMoreLiveThanAppendedBlocksIsRefused) {
  EXPECT_FALSE(decode_band_summary(encode(BandSummaryRecord{.appended = 3, .live = 4})));
  const BandSummaryRecord good{.appended = 4, .live = 3, .append_records = 2, .delete_records = 1};
  EXPECT_EQ(*decode_band_summary(encode(good)), good);
  BandSummaryRecord later = good;
  later.room.fill(std::byte{3});
  EXPECT_EQ(*decode_band_summary(encode(later)), later);
}

TEST(SchemaTest, SmallRecordsComeBackAsTheyWere) {
  const CounterRecord c{.next_inode = 12, .user_blocks = 3, .collector_blocks = 4, .inodes = 5};
  const XattrRecord x{.value_bytes = 65536, .name = "user.x"};
  const OrphanRecord o{OrphanRecord::Work::kTruncate};
  EXPECT_EQ(*decode_counters(encode(c)), c);
  EXPECT_EQ(*decode_xattr(encode(x)), x);
  EXPECT_EQ(*decode_orphan(encode(o)), o);
}

TEST(SchemaTest, LostRangesComeBackAsTheyWere) {
  const LostRangeRecord range{{7, 8, 9}, meta::Key{10, 1, meta::kMaxOffset}};
  const LostRangeRecord open{{7, 8, 9}, std::nullopt};
  EXPECT_EQ(*decode_lost_range(encode(range)), range);
  EXPECT_EQ(*decode_lost_range(encode(open)), open);
  auto bytes = encode(open);
  bytes[20] = std::byte{1};  // an end, although there is none
  EXPECT_FALSE(decode_lost_range(bytes));
  const auto whole = encode(range);
  EXPECT_FALSE(decode_lost_range(std::span(whole).first(39)));
}

}  // namespace
}  // namespace lazyfs::fs
