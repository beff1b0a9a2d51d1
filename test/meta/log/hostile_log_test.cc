// Logs whose checksums are right and that no lazyfs has written: opening refuses what would lead
// out of bounds, and lives with the rest.
#include <algorithm>

#include "base/buffer.h"
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
