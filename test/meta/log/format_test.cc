// The bytes on disk: golden images, every field back, and whatever else the bytes may be.
#include <algorithm>
#include <random>

#include "base/buffer.h"
#include "base/crc32c.h"
#include "base/endian.h"
#include "test/meta/fixture.h"
#include "meta/log/log_format.h"
#include "meta/tree/node_page.h"
#include "meta/log/checkpoint_format.h"
#include "meta/log/superblock_format.h"

namespace lazyfs::meta {
namespace {

using Block = std::array<std::byte, kBlockBytes>;

// The bytes up to the last one that is not zero, as hex, a space every 8.
std::string hex(std::span<const std::byte> bytes) {
  while (!bytes.empty() && bytes.back() == std::byte{0}) bytes = bytes.first(bytes.size() - 1);
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto byte = std::to_integer<unsigned>(bytes[i]);
    if (i > 0 && i % 8 == 0) text += ' ';
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

void fix_crc(Block& block) {
  store_le_at(std::span(block), 4, crc32c(std::span(block).subspan(8)));
}

// Golden images of version 2 stay: what it wrote is read for ever.
BlockStamp some_stamp(std::uint32_t version = 2) {
  return {small_superblock(4).uuid, 0x0102030405060708, 0x1112131415161718, 0x21222324, version};
}

Descriptor some_descriptor() {
  return {.stamp = some_stamp(),
          .seq = Seq{0x3132},
          .next_node = NodeNo{0x4142},
          .previous = {{0x51, 0x52, Seq{0x53}}, 0x54},
          .tail = {0x61, 0x62, Seq{0x63}},
          .part = 1,
          .descriptors = 3,
          .block = 2,
          .images = 5,
          .entries = {{0x71, 0x72737475, EntryKind::kImage},
                      {0x91, 0x92939495, EntryKind::kCheckpoint},
                      {0x81, 0, EntryKind::kFreed}}};
}

MapCheckpoint some_checkpoint() {
  return {.chain = {{0x11, BandId{0x12}}, {0x21, BandId{0x22}}},
          .parts = {{{{0x11, 0x31, Seq{0x32}}, 9}, 2}, {{{0x21, 0x41, Seq{0x42}}, 4}, 1}},
          .nodes = {{NodeNo{0x51}, 0x34}, {NodeNo{0x61}, 0x35}, {NodeNo{0x71}, 0x42}}};
}

TEST(FormatTest, SuperblockIsGolden) {
  Superblock s = small_superblock(4);
  s.sequence = 7;
  s.band_count = 16;
  s.min_log_bands = 4;
  s.session = 3;
  s.session_start_seq = 5;
  s.durable_seq = 6;
  s.head_slot = 0x11;
  s.head_rba = 0x12;
  s.head_blocks = 0x13;
  s.features = {0x21, 0x22, 0x23};
  s.set_clean_end(true);
  s.mounts = 0x24;
  s.last_mount_seconds = 0x25;
  s.last_check_seconds = 0x26;
  s.new_uuid.fill(0x27);
  Block block;
  encode(s, block);
  EXPECT_EQ(hex(std::span(block).first(208)),
            "4c5a53429a7a168d 0600000001000000 0102030405060708 090a0b0c0d0e0f10 0700000000000000 "
            "1000000000000000 0000000001000000 00f1536500000000 0300000000000000 0500000000000000 "
            "0600000000000000 0400000004000000 0474657374000000 0000000000000000 0000000000000000 "
            "0000000000000000 0000000000000000 0000000000000000 0000000000000000 0000000000000000 "
            "1100000000000000 1200000013000000 2100000022000000 2300000024000000 2500000000000000 "
            "26");
  EXPECT_EQ(hex(std::span(block).subspan(208, 288)), "2727272727272727 2727272727272727");
  EXPECT_EQ(hex(std::span(block).subspan(496)), "0200000003000000 0400000005");
  const auto back = decode_superblock(block);
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, s);
}

TEST(FormatTest, SuperblocksOfOtherVersionsAreRefused) {
  Block block;
  encode(small_superblock(4), block);
  const auto error_of = [&](std::uint32_t version) {
    store_le_at<std::uint32_t>(block, 8, version);
    fix_crc(block);
    return decode_superblock(block).error();
  };
  for (std::uint32_t version = 0; version < 6; ++version) {
    EXPECT_EQ(error_of(version), Errc::kSuperblockVersion) << version;
  }
  EXPECT_EQ(error_of(7), Errc::kSuperblockNewer);
  EXPECT_EQ(error_of(~0u), Errc::kSuperblockNewer);
}

TEST(FormatTest, ANewUuidIsWhatUsersSee) {
  Superblock s = small_superblock(4);
  EXPECT_EQ(s.volume_uuid(), s.uuid);
  s.new_uuid.fill(9);
  EXPECT_EQ(s.volume_uuid(), s.new_uuid);
}

// A later lazyfs gives meanings to flags and room; this one must not lose them.
TEST(FormatTest, ASuperblockKeepsFlagsAndRoomThatItDoesNotKnow) {
  Block block;
  encode(small_superblock(4), block);
  store_le_at<std::uint32_t>(block, 12, 0x80000001);
  block[224] = block[495] = std::byte{0x77};
  fix_crc(block);
  auto superblock = decode_superblock(block);
  ASSERT_TRUE(superblock);
  EXPECT_TRUE(superblock->ended_cleanly());
  superblock->set_clean_end(false);
  Block again;
  encode(*superblock, again);
  store_le_at<std::uint32_t>(block, 12, 0x80000000);
  fix_crc(block);
  EXPECT_EQ(again, block);
}

TEST(FormatTest, ASuperblockNamesAsManyLogBandsAsFitAndNoMore) {
  Block block;
  const Superblock full = small_superblock(kMaxLogBands);
  encode(full, block);
  EXPECT_EQ(decode_superblock(block), full);
  store_le_at<std::uint32_t>(block, 92, kMaxLogBands + 1);
  fix_crc(block);
  EXPECT_EQ(decode_superblock(block).error(), Errc::kSuperblockBad);
}

TEST(FormatTest, HeaderOfAColdBandIsGolden) {
  BandHeader header{some_stamp(3), BandId{9}, 64, true};
  header.stamp.rba = 0;
  Block block;
  encode(header, block);
  EXPECT_EQ(hex(block),
            "4c5a42487cb68ac6 0102030405060708 090a0b0c0d0e0f10 0807060504030201 1817161514131211 "
            "0000000003000000 0900000040000000 01");
  EXPECT_EQ(decode_band_header(block), header);
}

TEST(FormatTest, DescriptorOfColdNodesIsGolden) {
  Descriptor d = some_descriptor();
  d.stamp.version = 3;
  d.entries = {{0x71, 0x72737475, EntryKind::kImage},
               {0x81, 0x82, EntryKind::kColdBand},
               {0x91, 0x92, EntryKind::kColdPart},
               {0xA1, 0xA2, EntryKind::kColdNode}};
  Block block;
  encode(d, DescriptorRole::kFront, block);
  EXPECT_EQ(hex(block),
            "4c5a4445139bc069 0102030405060708 090a0b0c0d0e0f10 0807060504030201 1817161514131211 "
            "2423222103000000 3231000000000000 4241000000000000 5100000000000000 5300000000000000 "
            "5200000062000000 6100000000000000 6300000000000000 0100000003000000 0200000005000000 "
            "0400000054000000 0000000000000000 0000000000000000 7100000000000000 7574737201000000 "
            "8100000000000000 8200000004000000 9100000000000000 9200000005000000 a100000000000000 "
            "a200000006");
  EXPECT_EQ(decode_descriptor(DescriptorRole::kFront, block), d);
}

TEST(FormatTest, DescriptorWithAHistoryIsGoldenAndNotOfVersion3) {
  Descriptor d = some_descriptor();
  d.stamp.version = 4;
  d.entries = {{0x71, 0x72737475, EntryKind::kImage},
               {0x8182838485868788, 0x82, EntryKind::kEarlier},
               {0x91, 0x92939495, EntryKind::kImage}};
  Block block;
  encode(d, DescriptorRole::kFront, block);
  EXPECT_EQ(hex(block),
            "4c5a4445125aa424 0102030405060708 090a0b0c0d0e0f10 0807060504030201 1817161514131211 "
            "2423222104000000 3231000000000000 4241000000000000 5100000000000000 5300000000000000 "
            "5200000062000000 6100000000000000 6300000000000000 0100000003000000 0200000005000000 "
            "0300000054000000 0000000000000000 0000000000000000 7100000000000000 7574737201000000 "
            "8887868584838281 8200000007000000 9100000000000000 9594939201");
  EXPECT_EQ(decode_descriptor(DescriptorRole::kFront, block), d);
  d.stamp.version = 3;
  encode(d, DescriptorRole::kFront, block);
  EXPECT_EQ(decode_descriptor(DescriptorRole::kFront, block).error(), Errc::kLogDescriptorBad);
}

TEST(FormatTest, DescriptorThatNamesDataIsGoldenAndNotOfVersion4) {
  Descriptor d = some_descriptor();
  d.stamp.version = 5;
  d.entries = {{0x71, 0x72737475, EntryKind::kImage},
               {BandAddress{BandId{0x81828384}, 0x85868788}.packed(), 0x91929394, EntryKind::kData,
                0xA1A2A3}};
  Block block;
  encode(d, DescriptorRole::kFront, block);
  EXPECT_EQ(hex(std::span(block).subspan(144)),
            "7100000000000000 7574737201000000 8887868584838281 9493929108a3a2a1");
  EXPECT_EQ(decode_descriptor(DescriptorRole::kFront, block), d);
  const auto is_refused = [&](auto change) {
    Descriptor other = d;
    change(other);
    encode(other, DescriptorRole::kFront, block);
    const auto decoded = decode_descriptor(DescriptorRole::kFront, block);
    return !decoded && decoded.error() == Errc::kLogDescriptorBad;
  };
  EXPECT_TRUE(is_refused([](Descriptor& o) { o.stamp.version = 4; }));
  EXPECT_TRUE(is_refused([](Descriptor& o) { o.entries[1].blocks = 0; }));
  EXPECT_TRUE(is_refused([](Descriptor& o) { o.entries[0].blocks = 1; }));
  EXPECT_TRUE(is_refused([](Descriptor& o) { o.entries[1].kind = static_cast<EntryKind>(9); }));
}

TEST(FormatTest, CheckpointWithColdPartsIsGolden) {
  MapCheckpoint s = some_checkpoint();
  s.cold = {{{{0x13, 0x81, Seq{0x82}}, 2}, 2, BandId{0x14}, {0x21, 0x41}}};
  s.nodes.push_back({NodeNo{0x91}, 0x81});
  s.nodes.push_back({NodeNo{0xA1}, 0x82});
  AlignedBuffer pieces = encode(s, 0x21222324);
  stamp_piece(pieces.span().first<kBlockBytes>(), Seq{0x3132});
  EXPECT_EQ(hex(pieces.span()),
            "4c5a534e374389b7 3231000000000000 0000000001000000 24232221d0000000 0200000001000000 "
            "0200000000000000 0500000000000000 1100000000000000 1200000021000000 0000000022000000 "
            "1100000000000000 3200000000000000 3100000009000000 0200000021000000 0000000042000000 "
            "0000000041000000 0400000001000000 1300000000000000 8200000000000000 8100000002000000 "
            "0200000014000000 2100000000000000 4100000051000000 0000000034000000 6100000000000000 "
            "3500000071000000 0000000042000000 9100000000000000 81000000a1000000 0000000082");
  EXPECT_EQ(decode_checkpoint(pieces.span(), Seq{0x3132}, 0x21222324), s);
}

TEST(FormatTest, BandHeaderIsGolden) {
  BandHeader header{some_stamp(), BandId{9}, 64};
  header.stamp.rba = 0;
  Block block;
  encode(header, block);
  EXPECT_EQ(hex(block),
            "4c5a4248d12328d2 0102030405060708 090a0b0c0d0e0f10 0807060504030201 1817161514131211 "
            "0000000002000000 0900000040");
  const auto back = decode_band_header(block);
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, header);
}

TEST(FormatTest, DescriptorIsGolden) {
  Block block;
  encode(some_descriptor(), DescriptorRole::kFront, block);
  EXPECT_EQ(hex(block),
            "4c5a44457be4fa26 0102030405060708 090a0b0c0d0e0f10 0807060504030201 1817161514131211 "
            "2423222102000000 3231000000000000 4241000000000000 5100000000000000 5300000000000000 "
            "5200000062000000 6100000000000000 6300000000000000 0100000003000000 0200000005000000 "
            "0300000054000000 0000000000000000 0000000000000000 7100000000000000 7574737201000000 "
            "9100000000000000 9594939203000000 8100000000000000 0000000002");
  const auto back = decode_descriptor(DescriptorRole::kFront, block);
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, some_descriptor());
  EXPECT_FALSE(decode_descriptor(DescriptorRole::kCopy, block));
}

