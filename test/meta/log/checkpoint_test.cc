// Checkpoints of the map: opening reads the newest one and what was written after it, whatever
// happens to it on the way.
#include <algorithm>

#include "base/endian.h"
#include "device/faulty.h"
#include "test/meta/fixture.h"
#include "meta/log/log_layout.h"
#include "test/meta/power_device.h"

namespace lazyfs::meta {
namespace {

class CheckpointTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kLogBands = 8, kBandBlocks = 128;
  static constexpr std::uint64_t kKeys = 2000;

  CheckpointTest()
      : random(test_seed()), device(kLogBands + 2 + rescue_bands(), kBandBlocks, random()) {}
  void SetUp() override { ASSERT_TRUE(Store::format(device, small_superblock(kLogBands))); }

  static StoreOptions frequent() {
    StoreOptions options = quiet_options();
    options.checkpoint_bytes = 0;
    options.cache_bytes = 64 * kBlockBytes;
    return options;
  }
  void open(StoreOptions options = frequent()) {
    store.reset();
    device.forget_write_pointers();
    auto opened = Store::open(device, options);
    ASSERT_TRUE(opened) << describe(opened.error());
    store = std::move(*opened);
  }
  // Fills a store, and leaves it as a crash does after a transaction that carries a checkpoint.
  // Returns that transaction.
  Seq end_with_a_checkpoint() {
    open();
    fill();
    while (store->stats().log_blocks_after_checkpoint > 0 || store->stats().checkpoints < 3) {
      if (!churn(1)) break;
    }
    EXPECT_EQ(store->stats().log_blocks_after_checkpoint, 0u);
    const Seq newest = store->durable_seq();
    store.reset();
    return newest;
  }
  bool put(std::uint64_t key, std::size_t bytes) {
    const std::string value(bytes, static_cast<char>('a' + random() % 26));
    Batch batch;
    batch.put({1, 1, key}, as_value(value));
    if (!store->apply(batch)) return false;
    applied[{1, 1, key}] = value;
    return true;
  }
  bool commit() {
    if (!store->commit()) return false;
    committed = applied;
    return true;
  }
  // Enough nodes that a checkpoint takes several pieces.
  void fill() {
    for (std::uint64_t key = 0; key < kKeys; ++key) {
      ASSERT_TRUE(put(key, 180));
      if (key % 7 == 0) {
        ASSERT_TRUE(commit());
      }
    }
    ASSERT_TRUE(commit());
    ASSERT_GT(store->stats().log_live_blocks, 100u);
  }
  // Changes items here and there, a commit for each two of them.
  bool churn(int commits) {
    for (int i = 0; i < commits; ++i) {
      if (!put(random() % kKeys, 180) || !put(random() % kKeys, 180) || !commit()) return false;
    }
    return true;
  }
  void expect_all_there() {
    const Model found = contents_of(*store);
    EXPECT_TRUE(found == committed || found == applied);
    EXPECT_EQ(problems_of(*store), std::vector<std::string>{});
    committed = applied = found;
  }
  // Blocks that begin with `magic`, newest transaction first.
  std::vector<BandAddress> blocks_with(std::string_view magic) {
    std::vector<std::pair<std::uint64_t, BandAddress>> found;
    AlignedBuffer block(kBlockBytes);
    for (std::uint32_t band = 2; band < kLogBands + 2; ++band) {
      for (std::uint32_t rba = 0; rba < *device.write_pointer(BandId{band}); ++rba) {
        EXPECT_TRUE(device.read({BandId{band}, rba}, block.span()));
        if (!std::ranges::equal(block.span().first(4), as_value(magic))) continue;
        found.emplace_back(load_le_at<std::uint64_t>(block.span(), 8),
                           BandAddress{BandId{band}, rba});
      }
    }
    std::ranges::sort(found, [](const auto& a, const auto& b) { return a.first > b.first; });
    std::vector<BandAddress> places;
    for (const auto& [seq, place] : found) places.push_back(place);
    return places;
  }

