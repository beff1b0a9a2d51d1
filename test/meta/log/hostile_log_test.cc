// Logs whose checksums are right and that no lazyfs has written: opening refuses what would lead
// out of bounds, and lives with the rest.
#include <algorithm>
#include <array>
#include <functional>

#include "base/buffer.h"
#include "base/crc32c.h"
#include "device/memory.h"
#include "test/meta/fixture.h"
#include "meta/log/log.h"
#include "meta/tree/node_page.h"
#include "meta/log/recovery.h"
#include "meta/log/superblock_format.h"
#include "meta/tree/tree.h"

namespace lazyfs::meta {
namespace {

constexpr std::uint64_t kChainSlot = first_slot_of(5);
constexpr std::uint64_t kSession = 6;

DescriptorEntry image(std::uint64_t node) { return {node, 0, EntryKind::kImage}; }
DescriptorEntry cold_band(std::uint64_t slot, std::uint32_t band) {
  return {slot, band, EntryKind::kColdBand};
}
DescriptorEntry cold_part(std::uint64_t seq, std::uint32_t rba) {
  return {seq, rba, EntryKind::kColdPart};
}
DescriptorEntry cold_node(std::uint64_t node, std::uint32_t rba) {
  return {node, rba, EntryKind::kColdNode};
}

// A part of one descriptor in band 2.
RecoveredPart part_at(std::uint32_t rba, std::uint64_t seq, std::vector<DescriptorEntry> entries) {
  const auto images = static_cast<std::uint32_t>(
      std::ranges::count(entries, EntryKind::kImage, &DescriptorEntry::kind));
  return {{{kChainSlot, rba, Seq{seq}}, images + 2}, BandId{2}, 1, std::move(entries)};
}

class HostileMapTest : public ::testing::Test {
 protected:
  HostileMapTest() {
    found.chain = {{kChainSlot, BandId{2}}};
    found.spare = {BandId{3}, BandId{4}};
    found.head_rba = 40;
    found.parts = {part_at(1, 10, {image(1), image(2)}), part_at(5, 11, {image(3)})};
  }
  bool is_sound() const { return Log(*device, {Uuid{}, kSession}, found).is_sound(); }