TEST(FormatTest, CommitRecordIsGolden) {
  Descriptor commit = some_descriptor();
  commit.descriptors_crc = 0xA1A2A3A4;
  Block block;
  encode(commit, DescriptorRole::kCommit, block);
  EXPECT_EQ(hex(block),
            "4c5a434d0a04920f 0102030405060708 090a0b0c0d0e0f10 0807060504030201 1817161514131211 "
            "2423222102000000 3231000000000000 4241000000000000 5100000000000000 5300000000000000 "
            "5200000062000000 6100000000000000 6300000000000000 0100000003000000 0200000005000000 "
            "0300000054000000 a4a3a2a100000000 0000000000000000 7100000000000000 7574737201000000 "
            "9100000000000000 9594939203000000 8100000000000000 0000000002");
  const auto back = decode_descriptor(DescriptorRole::kCommit, block);
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, commit);
  EXPECT_EQ(decode_descriptor(DescriptorRole::kFront, block).error(), Errc::kLogDescriptorBad);
  commit.block = 1;  // not the last one
  encode(commit, DescriptorRole::kCommit, block);
  EXPECT_EQ(decode_descriptor(DescriptorRole::kCommit, block).error(), Errc::kLogTorn);
  EXPECT_FALSE(decode_descriptor(DescriptorRole::kCopy, block));
}