  std::mt19937_64 random;
  PowerDevice device;
  std::unique_ptr<Store> store;
  Model applied, committed;
};

TEST_F(CheckpointTest, AfterACleanEndNothingButTheCheckpointIsRead) {
  open();
  fill();
  ASSERT_TRUE(churn(20));
  ASSERT_TRUE(store->close());
  open();
  EXPECT_LE(store->stats().recovered_parts, 2u);  // two when it crosses into another band
  EXPECT_EQ(store->stats().log_blocks_after_checkpoint, 0u);
  expect_all_there();
}

TEST_F(CheckpointTest, ACleanEndWithNothingNewWritesNoCheckpoint) {
  open();
  fill();
  ASSERT_TRUE(store->close());
  for (int i = 0; i < 3; ++i) {
    open();
    ASSERT_TRUE(store->close());
    EXPECT_EQ(store->stats().log_blocks_written, 0u);
  }
}

// The bound that docs/metadata-log.md states, as of any crash.
TEST_F(CheckpointTest, TheLogBehindTheCheckpointIsBounded) {
  open();
  fill();
  const LogLimits limits = limits_of(std::vector<std::uint32_t>(kLogBands, kBandBlocks), 16384);
  for (int life = 0; life < 20; ++life) {
    device.cut_power_after(1 + random() % 200);
    while (churn(1)) {
    }
    store.reset();
    device.restore_power();
    open();
    const StoreStats stats = store->stats();
    const std::uint64_t pieces =
        checkpoint_pieces(kLogBands, stats.log_live_blocks, 0, stats.log_live_blocks);
    EXPECT_LE(stats.log_blocks_after_checkpoint,
              limits.checkpoint_interval(pieces, 0) + 2 * limits.transaction + limits.band);
    expect_all_there();
  }
}

TEST_F(CheckpointTest, KeepsWhatWasCommittedWhenThePowerIsCutAtEachChangeInTurn) {
  std::uint64_t checkpoints = 0;
  bool finished = false;
  for (std::uint64_t cut = 1; !finished; ++cut) {
    SCOPED_TRACE(cut);
    open();
    if (applied.empty()) fill();
    device.cut_power_after(cut);
    finished = churn(25);
    checkpoints += store->stats().checkpoints;
    store.reset();
    device.restore_power();
    open();
    expect_all_there();
    if (HasFailure()) return;
  }
  EXPECT_GT(checkpoints, 20u);
}

// One piece of the newest checkpoint, of the two newest, ..., of all: what is lost is time.
TEST_F(CheckpointTest, ADamagedCheckpointFallsBackToTheOneBeforeAndAtLastToTheWholeLog) {
  open();
  fill();
  ASSERT_TRUE(churn(60));
  ASSERT_TRUE(store->close());
  store.reset();
  StoreOptions read_only = frequent();
  read_only.read_only = true;
  std::uint64_t parts = 1;
  int fell_back = 0;
  for (const BandAddress at : blocks_with("LZSN")) {
    device.damage(at, 8 * 100 + 1);
    open(read_only);
    EXPECT_GE(store->stats().recovered_parts, parts);
    fell_back += store->stats().recovered_parts > parts;
    parts = store->stats().recovered_parts;
    expect_all_there();
    if (HasFailure()) return;
  }
  EXPECT_GE(fell_back, 2);
  EXPECT_GT(store->stats().log_blocks_after_checkpoint, 0u);
  open();  // and it continues from there
  ASSERT_TRUE(churn(60));
  ASSERT_TRUE(store->close());
  open();
  EXPECT_LE(store->stats().recovered_parts, 2u);
  expect_all_there();
}

// After a crash the newest transaction is verified, as it may be torn; a piece of its checkpoint
// that is damaged does not make it so.
TEST_F(CheckpointTest, ADamagedPieceDoesNotUndoTheTransactionThatCarriesIt) {
  const Seq newest = end_with_a_checkpoint();
  device.damage(blocks_with("LZSN").front(), 8 * 100 + 1);
  open();
  EXPECT_EQ(store->durable_seq(), newest);
  EXPECT_GT(store->stats().recovered_parts, 2u);
  expect_all_there();
}

// Nor does a piece that cannot be read.
TEST_F(CheckpointTest, AnUnreadablePieceDoesNotUndoTheTransactionThatCarriesIt) {
  const Seq newest = end_with_a_checkpoint();
  device.forget_write_pointers();
  const BandAddress piece = blocks_with("LZSN").front();
  device::FaultyDevice faulty(device);
  faulty.fail_when([piece](const device::CallInfo& call) -> std::optional<device::Fault> {
    const bool hit = call.call == device::Call::kRead && call.at.band == piece.band &&
                     call.at.rba <= piece.rba && piece.rba < call.at.rba + call.blocks;
    return hit ? std::optional(device::Fault{Errc::kDeviceRead}) : std::nullopt;
  });
  StoreOptions read_only = frequent();
  read_only.read_only = true;
  auto opened = Store::open(faulty, read_only);
  ASSERT_TRUE(opened) << describe(opened.error());
  store = std::move(*opened);
  EXPECT_EQ(store->durable_seq(), newest);
  EXPECT_EQ(store->log_losses(), std::vector<std::string>{});
  expect_all_there();
  store.reset();
}

TEST_F(CheckpointTest, AMapOfCheckpointAndDescriptorsIsTheMapOfAllDescriptors) {
  open();
  fill();
  for (int round = 0; round < 30; ++round) {
    ASSERT_TRUE(churn(static_cast<int>(random() % 12)));
    StoreOptions read_only = frequent();
    read_only.read_only = true;
    auto use = Store::open(device, read_only);
    ASSERT_TRUE(use);
    const auto with_checkpoint = (*use)->log_band_use();
    for (const BandAddress at : blocks_with("LZSN")) device.damage(at, 8 * 100 + 1);
    use = Store::open(device, read_only);
    ASSERT_TRUE(use);
    const auto without = (*use)->log_band_use();
    for (const BandAddress at : blocks_with("LZSN")) device.damage(at, 8 * 100 + 1);
    for (const auto& band : without) {
      const auto other = std::ranges::find(with_checkpoint, band.band, &Store::LogBandUse::band);
      ASSERT_NE(other, with_checkpoint.end());
      EXPECT_EQ(other->live_blocks, band.live_blocks);
    }
  }
}

TEST_F(CheckpointTest, AStoreWithAThreadOfItsOwnWritesThemToo) {
  StoreOptions options = frequent();
  options.background = true;
  open(options);
  fill();
  while (store->stats().checkpoints < 5) {
    ASSERT_TRUE(churn(1));
  }
  store.reset();  // no clean end
  open(options);
  expect_all_there();
}

}  // namespace
}  // namespace lazyfs::meta
