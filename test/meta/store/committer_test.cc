// A commit beside the failure of the store.
#include "meta/store/committer.h"

#include <array>
#include <thread>

#include "device/faulty.h"
#include "meta/store/commit_cycles.h"
#include "test/meta/fixture.h"
#include "test/meta/spare_bands.h"

namespace lazyfs::meta {
namespace {

// An entry of a cold index that belongs to no band: nothing comes of it.
constexpr DescriptorEntry kNoBand{1, 0, EntryKind::kColdNode};

class CommitterTest : public ::testing::Test {
 protected:
  explicit CommitterTest(const device::Capabilities& capabilities = {})
      : device(device::MemoryDevice::uniform(16, 256, capabilities)) {}
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

  // Nodes that the newest transaction has written into one band, pinned.
  std::vector<NodePin> nodes(std::size_t count) {
    std::vector<NodePin> pins;
    {
      WriterLock lock(tree.mu);
      for (std::size_t i = 0; i < count; ++i) {
        Node& node = tree.cache.create(0);
        node.pins.fetch_add(1);
        pins.emplace_back(node);
      }
    }
    EXPECT_TRUE(committer.commit(Additions{}));
    return pins;
  }
  // What the cleaner adds to move the nodes, which lie in the newest band of the chain.
  Additions moves(std::vector<NodePin> nodes) {
    Additions additions;
    additions.victim = CleanChoice{CleanChoice::Kind::kMove, log.newest().address.slot, false};
    additions.nodes = std::move(nodes);
    return additions;
  }
  // Of a node that is not in memory, whose image is damaged.
  void add_damaged(NodePin& pin, Additions& to) {
    const NodeNo node = (*pin).number;
    const auto place = log.find(node);
    ASSERT_TRUE(place);
    AlignedBuffer bytes(kBlockBytes);
    ASSERT_TRUE(device->read(place->address, bytes.span()));
    const LogImage image{node.value, bytes.data(), 0};
    to.damaged.push_back({image, *place, std::move(bytes)});
    pin = NodePin();
    WriterLock lock(tree.mu);  // evicts what nobody uses
    tree.cache.set_limit(1);
    std::byte* const other = tree.cache.take_image();
    NodePage(other).format(NodeNo{1'000'000 + node.value}, 0, tree.fs_tag);
    const NodePin evicts(tree.cache.insert_clean(NodeNo{1'000'000 + node.value}, other));
    ASSERT_EQ(tree.cache.find(node), nullptr);
  }
  void change(NodePin& pin) {
    WriterLock lock(tree.mu);
    tree.cache.make_dirty(*pin);
  }
  void break_super_bands() {
    faulty.fail_when([](const device::CallInfo& info) -> std::optional<device::Fault> {
      const bool fails = info.call == device::Call::kAppend && info.at.band.value < 2;
      return fails ? std::optional(device::Fault{Errc::kDeviceWrite}) : std::nullopt;
    });
  }
  LogLimits limits() {
    ReaderLock lock(tree.mu);
    return tree.limits;
  }
  void keep_no_cold_bands() {
    WriterLock lock(tree.mu);
    tree.limits.has_cold = false;
  }
  // Writes the root, and at last new nodes, until this many blocks of the head band are left.
  void fill_log(std::uint64_t available) {
    for (;;) {
      const std::uint64_t over = log.space().available - available;
      if (over == 0) return;
      ASSERT_TRUE(over >= 3 && over < 1000) << over;  // a node takes two blocks more
      if (over > 3 && over < 6) {
        nodes(over - 2);
        continue;
      }
      write_root();
    }
  }
  void change_root() {
    WriterLock lock(tree.mu);
    tree.cache.make_dirty(*tree.cache.find(Tree::kRoot));
  }
  void write_root() {
    change_root();
    ASSERT_TRUE(committer.commit(Additions{}));
  }
  // Writes the root until it begins another band.
  void fill_band() {
    const std::uint64_t slot = log.newest().address.slot;
    while (log.newest().address.slot == slot) write_root();
  }
  std::unique_ptr<device::MemoryDevice> device;
  StoreOptions options = quiet_options();
  StoreFailure failure;
  CommitCycles cycles{failure};
  device::FaultyDevice faulty{*device};
  Log log{faulty, {Uuid{}, 1}, empty_log()};
  SharedTree tree{1000, 7, Seq{1}, Tree::kRoot, 0};
  StoreSuperblock superblock{faulty, log, failure, small_superblock(8)};
  LogSizer sizer{faulty, options, log, tree, superblock, [] {}};
  Committer committer{faulty, log, tree, sizer, superblock, cycles, failure, Seq{0}};
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

TEST_F(CommitterTest, MovesNodesToAColdBand) {
  std::vector<NodePin> pins = nodes(10);
  std::vector<NodeNo> numbers;
  for (const NodePin& pin : pins) numbers.push_back((*pin).number);
  const std::uint64_t slot = log.newest().address.slot;
  ASSERT_TRUE(committer.commit(moves(std::move(pins))));
  EXPECT_EQ(committer.figures().nodes_cleaned, 10u);
  EXPECT_EQ(committer.figures().nodes_cooled, 10u);
  EXPECT_EQ(log.figures().cold_live, 10u);
  for (const NodeNo node : numbers) EXPECT_FALSE(log.is_live_in(slot, node));
}

TEST_F(CommitterTest, MovesNoMoreNodesThanTheColdBandHasRoomFor) {
  ASSERT_TRUE(committer.commit(moves(nodes(230))));
  ASSERT_EQ(log.space().cold_room, 25u);
  ASSERT_TRUE(committer.commit(moves(nodes(100))));
  EXPECT_EQ(log.space().cold_room, 0u);
  EXPECT_EQ(committer.figures().nodes_cooled, 255u);
  EXPECT_EQ(committer.figures().nodes_cleaned, 255u);
  EXPECT_EQ(log.figures().cold_live, 255u);
  ASSERT_TRUE(committer.commit(moves(nodes(100))));  // to another one
  EXPECT_EQ(log.figures().cold_bands, 2u);
  EXPECT_EQ(log.figures().cold_live, 355u);
}

// The index of the nodes lies in the hot log, also when the cold band has room for all of them.
TEST_F(CommitterTest, MovesAsManyNodesToTheRestOfAColdBandAsTheHotLogCanIndex) {
  ASSERT_TRUE(committer.commit(moves(nodes(1))));
  ASSERT_EQ(log.space().cold_room, 254u);
  Additions additions = moves(nodes(60));
  std::vector<NodePin> freed = nodes(200);
  while (log.remove_free_band()) continue;
  fill_log(limits().cost(0, 200 + 60 + 2) - 1);
  {
    WriterLock lock(tree.mu);
    for (const NodePin& pin : freed) tree.cache.free_node(*pin);
  }
  ASSERT_TRUE(committer.commit(std::move(additions)));
  EXPECT_EQ(committer.figures().nodes_cooled, 1u + 45u);  // a descriptor has 247 entries
}

TEST_F(CommitterTest, MovesNothingToAColdBandWhenTheHotLogCannotIndexIt) {
  ASSERT_TRUE(committer.commit(moves(nodes(1))));
  Additions additions = moves(nodes(20));
  while (log.remove_free_band()) continue;
  fill_log(1);
  EXPECT_TRUE(committer.commit(std::move(additions)));
  EXPECT_FALSE(failure.has_failed());
  EXPECT_EQ(log.figures().cold_live, 1u);
  EXPECT_EQ(log.space().cold_room, 254u);
}

TEST_F(CommitterTest, MovesDamagedNodesFirst) {
  std::vector<NodePin> good = nodes(60);
  Additions additions;
  for (int i = 0; i < 3; ++i) {
    add_damaged(good.back(), additions);
    good.pop_back();
  }
  additions.victim = CleanChoice{CleanChoice::Kind::kMove, log.newest().address.slot, false};
  additions.nodes = std::move(good);
  ASSERT_TRUE(committer.commit(std::move(additions)));
  EXPECT_EQ(committer.figures().nodes_cooled, 60u);
  EXPECT_EQ(committer.figures().nodes_cleaned, 57u);
  EXPECT_EQ(log.figures().cold_live, 60u);
}

TEST_F(CommitterTest, MovesAsManyNodesAsTheHotLogHasRoomFor) {
  keep_no_cold_bands();
  std::vector<NodePin> pins = nodes(40);
  while (log.remove_free_band()) continue;
  fill_log(30);
  const std::uint64_t available = log.space().available;
  std::uint64_t room = 0;
  while (limits().cost(room + 1, 0) <= available) ++room;
  ASSERT_GT(room, 4u);
  std::vector<NodeNo> numbers;
  std::vector<std::optional<Log::Location>> places;
  for (const NodePin& pin : pins) {
    numbers.push_back((*pin).number);
    places.push_back(log.find(numbers.back()));
  }
  Additions additions = moves({});
  for (NodePin& pin : std::span(pins).first(2)) add_damaged(pin, additions);
  for (NodePin& pin : std::span(pins).subspan(2)) additions.nodes.push_back(std::move(pin));
  ASSERT_TRUE(committer.commit(std::move(additions)));
  EXPECT_EQ(committer.figures().nodes_cleaned, room - 2);
  EXPECT_EQ(committer.figures().nodes_cooled, 0u);
  EXPECT_EQ(log.figures().cold_bands, 0u);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    EXPECT_EQ(log.find(numbers[i]) != places[i], i < room) << i;
  }
}

TEST_F(CommitterTest, MovesAsManyDamagedNodesAsTheHotLogHasRoomFor) {
  keep_no_cold_bands();
  std::vector<NodePin> pins = nodes(20);
  while (log.remove_free_band()) continue;
  fill_log(10);
  std::uint64_t room = 0;
  while (limits().cost(room + 1, 0) <= 10) ++room;
  ASSERT_GT(room, 2u);
  std::vector<NodeNo> numbers;
  std::vector<std::optional<Log::Location>> places;
  Additions additions = moves({});
  for (NodePin& pin : pins) {
    numbers.push_back((*pin).number);
    places.push_back(log.find(numbers.back()));
    add_damaged(pin, additions);
  }
  ASSERT_TRUE(committer.commit(std::move(additions)));
  EXPECT_EQ(committer.figures().nodes_cleaned, 0u);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    EXPECT_EQ(log.find(numbers[i]) != places[i], i < room) << i;
  }
}

TEST_F(CommitterTest, ANodeThatHasChangedMeanwhileIsNotCold) {
  std::vector<NodePin> pins = nodes(2);
  change(pins[0]);
  ASSERT_TRUE(committer.commit(moves(std::move(pins))));
  EXPECT_EQ(committer.figures().nodes_cleaned, 1u);
  EXPECT_EQ(log.figures().cold_live, 1u);
}

// A later read was right, and the node has changed since the cleaner has read it.
TEST_F(CommitterTest, ADamagedImageDoesNotReplaceANodeThatHasChangedMeanwhile) {
  keep_no_cold_bands();
  std::vector<NodePin> pins = nodes(1);
  const NodeNo node = (*pins[0]).number;
  Additions additions = moves({});
  add_damaged(pins[0], additions);
  {
    WriterLock lock(tree.mu);
    std::byte* const image = tree.cache.take_image();
    NodePage(image).format(node, 0, tree.fs_tag);
    const NodePin pin(tree.cache.insert_clean(node, image));
    tree.cache.make_dirty(*pin).insert(0, Key{1, 1, 1}, as_value("new"));
  }
  ASSERT_TRUE(committer.commit(std::move(additions)));
  AlignedBuffer bytes(kBlockBytes);
  ASSERT_TRUE(device->read(log.find(node)->address, bytes.span()));
  EXPECT_EQ(ConstNodePage(bytes.data()).count(), 1u);
}

TEST_F(CommitterTest, ADamagedNodeThatWasMovedMeanwhileIsNotMovedAgain) {
  std::vector<NodePin> pins = nodes(1);
  const NodeNo node = (*pins[0]).number;
  Additions first = moves({}), second = moves({});
  add_damaged(pins[0], first);
  AlignedBuffer bytes(kBlockBytes);
  std::ranges::copy(first.damaged[0].bytes.span(), bytes.data());
  const LogImage image{node.value, bytes.data(), 0};
  second.damaged.push_back({image, first.damaged[0].place, std::move(bytes)});
  ASSERT_TRUE(committer.commit(std::move(first)));
  const auto place = log.find(node);
  ASSERT_TRUE(committer.commit(std::move(second)));
  EXPECT_EQ(log.find(node), place);
}

TEST_F(CommitterTest, ACheckpointThatWouldTakeTheReserveIsLeftOut) {
  ASSERT_TRUE(committer.commit(Additions{}));
  while (log.remove_free_band()) continue;
  ASSERT_LT(log.space().available, limits().reserve);
  Additions additions;
  additions.checkpoint = AlignedBuffer::zeroed(2 * kBlockBytes);
  ASSERT_TRUE(committer.commit(std::move(additions)));
  EXPECT_EQ(committer.figures().checkpoints, 0u);
}

// Names may take a block, so data is made durable before the transaction instead.
TEST_F(CommitterTest, DataIsFlushedFirstWhenItsNamesWouldTakeTheReserve) {
  ASSERT_TRUE(committer.commit(Additions{}));
  while (log.remove_free_band()) continue;
  ASSERT_LT(log.space().available, limits().reserve);
  {
    WriterLock lock(tree.mu);
    tree.cache.make_dirty(*tree.cache.find(Tree::kRoot));
    Batch batch;
    batch.brings({BandId{12}, 0}, std::array{1u});
    tree.brought.add(batch);
  }
  const std::uint64_t flushes = faulty.calls(device::Call::kFlush);
  ASSERT_TRUE(committer.commit(Additions{}));
  EXPECT_EQ(faulty.calls(device::Call::kFlush), flushes + 2);
}

TEST_F(CommitterTest, AColdBandThatFailsCostsTheHotLogNoRoom) {
  std::vector<NodePin> pins = nodes(10);
  const BandAddress next = log.head().next;
  faulty.fail_nth(device::Call::kAppend, 1, {Errc::kDeviceWrite});
  ASSERT_TRUE(committer.commit(moves(std::move(pins))));
  EXPECT_EQ(log.newest().address.rba, next.rba);
  EXPECT_EQ(log.newest().blocks, 12u);
  EXPECT_EQ(log.figures().cold_live, 0u);
}

TEST_F(CommitterTest, AHotBandThatFailsLeavesTheColdBandAlone) {
  ASSERT_TRUE(committer.commit(moves(nodes(1))));
  const std::uint64_t room = log.space().cold_room, slot = log.newest().address.slot;
  ASSERT_GT(room, 0u);
  change_root();
  faulty.fail_nth(device::Call::kAppend, 1, {Errc::kDeviceWrite});
  ASSERT_TRUE(committer.commit(Additions{}));
  EXPECT_GT(log.newest().address.slot, slot);
  EXPECT_EQ(log.space().cold_room, room);
}

// It is reset, and may become a hot one.
TEST_F(CommitterTest, AColdBandThatDiesIsNotFilledFurther) {
  std::vector<NodePin> pins = nodes(1);
  Node& node = *pins[0];
  ASSERT_TRUE(committer.commit(moves(std::move(pins))));
  ASSERT_GT(log.space().cold_room, 0u);
  {
    WriterLock lock(tree.mu);
    tree.cache.make_dirty(node);
  }
  ASSERT_TRUE(committer.commit(Additions{}));
  EXPECT_EQ(log.figures().cold_bands, 0u);
  EXPECT_EQ(log.space().cold_room, 0u);
}

TEST_F(CommitterTest, NodesStayWhereTheyAreWhenAColdBandFailsAndTheHotLogHasNoRoom) {
  ASSERT_TRUE(committer.commit(moves(nodes(1))));
  Additions additions = moves(nodes(20));
  const NodeNo node = (*additions.nodes[0]).number;
  const auto place = log.find(node);
  while (log.remove_free_band()) continue;
  fill_log(10);
  faulty.fail_nth(device::Call::kAppend, 1, {Errc::kDeviceWrite});
  ASSERT_TRUE(committer.commit(std::move(additions)));
  EXPECT_EQ(faulty.faults(), 1u);
  EXPECT_EQ(log.find(node), place);
}

// Else a crash could leave the old end of the band (L8).
TEST_F(CommitterTest, ABandThatWasJustResetIsFlushedBeforeItTakesWhatAFailedOneDidNot) {
  ASSERT_TRUE(committer.commit(Additions{}));
  while (log.figures().free_bands > 1) ASSERT_TRUE(log.remove_free_band());
  fill_band();
  ASSERT_EQ(log.figures().free_bands, 1u);  // the one that was left
  change_root();
  const std::uint64_t flushes = faulty.calls(device::Call::kFlush);
  faulty.fail_nth(device::Call::kAppend, 1, {Errc::kDeviceWrite});
  ASSERT_TRUE(committer.commit(Additions{}));
  EXPECT_EQ(faulty.calls(device::Call::kFlush), flushes + 2);
}

class PlainCommitterTest : public CommitterTest {
 protected:
  PlainCommitterTest() : CommitterTest({.keeps_write_pointers = false}) {}
};

// L7
TEST_F(PlainCommitterTest, NoBandIsFreedBeforeASuperblockNamesTheNewestTransaction) {
  ASSERT_TRUE(committer.commit(Additions{}));
  break_super_bands();
  const std::uint64_t resets = faulty.calls(device::Call::kReset);
  fill_band();
  EXPECT_TRUE(log.has_passed_bands());
  EXPECT_EQ(faulty.calls(device::Call::kReset), resets);
}

// L6
TEST_F(PlainCommitterTest, TheRescueBandStaysWhenTheLogGivesBandsBack) {
  ASSERT_TRUE(committer.commit(Additions{}));
  while (log.remove_free_band()) continue;
  EXPECT_EQ(log.figures().free_bands, 0u);
  EXPECT_TRUE(log.figures().has_rescue_band);
}

// A transaction that empties the oldest band.
class RescueTest : public CommitterTest {
 protected:
  void SetUp() override {
    CommitterTest::SetUp();
    nodes(10);
    slot = log.newest().address.slot;
    while (log.newest().address.slot == slot) nodes(100);
    victims = log.live_of(slot, SIZE_MAX);
    ASSERT_GT(victims.size(), 10u);
  }
  Additions rescue(std::size_t count) {
    Additions additions;
    additions.is_rescue = true;
    additions.victim = CleanChoice{CleanChoice::Kind::kMove, slot, true};
    WriterLock lock(tree.mu);
    for (const NodeNo number : std::span(victims).first(count)) {
      Node& node = *tree.cache.find(number);
      node.pins.fetch_add(1);
      additions.nodes.emplace_back(node);
    }
    return additions;
  }
  std::uint64_t slot = 0;
  std::vector<NodeNo> victims;
};

TEST_F(RescueTest, MovesAllNodesOfABand) {
  ASSERT_TRUE(committer.commit(rescue(victims.size())));
  EXPECT_EQ(committer.figures().nodes_cleaned, victims.size());
}

// It could not free the band, and would use up what the next rescue needs.
TEST_F(RescueTest, MovesNothingWhenTheBandHasMoreNodes) {
  ASSERT_TRUE(committer.commit(rescue(victims.size() - 1)));
  EXPECT_EQ(committer.figures().nodes_cleaned, 0u);
}

TEST_F(RescueTest, MovesTheRestWhenANodeHasChangedMeanwhile) {
  Additions additions = rescue(victims.size());
  change(additions.nodes[3]);
  ASSERT_TRUE(committer.commit(std::move(additions)));
  EXPECT_EQ(committer.figures().nodes_cleaned, victims.size() - 1);
  EXPECT_TRUE(log.live_of(slot, SIZE_MAX).empty());
}

// The transaction would take the last free band and free none.
TEST_F(RescueTest, IsNotMadeForABandThatHasLeftTheLog) {
  EXPECT_TRUE(log.may_rescue(slot, 1, 0));
  ASSERT_TRUE(committer.commit(rescue(victims.size())));
  EXPECT_FALSE(log.may_rescue(slot, 1, 0));
}

TEST_F(RescueTest, IsMadeForNoBandThatCannotBeRead) {
  const auto chosen = log.choose_rescue();
  ASSERT_TRUE(chosen);
  EXPECT_EQ(chosen->slot, slot);
  ASSERT_TRUE(log.leave_out(slot));
  const auto other = log.choose_rescue();
  EXPECT_TRUE(!other || other->slot != slot);
}

TEST_F(CommitterTest, ABandThatNoSuperblockListsGoesBackToTheVolume) {
  SpareBands spare(12, 3);
  sizer.set_source(spare.source());
  break_super_bands();
  EXPECT_EQ(sizer.grow(), fail(Errc::kLogFull));
  EXPECT_EQ(spare.size(), 3u);
  EXPECT_EQ(log.bands().size(), 8u);
}

TEST_F(CommitterTest, BandsStayInTheLogWhileASuperblockListsThem) {
  SpareBands spare(12, 3);
  sizer.set_source(spare.source());
  while (sizer.grow()) continue;
  ASSERT_EQ(log.bands().size(), 11u);
  const std::uint64_t available = log.space().available;
  ASSERT_EQ(sizer.wanted(SpaceDemand::kOrdinary), SizeChange::kShrink);
  break_super_bands();
  sizer.resize(SpaceDemand::kOrdinary);
  EXPECT_EQ(log.bands().size(), 11u);
  EXPECT_EQ(log.space().available, available);
  EXPECT_EQ(spare.size(), 0u);
}

TEST_F(CommitterTest, ALogThatHasShrunkHasTheLimitsOfItsBands) {
  SpareBands spare(12, 3);
  sizer.set_source(spare.source());
  while (sizer.grow()) continue;
  sizer.resize(SpaceDemand::kOrdinary);
  ASSERT_GT(spare.size(), 0u);
  EXPECT_EQ(limits().capacity, 255 * log.bands().size());
}

// To empty the head, the log gives up what is left of it.
TEST_F(CommitterTest, AHeadIsNotEmptiedWhenTooLittleWouldBeAvailable) {
  nodes(1);
  const BandAddress next = log.head().next;
  const std::uint64_t available = log.space().available;
  const std::uint64_t left = available - (device->geometry().blocks_of(next.band) - next.rba);
  const auto refused = log.choose_to_empty(std::span(&next.band, 1), left + 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), Errc::kLogFull);
  EXPECT_EQ(log.space().available, available);
  EXPECT_TRUE(log.choose_to_empty(std::span(&next.band, 1), left));
  EXPECT_EQ(log.space().available, left);
}