  std::unique_ptr<device::MemoryDevice> device = device::MemoryDevice::uniform(6, 64);
  RecoveredLog found;
};

TEST_F(HostileMapTest, PartsThatFollowOneAnotherAreSound) {
  EXPECT_TRUE(is_sound());
  found.parts[0].entries.push_back(cold_band(kChainSlot - 1, 3));
  found.parts[0].entries.push_back(cold_part(9, 10));
  found.parts[0].entries.push_back(cold_node(5, 10));
  found.parts[0].entries.push_back(cold_node(6, 19));
  found.parts[0].entries.push_back(cold_part(9, 20));
  found.parts[0].entries.push_back(cold_node(7, 20));
  EXPECT_TRUE(is_sound());
}

TEST_F(HostileMapTest, PartsThatOverlapAreNot) {
  found.parts[1].place.address.rba = 4;
  EXPECT_FALSE(is_sound());
}

TEST_F(HostileMapTest, ColdPartsThatOverlapAreNot) {
  found.parts[0].entries.push_back(cold_band(kChainSlot - 1, 3));
  found.parts[0].entries.push_back(cold_part(9, 10));
  found.parts[0].entries.push_back(cold_node(5, 50));
  found.parts[0].entries.push_back(cold_part(9, 20));
  found.parts[0].entries.push_back(cold_node(6, 21));
  EXPECT_FALSE(is_sound());
}

TEST_F(HostileMapTest, AColdNodeOutsideOfItsPartOrItsBandIsNot) {
  for (const std::uint32_t rba : {9, 10, 63, 64}) {
    SCOPED_TRACE(rba);
    auto& entries = found.parts[0].entries;
    entries = {image(1), image(2), cold_band(kChainSlot - 1, 3), cold_part(9, 10),
               cold_node(5, rba)};
    EXPECT_EQ(is_sound(), rba >= 10 && rba < 64);
  }
}

TEST_F(HostileMapTest, AColdBandThatTheDeviceDoesNotHaveIsNot) {
  for (const std::uint32_t band : {3u, 6u, ~0u}) {
    SCOPED_TRACE(band);
    auto& entries = found.parts[0].entries;
    entries = {image(1), image(2), cold_band(kChainSlot - 1, band), cold_part(9, 10),
               cold_node(5, 10)};
    EXPECT_EQ(is_sound(), band == 3);
  }
}

TEST_F(HostileMapTest, ASlotOfTwoColdBandsIsNot) {
  for (const std::uint32_t second : {3, 4}) {
    SCOPED_TRACE(second);
    auto& entries = found.parts[0].entries;
    entries = {image(1),         image(2),        cold_band(kChainSlot - 1, 3), cold_part(9, 10),
               cold_node(5, 10), cold_band(kChainSlot - 1, second), cold_part(9, 20),
               cold_node(6, 20)};
    EXPECT_EQ(is_sound(), second == 3);
  }
}

TEST_F(HostileMapTest, APartOfTheChainIsNotAdoptedIntoAnotherBand) {
  found.parts[1].entries.push_back(cold_band(kChainSlot, 3));
  found.parts[1].entries.push_back(cold_part(10, 1));
  EXPECT_FALSE(is_sound());
}

TEST_F(HostileMapTest, ASlotBehindWhichNoneCanComeIsNot) {
  found.chain[0].slot = ~0ull;
  for (RecoveredPart& part : found.parts) part.place.address.slot = ~0ull;
  EXPECT_FALSE(is_sound());
}

// Slots that the sessions to come would use.
TEST_F(HostileMapTest, TheNextBandComesBehindThoseThatAreThere) {
  const std::uint64_t slot = first_slot_of(kSession + 7);
  found.chain[0].slot = slot;
  for (RecoveredPart& part : found.parts) part.place.address.slot = slot;
  found.head_rba = 64;
  Log log(*device, {Uuid{}, kSession}, found);
  log.reset_retired();
  ASSERT_TRUE(log.is_sound());
  const auto plan = log.plan(Seq{12}, 3, 0);
  ASSERT_TRUE(plan);
  EXPECT_GT(plan->parts.front().room.slot, slot);
}

TEST_F(HostileMapTest, ARunOfNodesIsInOrderHoweverTheyAreListed) {
  found.parts[0].entries.push_back(cold_band(kChainSlot - 1, 3));
  found.parts[0].entries.push_back(cold_part(9, 10));
  for (const std::uint32_t rba : {20, 30, 12, 11, 25, 13}) {
    found.parts[0].entries.push_back(cold_node(100 + rba, rba));
  }
  Log log(*device, {Uuid{}, kSession}, found);
  for (const std::uint64_t rba : {20, 30, 12, 11, 25, 13}) {
    const auto run = log.find_run(NodeNo{100 + rba}, 16, 16);
    ASSERT_FALSE(run.empty());
    EXPECT_TRUE(std::ranges::is_sorted(run, {}, &Log::LiveNode::address));
  }
}

// ---- On a device --------------------------------------------------------------------------------

class HostileLogTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kLogBands = 6, kBandBlocks = 64;