TEST(FormatTest, CheckpointIsGolden) {
  AlignedBuffer pieces = encode(some_checkpoint(), 0x21222324);
  ASSERT_EQ(pieces.size(), kBlockBytes);
  stamp_piece(pieces.span().first<kBlockBytes>(), Seq{0x3132});
  EXPECT_EQ(hex(pieces.span()),
            "4c5a534e393c71d0 3231000000000000 0000000001000000 242322218c000000 0200000000000000 "
            "0200000000000000 0300000000000000 1100000000000000 1200000021000000 0000000022000000 "
            "1100000000000000 3200000000000000 3100000009000000 0200000021000000 0000000042000000 "
            "0000000041000000 0400000001000000 5100000000000000 3400000061000000 0000000035000000 "
            "7100000000000000 42");
  const auto back = decode_checkpoint(pieces.span(), Seq{0x3132}, 0x21222324);
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, some_checkpoint());
  EXPECT_FALSE(decode_checkpoint(pieces.span(), Seq{0x3133}, 0x21222324));
  EXPECT_FALSE(decode_checkpoint(pieces.span(), Seq{0x3132}, 0x21222325));
}

TEST(FormatTest, NodeIsGolden) {
  Block block;
  NodePage page(block.data());
  page.format(NodeNo{0x1112}, 0, 0x21222324);
  page.insert(0, {2, 3, 4}, as_value("second"));
  page.insert(0, {1, 2, 3}, as_value("first"));
  page.stamp(Seq{0x3132});
  EXPECT_EQ(hex(std::span(block).first(64)),
            "4c5a4e448363a067 3231000000000000 1211000000000000 00000200cf0f0000 2423222100000000 "
            "0000000000000000 cf0fe70f");
  EXPECT_EQ(hex(std::span(block).last(49)),
            "0100000000000000 0203000000000000 0005006669727374 0200000000000000 0304000000000000 "
            "0006007365636f6e 64");
  EXPECT_TRUE(validate_node(block, NodeNo{0x1112}, Seq{0x3132}, 0x21222324));
}