// Only a cleaner that moves nodes needs a cold band.
TEST_F(CommitterTest, ACommitThatOnlyIndexesBeginsNoColdBand) {
  ASSERT_TRUE(committer.commit(Additions{}));
  const std::uint64_t before = blocks_written();
  Additions additions = moves({});
  additions.cold_index.assign(3, kNoBand);
  ASSERT_TRUE(committer.commit(std::move(additions)));
  EXPECT_EQ(blocks_written(), before + 2);  // a descriptor and its copy
}

// What a transaction holds besides the nodes that are moved to the cold band.
struct Work {
  std::size_t moved = 0, freed = 0, index = 0;
  bool changes_root = false;
  std::uint64_t images() const { return changes_root ? 1 : 0; }
  std::uint64_t annotations() const { return freed + index; }
};

class CommitterRoomTest : public CommitterTest, public ::testing::WithParamInterface<Work> {
 protected:
  // Makes the transaction when so much room is left to the log, in the head band and in so many
  // other ones.
  void commit_with(std::uint64_t free_bands, std::uint64_t available) {
    const Work& work = GetParam();
    std::vector<NodePin> freed = nodes(work.freed), moved = nodes(work.moved);
    const std::uint64_t slot = log.newest().address.slot;
    for (const NodePin& pin : moved) ASSERT_TRUE(log.is_live_in(slot, (*pin).number));
    while (log.figures().free_bands > free_bands) ASSERT_TRUE(log.remove_free_band());
    fill_log(available);
    {
      WriterLock lock(tree.mu);
      for (const NodePin& pin : freed) tree.cache.free_node(*pin);
      if (work.changes_root) tree.cache.make_dirty(*tree.cache.find(Tree::kRoot));
    }
    Additions additions;
    additions.victim = CleanChoice{CleanChoice::Kind::kMove, slot, false};
    additions.nodes = std::move(moved);
    additions.cold_index.assign(work.index, kNoBand);
    ASSERT_TRUE(committer.commit(std::move(additions)));
  }
  // The transaction with the index of what is moved, what cleaning needs besides, and the band.
  std::uint64_t room_for_a_cold_band() {
    const Work& work = GetParam();
    return limits().cost(work.images(), work.annotations() + work.moved + 2) + limits().frames +
           255;
  }
  static std::uint64_t free_bands() { return GetParam().moved > 200 ? 2 : 1; }
};