  void SetUp() override {
    ASSERT_TRUE(Store::format(*device, small_superblock(kLogBands)));
    auto store = Store::open(*device, quiet_options());
    ASSERT_TRUE(store);
    for (std::uint64_t key = 0; key < 60; ++key) put(**store, key);
    ASSERT_TRUE((*store)->close());
  }
  void put(Store& store, std::uint64_t key) {
    Batch batch;
    const std::string value(900, 'v');
    batch.put({1, 1, key}, as_value(value));
    const auto applied = store.apply(batch);
    ASSERT_TRUE(applied) << describe(applied.error());
    model[{1, 1, key}] = value;
  }
  // One more transaction of the newest session.
  void append(Seq seq, std::span<const LogImage> images, NodeNo next_node) {
    const auto superblock = read_superblock(*device);
    ASSERT_TRUE(superblock);
    const auto found = recover_log(*device, *superblock);
    ASSERT_TRUE(found);
    Log log(*device, {superblock->uuid, superblock->session}, *found);
    const auto plan = log.plan(seq, images.size(), 0);
    ASSERT_TRUE(plan);
    ASSERT_TRUE(log.write(*plan, images, {}, next_node));
  }
  // Appends a transaction that carries the checkpoint of the log with a change. Returns whether
  // recovery uses it.
  bool is_checkpoint_used(
      const std::function<void(MapCheckpoint&, const PartAddress& carrier)>& change) {
    const RecoveredLog before = recover();
    const auto superblock = read_superblock(*device);
    const Seq seq{before.seq.value + 1};
    const Log log(*device, {superblock->uuid, superblock->session}, before);
    MapCheckpoint checkpoint = log.checkpoint();
    change(checkpoint, {before.chain.back().slot, before.head_rba, seq});
    AlignedBuffer pieces = encode(checkpoint, fs_tag_of(superblock->uuid));
    EXPECT_EQ(pieces.size(), kBlockBytes);
    const std::uint32_t crc = stamp_piece(pieces.span().first<kBlockBytes>(), seq);
    EXPECT_TRUE(decode_checkpoint(pieces.span(), seq, fs_tag_of(superblock->uuid)));
    const LogImage image{0, pieces.data(), crc, EntryKind::kCheckpoint};
    append(seq, std::span(&image, 1), before.next_node);
    const RecoveredLog found = recover();
    EXPECT_EQ(found.seq, seq);
    return found.parts.size() == 1;
  }
  // Appends a part without images, and a commit record for it that `change` may make wrong.
  PartPlace append_part(Descriptor d, const std::function<void(Descriptor&)>& change = {}) {
    const auto superblock = read_superblock(*device);
    const ChainBand head = recover().chain.back();
    const std::uint32_t rba = *device->write_pointer(head.band);
    AlignedBuffer blocks(2 * kBlockBytes);
    d.stamp = {superblock->uuid, superblock->session, head.slot, rba};
    d.next_node = NodeNo{100};
    d.descriptors = 1;
    encode(d, DescriptorRole::kFront, blocks.span().first<kBlockBytes>());
    d.stamp.rba = rba + 1;
    d.descriptors_crc = crc32c(blocks.span().subspan(4, 4));
    if (change) change(d);
    encode(d, DescriptorRole::kCommit, blocks.span().last<kBlockBytes>());
    EXPECT_TRUE(device->append({head.band, rba}, blocks.span()));
    return {{head.slot, rba, d.seq}, 2};
  }
  RecoveredLog recover() {
    const auto superblock = read_superblock(*device);
    EXPECT_TRUE(superblock);
    auto found = recover_log(*device, *superblock);
    EXPECT_TRUE(found) << describe(found.error());
    return found ? std::move(*found) : RecoveredLog{};
  }