// A later lazyfs gives meanings to flags and room; this one must not lose them.
TEST(FormatTest, ANodeKeepsFlagsAndRoomThatItDoesNotKnow) {
  Block block;
  NodePage page(block.data());
  page.format(NodeNo{1}, 0, 2);
  block[25] = block[36] = block[47] = std::byte{0x77};
  page.stamp(Seq{3});
  EXPECT_TRUE(validate_node(block, NodeNo{1}, Seq{3}, 2));
  page.insert(0, {1, 2, 3}, as_value("value"));
  page.erase(0);
  EXPECT_EQ(block[25], std::byte{0x77});
  EXPECT_EQ(block[36], std::byte{0x77});
  EXPECT_EQ(block[47], std::byte{0x77});
}

TEST(FormatTest, ReservedBytesOfTheLogMayBeAnything) {
  BandHeader header{some_stamp(), BandId{9}, 64};
  header.stamp.rba = 0;
  Block block;
  encode(header, block);
  block[60] = block[4095] = std::byte{0x77};
  fix_crc(block);
  EXPECT_EQ(decode_band_header(block), header);
  encode(some_descriptor(), DescriptorRole::kFront, block);
  block[132] = block[143] = std::byte{0x77};
  fix_crc(block);
  EXPECT_EQ(decode_descriptor(DescriptorRole::kFront, block), some_descriptor());
}