TEST_P(CommitterRoomTest, BeginsAColdBandThatLeavesTheFrames) {
  commit_with(free_bands(), room_for_a_cold_band());
  EXPECT_EQ(committer.figures().nodes_cooled, GetParam().moved);
}

TEST_P(CommitterRoomTest, BeginsNoColdBandThatTakesTheFrames) {
  commit_with(free_bands(), room_for_a_cold_band() - 1);
  EXPECT_EQ(committer.figures().nodes_cooled, 0u);
  EXPECT_EQ(committer.figures().nodes_cleaned, GetParam().moved);
}

TEST_P(CommitterRoomTest, BeginsNoColdBandInALogThatIsTooSmall) {
  keep_no_cold_bands();
  commit_with(free_bands(), room_for_a_cold_band());
  EXPECT_EQ(committer.figures().nodes_cooled, 0u);
  EXPECT_EQ(committer.figures().nodes_cleaned, GetParam().moved);
}

TEST_P(CommitterRoomTest, MovesAsManyNodesAsTheHotLogHasRoomForBesidesTheRest) {
  const Work& work = GetParam();
  keep_no_cold_bands();
  constexpr std::uint64_t kAvailable = 15;
  std::uint64_t room = 0;
  while (room < work.moved &&
         limits().cost(work.images() + room + 1, work.annotations()) <= kAvailable) {
    ++room;
  }
  ASSERT_GT(room, 0u);
  commit_with(free_bands() - 1, kAvailable);
  EXPECT_EQ(committer.figures().nodes_cleaned, room);
}

// A descriptor has 247 entries, so the index of 246 nodes, their band and part, takes two.
INSTANTIATE_TEST_SUITE_P(Transactions, CommitterRoomTest,
                         ::testing::Values(Work{.moved = 20}, Work{.moved = 246},
                                           Work{.moved = 20, .freed = 300},
                                           Work{.moved = 20, .index = 300},
                                           Work{.moved = 20, .changes_root = true}));

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

TEST(CommitCyclesTest, AbandoningWaitsForTheCycleThatRunsAndForNoOther) {
  for (int round = 0; round < 50; ++round) {
    StoreFailure failure;
    CommitCycles cycles(failure);
    ASSERT_TRUE(cycles.begin_alone());
    std::atomic<bool> has_ended{false}, waited{false};
    std::thread abandons([&] {
      cycles.abandon();
      waited = has_ended.load();
    });
    // Would wait for the cycle until the store is abandoned.
    EXPECT_EQ(cycles.begin_or_wait(true), fail(Errc::kShutDown));
    has_ended = true;
    cycles.end(0);
    abandons.join();
    EXPECT_TRUE(waited);
  }
}

}  // namespace
}  // namespace lazyfs::meta