  std::unique_ptr<device::MemoryDevice> device =
      device::MemoryDevice::uniform(kLogBands + 2, kBandBlocks);
  Model model;
};

TEST_F(HostileLogTest, ANumberThatIsInUseIsNotGivenOutAgain) {
  const RecoveredLog before = recover();
  ASSERT_GT(before.next_node.value, 10u);
  AlignedBuffer root(kBlockBytes);
  {
    const auto superblock = read_superblock(*device);
    Log log(*device, {superblock->uuid, superblock->session}, before);
    const auto place = log.find(Tree::kRoot);
    ASSERT_TRUE(place);
    ASSERT_TRUE(device->read(place->address, root.span()));
  }
  const Seq seq{before.seq.value + 1};
  NodePage page(root.data());
  const LogImage image{Tree::kRoot.value, root.data(), page.stamp(seq)};
  append(seq, std::span(&image, 1), NodeNo{2});
  auto store = Store::open(*device, quiet_options());
  ASSERT_TRUE(store) << describe(store.error());
  EXPECT_EQ(contents_of(**store), model);
  for (std::uint64_t key = 100; key < 130; ++key) put(**store, key);
  ASSERT_TRUE((*store)->commit());
  EXPECT_EQ(contents_of(**store), model);
  EXPECT_EQ(problems_of(**store), std::vector<std::string>{});
}

// The checksum within a piece is right, as is that of one which an earlier session wrote there.
TEST_F(HostileLogTest, APieceOfACheckpointIsTheOneThatTheDescriptorNames) {
  for (const std::uint32_t wrong : {0u, 1u}) {
    const RecoveredLog before = recover();
    const auto superblock = read_superblock(*device);
    AlignedBuffer pieces;
    {
      Log log(*device, {superblock->uuid, superblock->session}, before);
      pieces = encode(log.checkpoint(), fs_tag_of(superblock->uuid));
    }
    ASSERT_EQ(pieces.size(), kBlockBytes);
    const Seq seq{before.seq.value + 1};
    const std::uint32_t crc = stamp_piece(pieces.span().first<kBlockBytes>(), seq);
    const LogImage image{0, pieces.data(), crc ^ wrong, EntryKind::kCheckpoint};
    append(seq, std::span(&image, 1), before.next_node);
    const RecoveredLog found = recover();
    EXPECT_EQ(found.seq, seq);
    EXPECT_EQ(found.parts.size() == 1, wrong == 0);
  }
}

// Its checksums are right, and it agrees with itself.
TEST_F(HostileLogTest, ACheckpointThatContradictsTheLogIsNotUsed) {
  using Change = std::function<void(MapCheckpoint&, const PartAddress& carrier)>;
  const std::vector<Change> changes{
      [](MapCheckpoint& c, const PartAddress&) { c.chain[0].band = BandId{~0u}; },
      [](MapCheckpoint& c, const PartAddress& carrier) {
        c.chain.push_back({carrier.slot + 1, BandId{kLogBands + 1}});
      },
      [](MapCheckpoint& c, const PartAddress&) { c.parts.back().place.blocks = kBandBlocks; },
      [](MapCheckpoint& c, const PartAddress& carrier) { c.parts.push_back({{carrier, 3}, 0}); },
      [](MapCheckpoint& c, const PartAddress&) { c.nodes.back().node = NodeNo{1'000'000}; }};
  EXPECT_TRUE(is_checkpoint_used([](MapCheckpoint&, const PartAddress&) {}));
  for (std::size_t i = 0; i < changes.size(); ++i) {
    EXPECT_FALSE(is_checkpoint_used(changes[i])) << i;
    auto store = Store::open(*device, quiet_options());
    ASSERT_TRUE(store) << i << ": " << describe(store.error());
    EXPECT_EQ(contents_of(**store), model);
    ASSERT_TRUE((*store)->close());
  }
}

// The descriptor names more blocks after the first piece than pieces.
TEST_F(HostileLogTest, ACheckpointWithANodePastItsPiecesIsNotUsed) {
  const RecoveredLog before = recover();
  const auto superblock = read_superblock(*device);
  const Seq seq{before.seq.value + 1};
  AlignedBuffer pieces, node = AlignedBuffer::zeroed(kBlockBytes);
  {
    const Log log(*device, {superblock->uuid, superblock->session}, before);
    pieces = encode(log.checkpoint(), fs_tag_of(superblock->uuid));
  }
  const std::uint32_t crc = stamp_piece(pieces.span().first<kBlockBytes>(), seq);
  const std::array<LogImage, 2> images{{{0, pieces.data(), crc, EntryKind::kCheckpoint},
                                        {2, node.data(), crc32c(node.span().subspan(8))}}};
  append(seq, images, before.next_node);
  const RecoveredLog found = recover();
  EXPECT_EQ(found.seq, seq);
  EXPECT_GT(found.parts.size(), 1u);
}

// Counting up from it would overflow.
TEST_F(HostileLogTest, ANumberPastWhichNoneCanComeIsRefused) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 62;
  for (const std::uint64_t next_node : {kMost - 1, kMost}) {
    const RecoveredLog before = recover();
    append(Seq{before.seq.value + 1}, {}, NodeNo{next_node});
    const auto found = recover_log(*device, *read_superblock(*device));
    EXPECT_EQ(found.has_value(), next_node < kMost);
  }
}