TEST(FormatTest, AFullDescriptorHolds247Entries) {
  Descriptor d = some_descriptor();
  d.entries.assign(kEntriesPerDescriptor, {5, 6, EntryKind::kImage});
  Block block;
  encode(d, DescriptorRole::kCopy, block);
  const auto back = decode_descriptor(DescriptorRole::kCopy, block);
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, d);
}

TEST(FormatTest, EveryFlippedBitIsNoticed) {
  Block super, band, descriptor, commit, node, checkpoint;
  encode(small_superblock(4), super);
  BandHeader header{some_stamp(), BandId{9}, 64};
  header.stamp.rba = 0;
  encode(header, band);
  encode(some_descriptor(), DescriptorRole::kFront, descriptor);
  encode(some_descriptor(), DescriptorRole::kCommit, commit);
  NodePage page(node.data());
  page.format(NodeNo{1}, 0, 2);
  page.insert(0, {1, 2, 3}, as_value("value"));
  page.stamp(Seq{3});
  AlignedBuffer pieces = encode(some_checkpoint(), 2);
  stamp_piece(pieces.span().first<kBlockBytes>(), Seq{3});
  std::ranges::copy(pieces.span(), checkpoint.begin());
  for (std::size_t bit = 0; bit < 8 * kBlockBytes; ++bit) {
    for (Block* block : {&super, &band, &descriptor, &commit, &node, &checkpoint}) {
      (*block)[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    }
    ASSERT_FALSE(decode_superblock(super)) << bit;
    ASSERT_FALSE(decode_band_header(band)) << bit;
    ASSERT_FALSE(decode_descriptor(DescriptorRole::kFront, descriptor)) << bit;
    ASSERT_FALSE(decode_descriptor(DescriptorRole::kCommit, commit)) << bit;
    ASSERT_FALSE(decode_checkpoint(checkpoint, Seq{3}, 2)) << bit;
    ASSERT_FALSE(validate_node(node, NodeNo{1}, Seq{3}, 2)) << bit;
    for (Block* block : {&super, &band, &descriptor, &commit, &node, &checkpoint}) {
      (*block)[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    }
  }
}

TEST(FormatTest, ABlockWithoutTheMagicIsNoSuperblock) {
  EXPECT_EQ(decode_superblock(Block{}).error(), Errc::kNoFilesystem);
}

TEST(FormatTest, ACheckpointOfManyPiecesComesBackAndNoneOfThemCanBeMissing) {
  MapCheckpoint large;
  large.chain = {{7, BandId{3}}};
  for (std::uint32_t i = 0; i < 1000; ++i) {
    large.parts.push_back({{{7, 1 + 8 * i, Seq{1 + i}}, 8}, 3});
    for (std::uint32_t k = 0; k < 3; ++k) {
      large.nodes.push_back({NodeNo{3 * i + k + 1}, 8 * i + k + 2});
    }
  }
  AlignedBuffer pieces = encode(large, 2);
  ASSERT_EQ(pieces.size(), checkpoint_pieces(1, 1000, 0, 3000) * kBlockBytes);
  ASSERT_GT(pieces.size(), 10 * kBlockBytes);
  for (std::size_t at = 0; at < pieces.size(); at += kBlockBytes) {
    stamp_piece(pieces.span().subspan(at).first<kBlockBytes>(), Seq{3});
  }
  const auto back = decode_checkpoint(pieces.span(), Seq{3}, 2);
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, large);
  EXPECT_FALSE(decode_checkpoint(pieces.span().first(pieces.size() - kBlockBytes), Seq{3}, 2));
  EXPECT_FALSE(decode_checkpoint(pieces.span().subspan(kBlockBytes), Seq{3}, 2));
  EXPECT_FALSE(decode_checkpoint({}, Seq{3}, 2));
}

// What a checkpoint says of parts and nodes must make sense, however right its checksums are.
TEST(FormatTest, ACheckpointThatContradictsItselfIsRefused) {
  const auto is_refused = [](auto change) {
    MapCheckpoint s = some_checkpoint();
    change(s);
    AlignedBuffer pieces = encode(s, 2);
    stamp_piece(pieces.span().first<kBlockBytes>(), Seq{3});
    const auto decoded = decode_checkpoint(pieces.span(), Seq{3}, 2);
    return !decoded && decoded.error() == Errc::kLogCheckpointBad;
  };
  const auto with_cold = [&](auto change) {
    return is_refused([&](MapCheckpoint& s) {
      s.cold = {{{{0x13, 0x81, Seq{0x82}}, 2}, 1, BandId{0x14}, {0x21, 0x41}}};
      s.nodes.push_back({NodeNo{0x91}, 0x82});
      change(s);
    });
  };
  EXPECT_FALSE(with_cold([](MapCheckpoint&) {}));
  EXPECT_TRUE(with_cold([](MapCheckpoint& s) { s.cold[0].nodes = 0; }));
  EXPECT_TRUE(with_cold([](MapCheckpoint& s) { s.cold[0].nodes = 2; }));
  EXPECT_TRUE(with_cold([](MapCheckpoint& s) { s.cold[0].place.blocks = 1; }));
  EXPECT_TRUE(with_cold([](MapCheckpoint& s) { s.cold.push_back(s.cold[0]); }));
  EXPECT_TRUE(with_cold([](MapCheckpoint& s) { s.nodes.back().rba = 0x80; }));
  EXPECT_TRUE(is_refused([](MapCheckpoint& s) { s.chain.clear(); }));
  EXPECT_TRUE(is_refused([](MapCheckpoint& s) { s.chain.pop_back(); }));
  EXPECT_TRUE(is_refused([](MapCheckpoint& s) { std::swap(s.chain[0], s.chain[1]); }));
  EXPECT_TRUE(is_refused([](MapCheckpoint& s) { std::swap(s.parts[0], s.parts[1]); }));
  EXPECT_TRUE(is_refused([](MapCheckpoint& s) { s.parts[0].nodes = 3; }));
  EXPECT_TRUE(is_refused([](MapCheckpoint& s) { s.parts[1].nodes = 2; }));
  EXPECT_TRUE(is_refused([](MapCheckpoint& s) { s.parts[1].place.blocks = 1; }));
  EXPECT_TRUE(is_refused([](MapCheckpoint& s) { s.parts[0].place.address.seq = Seq{}; }));
  EXPECT_TRUE(is_refused([](MapCheckpoint& s) { s.parts[0].place.address.rba = 0; }));
  EXPECT_TRUE(is_refused([](MapCheckpoint& s) { s.nodes[0].node = NodeNo{}; }));
  EXPECT_TRUE(is_refused([](MapCheckpoint& s) { s.nodes[0].rba = 0x31; }));
  EXPECT_TRUE(is_refused([](MapCheckpoint& s) { s.nodes[1].rba = 0x31 + 9; }));
  EXPECT_TRUE(is_refused([](MapCheckpoint& s) { std::swap(s.nodes[0], s.nodes[1]); }));
}

// A checksum proves nothing about the origin of the bytes: with a right checksum, any bytes are
// refused or can be used without harm (run under the address sanitizer).
TEST(FormatTest, HostileBytesWithRightChecksumsDoNoHarm) {
  std::mt19937_64 random(test_seed());
  Block good;
  NodePage page(good.data());
  page.format(NodeNo{1}, 0, 2);
  for (unsigned i = 0; i < 30; ++i) page.insert(i, {1, 1, i}, as_value(std::string(i * 3, 'v')));
  page.stamp(Seq{3});
  Block descriptor, super, checkpoint;
  AlignedBuffer pieces = encode(some_checkpoint(), 2);
  stamp_piece(pieces.span().first<kBlockBytes>(), Seq{3});
  std::ranges::copy(pieces.span(), checkpoint.begin());
  encode(some_descriptor(), DescriptorRole::kFront, descriptor);
  encode(small_superblock(4), super);
  int accepted = 0;
  for (int round = 0; round < 30000; ++round) {
    for (const Block* from : {&good, &descriptor, &super, &checkpoint}) {
      Block block = *from;
      for (unsigned n = 1 + random() % 3; n > 0; --n) {
        const std::size_t at = 8 + random() % (random() % 2 ? 160 : kBlockBytes - 8);
        block[at] = static_cast<std::byte>(random());
      }
      fix_crc(block);
      (void)decode_descriptor(DescriptorRole::kFront, block);
      (void)decode_checkpoint(block, Seq{3}, 2);
      (void)decode_superblock(block);
      if (!validate_node(block, NodeNo{1}, Seq{3}, 2)) continue;
      ++accepted;
      NodePage changed(block.data());
      for (unsigned i = 0; i < changed.count(); ++i) changed.replace(i, changed.value(i));
      while (changed.count() > 0) changed.erase(changed.count() / 2);
      EXPECT_EQ(changed.free_bytes(), kNodeRoomBytes);
    }
  }
  EXPECT_GT(accepted, 100);
}

TEST(NodePageTest, AgreesWithAMapThroughRandomChanges) {
  std::mt19937_64 random(test_seed());
  Block block;
  NodePage page(block.data());
  page.format(NodeNo{1}, 0, 2);
  Model model;
  for (int round = 0; round < 30000; ++round) {
    const Key key{random() % 3, 1, random() % 40};
    const unsigned i = page.lower_bound(key);
    ASSERT_EQ(page.has(i, key), model.contains(key));
    const std::string value(random() % (round % 7 == 0 ? 400 : 60), static_cast<char>(random()));
    if (random() % 3 == 0) {
      if (page.has(i, key)) page.erase(i);
      model.erase(key);
    } else if (page.has(i, key)) {
      if (value.size() > page.value(i).size() + page.free_bytes()) continue;
      page.replace(i, as_value(value));
      model[key] = value;
    } else if (item_room(value.size()) <= page.free_bytes()) {
      page.insert(i, key, as_value(value));
      model[key] = value;
    }
    ASSERT_EQ(page.count(), model.size());
    if (round % 50 != 0) continue;
    page.stamp(Seq{1});
    ASSERT_TRUE(validate_node(block, NodeNo{1}, Seq{1}, 2));
    unsigned at = 0;
    for (const auto& [k, v] : model) {
      ASSERT_EQ(page.key(at), k);
      ASSERT_TRUE(std::ranges::equal(page.value(at), as_value(v)));
      ++at;
    }
  }
}

TEST(NodePageTest, IsNotTakenForAnotherNodeOrAnotherTransactionsImage) {
  Block block;
  NodePage page(block.data());
  page.format(NodeNo{1}, 0, 2);
  page.stamp(Seq{3});
  EXPECT_TRUE(validate_node(block, NodeNo{1}, Seq{3}, 2));
  EXPECT_EQ(validate_node(block, NodeNo{2}, Seq{3}, 2).error(), Errc::kNodeBad);
  EXPECT_EQ(validate_node(block, NodeNo{1}, Seq{4}, 2).error(), Errc::kNodeBad);
  EXPECT_EQ(validate_node(block, NodeNo{1}, Seq{3}, 3).error(), Errc::kNodeBad);
}

}  // namespace
}  // namespace lazyfs::meta