// A power cut may show what the band held before: perhaps a file with an image of another volume.
TEST_F(HostileLogTest, ACommitRecordOfAnotherVolumeIsPassedOver) {
  const RecoveredLog before = recover();
  const auto superblock = read_superblock(*device);
  const BandAddress end{before.chain.back().band, before.head_rba};
  Descriptor commit{.stamp = {superblock->uuid, superblock->session + 1, before.chain.back().slot,
                              end.rba},
                    .seq = Seq{before.seq.value + 1},
                    .next_node = before.next_node,
                    .descriptors = 1};
  commit.stamp.uuid[0] ^= 1;
  AlignedBuffer block(kBlockBytes);
  encode(commit, DescriptorRole::kCommit, block.span().first<kBlockBytes>());
  ASSERT_TRUE(decode_descriptor(DescriptorRole::kCommit, block.span().first<kBlockBytes>()));
  ASSERT_TRUE(device->append(end, block.span()));
  EXPECT_EQ(recover().seq, before.seq);
}

// Blocks of another transaction may lie before it.
TEST_F(HostileLogTest, ACommitRecordEndsTheTransactionThatItNamesAndNoOther) {
  using Change = std::function<void(Descriptor&)>;
  const std::vector<Change> changes{[](Descriptor&) {}, [](Descriptor& d) { d.part = 1; },
                                    [](Descriptor& d) { d.descriptors_crc ^= 1; }};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const RecoveredLog before = recover();
    append_part({.seq = Seq{before.seq.value + 1},
                 .previous = before.parts.back().place,
                 .tail = before.parts.back().place.address},
                changes[i]);
    EXPECT_EQ(recover().seq != before.seq, i == 0) << i;
  }
}

TEST_F(HostileLogTest, APartThatNamesItselfIsNotFollowedForEver) {
  const RecoveredLog before = recover();
  const Seq seq{before.seq.value + 1};
  const PartAddress next{before.chain.back().slot, before.head_rba, seq};
  const PartAddress tail{next.slot, 1, Seq{1}};
  const PartPlace loop =
      append_part({.seq = seq, .previous = {next, 2}, .tail = tail, .part = 1});
  EXPECT_EQ(loop.address, next);
  EXPECT_EQ(recover().seq, before.seq);
  append_part({.seq = Seq{seq.value + 1}, .previous = loop, .tail = tail});
  EXPECT_EQ(recover_log(*device, *read_superblock(*device)).error(), Errc::kLogTailLost);
}

TEST_F(HostileLogTest, ABandThatNoLogCanUseIsNoLogBand) {
  auto superblock = read_superblock(*device);
  ASSERT_TRUE(superblock);
  device::Geometry geometry = device->geometry();
  geometry.band_blocks[3] = 3;
  device::MemoryDevice small(geometry);
  AlignedBuffer block(kBlockBytes);
  encode(*superblock, block.span().first<kBlockBytes>());
  ASSERT_TRUE(small.append({BandId{0}, 0}, block.span()));
  EXPECT_EQ(read_superblock(small).error(), Errc::kSuperblockBad);
}

}  // namespace
}  // namespace lazyfs::meta
