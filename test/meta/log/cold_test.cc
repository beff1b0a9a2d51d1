// What does not change goes to bands of its own: the cleaner meets it once, the hot log stays
// small, and after any crash it is where the log says.
#include <algorithm>

#include "device/faulty.h"
#include "meta/log/clean_policy.h"
#include "meta/log/damaged_headers.h"
#include "meta/log/log.h"
#include "meta/tree/node_page.h"
#include "meta/log/recovery.h"
#include "test/meta/modelled_store.h"
#include "test/meta/power_device.h"
#include "test/support/rounds.h"

namespace lazyfs::meta {
namespace {

constexpr std::uint32_t kBands = 12, kBlocks = 64;

CleanChoice choose(std::vector<BandLive> bands, bool may_adopt = true) {
  return choose_victim(bands, may_adopt).value();
}

// A band of 100 blocks that nothing was written to while `age` images were.
BandLive hot(std::uint64_t slot, std::uint64_t live, std::uint64_t age = 100) {
  return {slot, live, 100, age, false};
}
BandLive cold(std::uint64_t slot, std::uint64_t live, std::uint64_t age = 100) {
  return {slot, live, 100, age, true};
}

TEST(CleanPolicyTest, OfBandsOfOneAgeTheEmptiestIsCleaned) {
  EXPECT_FALSE(choose_victim({}, true));
  EXPECT_EQ(choose({hot(1, 10), hot(2, 9)}).slot, 1u);
  EXPECT_TRUE(choose({hot(1, 10), hot(2, 9)}).is_oldest_hot);
  EXPECT_EQ(choose({hot(1, 11), hot(2, 50), cold(9, 10)}).slot, 9u);
  EXPECT_EQ(choose({hot(1, 11), hot(2, 50), cold(9, 11)}).slot, 1u);
  EXPECT_FALSE(choose({hot(1, 11), hot(2, 50), cold(9, 5)}).is_oldest_hot);
  EXPECT_EQ(choose({cold(8, 7), cold(9, 5)}).slot, 9u);
}

TEST(CleanPolicyTest, AnOldBandIsCleanedWhileItIsFullerThanAYoungOne) {
  EXPECT_EQ(choose({hot(1, 30), cold(9, 70, 100)}).slot, 1u);
  EXPECT_EQ(choose({hot(1, 30), cold(9, 70, 1000)}).slot, 9u);
  EXPECT_EQ(choose({hot(1, 30), cold(8, 50, 200), cold(9, 70, 1000)}).slot, 9u);
}

TEST(CleanPolicyTest, ABandThatIsAlmostFullIsCleanedOnlyWhenAllAre) {
  EXPECT_EQ(choose({hot(1, 93), cold(9, 94, 1'000'000)}).slot, 1u);
  EXPECT_EQ(choose({hot(1, 93), cold(9, 93, 1'000'000)}).slot, 9u);
  EXPECT_EQ(choose({cold(8, 95, 1'000'000), cold(9, 94, 0)}).slot, 9u);
  EXPECT_EQ(choose({hot(1, 100), cold(9, 100)}).slot, 1u);
}

TEST(CleanPolicyTest, AnOldBandThatIsMostlyLiveIsAdoptedForTheSakeOfAYoungerOne) {
  const CleanChoice choice = choose({hot(1, 80), hot(2, 5)});
  EXPECT_EQ(choice.kind, CleanChoice::Kind::kAdopt);
  EXPECT_EQ(choice.slot, 1u);
  EXPECT_EQ(choose({hot(1, 80), hot(2, 5)}, false).kind, CleanChoice::Kind::kMove);
  EXPECT_EQ(choose({hot(1, 49), hot(2, 5)}).kind, CleanChoice::Kind::kMove);
  EXPECT_EQ(choose({hot(1, 80), hot(2, 70)}).kind, CleanChoice::Kind::kMove);
  EXPECT_EQ(choose({hot(1, 80, 1000), hot(2, 30, 100)}).kind, CleanChoice::Kind::kMove);
}

class ColdTest : public ModelledStoreTest {
 protected:
  void SetUp() override { ASSERT_TRUE(Store::format(device, small_superblock(kBands))); }
  void open(const StoreOptions& options = quiet_options()) {
    store.reset();
    device.forget_write_pointers();
    open_on(device, options);
  }
  // Items that stay as they are, so many that they are a third of the log.
  void put_cold() {
    for (std::uint64_t key = 0; key < kCold; ++key) put(key, 'c');
    ASSERT_TRUE(store->commit());
  }
  // Changes a few items until so much was written.
  void rewrite(std::uint64_t blocks) {
    const std::uint64_t stop = store->stats().log_blocks_written + blocks;
    for (std::uint64_t i = 0; store->stats().log_blocks_written < stop; ++i) {
      put(10000 + i % 8, static_cast<char>('a' + i % 26));
      ASSERT_TRUE(store->commit());
    }
  }
  void expect_all_there() {
    EXPECT_EQ(contents_of(*store), model);
    EXPECT_EQ(problems_of(*store), std::vector<std::string>{});
  }

  static constexpr std::uint64_t kCold = 3 * kBands * kBlocks / 3;  // three to a node
  static constexpr std::uint64_t kLap = std::uint64_t{kBands} * kBlocks;
  PowerDevice device{kBands + 2 + rescue_bands(), kBlocks, test_seed()};
};

TEST_F(ColdTest, WhatDoesNotChangeIsMovedOnceAndThenNoMore) {
  open();
  put_cold();
  rewrite(6 * kLap);
  const std::uint64_t settled = store->stats().nodes_cleaned;
  const StoreStats before = store->stats();
  EXPECT_GT(before.log_cold_bands, 0u);
  EXPECT_GT(before.log_cold_live_blocks, before.log_live_blocks / 2);
  rewrite(20 * kLap);
  // The nodes of twenty laps would be 20 times as many as there are.
  EXPECT_LT(store->stats().nodes_cleaned - settled, 3 * store->stats().log_live_blocks);
  expect_all_there();
}

TEST_F(ColdTest, ColdNodesAreFoundAfterACleanEndAndAfterACrash) {
  open();
  put_cold();
  rewrite(6 * kLap);
  ASSERT_GT(store->stats().log_cold_live_blocks, 0u);
  const std::uint64_t cold = store->stats().log_cold_live_blocks;
  ASSERT_TRUE(store->close());
  open();
  EXPECT_EQ(store->stats().log_cold_live_blocks, cold);
  expect_all_there();
  rewrite(2 * kLap);
  open();
  expect_all_there();
  StoreOptions rare = quiet_options();
  rare.checkpoint_bytes = std::size_t{1} << 40;
  open(rare);
  rewrite(4 * kLap);
  open();
  expect_all_there();
}

TEST_F(ColdTest, ColdBandsThatDieAreUsedAgain) {
  open();
  for (char round = 'a'; round < 'k'; ++round) {
    put_cold();
    rewrite(3 * kLap);
    for (std::uint64_t key = 0; key < kCold; ++key) put(key, round);
  }
  ASSERT_TRUE(store->commit());
  expect_all_there();
  for (std::uint64_t key = 0; key < kCold; ++key) {
    Batch batch;
    batch.erase({1, 1, key});
    ASSERT_TRUE(store->apply(batch, Reserve::kDelete));
    model.erase({1, 1, key});
  }
  rewrite(kLap);
  EXPECT_LE(store->stats().log_cold_live_blocks, store->stats().log_live_blocks);
  EXPECT_LE(store->stats().log_cold_bands, 2u);
  expect_all_there();
}

// Neither a hot nor a cold one: the tail passes it, and cleaning continues with other bands.
TEST_F(ColdTest, ABlockThatCannotBeReadDoesNotHoldTheLog) {
  for (const bool is_cold : {false, true}) {
    SCOPED_TRACE(is_cold);
    store.reset();
    model.clear();
    Superblock fresh = small_superblock(kBands);
    fresh.uuid[0] ^= is_cold ? 1 : 0;  // blocks of the first volume are not of the second one
    ASSERT_TRUE(Store::format(device, fresh));
    open();
    put_cold();
    if (is_cold) rewrite(6 * kLap);
    ASSERT_TRUE(store->close());
    store.reset();
    const auto superblock = read_superblock(device);
    const auto found = recover_log(device, *superblock);
    ASSERT_TRUE(found);
    std::optional<BandAddress> bad;
    const auto live = Log(device, {superblock->uuid, superblock->session}, *found).all_live();
    AlignedBuffer image(kBlockBytes);
    for (const auto& [node, place] : live) {  // the cold ones come last
      ASSERT_TRUE(device.read(place.address, image.span()));
      const ConstNodePage page(image.data());
      const bool holds_it = page.is_leaf() && page.count() > 0 && page.key(0).offset < kCold;
      if (holds_it && (is_cold || !bad)) bad = place.address;
    }
    ASSERT_TRUE(bad);
    device::FaultyDevice faulty(device);
    faulty.fail_when([&](const device::CallInfo& info) -> std::optional<device::Fault> {
      const bool meets = info.call == device::Call::kRead && info.at.band == bad->band &&
                         info.at.rba <= bad->rba && bad->rba < info.at.rba + info.blocks;
      return meets ? std::optional(device::Fault{Errc::kDeviceRead}) : std::nullopt;
    });
    open_on(faulty);
    rewrite(40 * kLap);
    EXPECT_GT(faulty.faults(), 0u);
    faulty.mend();
    expect_all_there();
    open_on(device);
    expect_all_there();
    store.reset();
  }
}

// A full log most of whose leaves are damaged, so that the cleaner's victims hold little else.
class DamagedNodesTest : public ColdTest {
 protected:
  void SetUp() override {
    ColdTest::SetUp();
    open();
    while (put_one(keys, 'c')) ++keys;
    ASSERT_TRUE(store->close());
    store.reset();
    damage_leaves();
    open();
    for (std::uint64_t key = 0; key < keys; ++key) {
      if (store->get({1, 1, key})) good.push_back(key);
    }
  }
  bool put_one(std::uint64_t key, char letter) {
    Batch batch;
    batch.put({1, 1, key}, as_value(std::string(1000, letter)));
    return store->apply(batch).has_value();
  }
  // Four of five.
  void damage_leaves() {
    const auto superblock = read_superblock(device);
    const auto found = recover_log(device, *superblock);
    AlignedBuffer image(kBlockBytes);
    const Log log(device, {superblock->uuid, superblock->session}, *found);
    std::uint64_t leaves = 0;
    for (const auto& [node, place] : log.all_live()) {
      ASSERT_TRUE(device.read(place.address, image.span()));
      if (ConstNodePage(image.data()).is_leaf() && ++leaves % 5 != 0) {
        device.damage(place.address, 8 * 1000);
      }
    }
  }
  // Changes items, half of the time one of an eighth of them.
  Result<> change(std::uint64_t blocks, std::mt19937_64& random) {
    const std::uint64_t stop = store->stats().log_blocks_written + blocks;
    while (store->stats().log_blocks_written < stop) {
      const std::size_t of = random() % 2 == 0 ? good.size() : good.size() / 8;
      put(good[random() % of], static_cast<char>('a' + random() % 26));
      if (HasFatalFailure()) return fail(Errc::kLogFull);
      if (random() % 33 == 0) TRY(store->commit());
    }
    return ok();
  }

  std::uint64_t keys = 0;
  std::vector<std::uint64_t> good;  // keys in leaves that can be read
};

// When all damaged images went to the hot log, they sometimes took more room than is kept free for
// the cleaner: with this seed within 100 laps.
TEST_F(DamagedNodesTest, DoNotFillTheLog) {
  std::mt19937_64 random(1);
  ASSERT_GT(good.size(), keys / 8);
  ASSERT_LT(good.size(), keys / 3);
  ASSERT_EQ(change(100 * kLap, random), ok());
  EXPECT_FALSE(store->failed());
  for (const auto& [key, value] : model) EXPECT_EQ(as_text(**store->get(key)), value);
}

// Each band of a log with cold bands loses its header in turn.
class EmptiedBandTest : public ColdTest {
 protected:
  void SetUp() override {
    ColdTest::SetUp();
    open();
    put_cold();
    rewrite(6 * kLap);
    ASSERT_TRUE(store->close());
  }
  std::vector<BandId> bands_in_use() const {
    std::vector<BandId> bands;
    for (const auto& use : store->log_band_use()) {
      if (use.live_blocks > 0) bands.push_back(use.band);
    }
    return bands;
  }
  bool is_in_use(BandId band) const {
    const auto bands = bands_in_use();
    return std::ranges::find(bands, band) != bands.end();
  }
  std::vector<BandId> damaged() {
    return damaged_headers(device, bands_in_use()).value_or(std::vector<BandId>{BandId{~0u}});
  }
};

TEST_F(EmptiedBandTest, IsFreeAfterwardsWhicheverItIs) {
  const std::vector<BandId> bands = bands_in_use();
  ASSERT_GT(bands.size(), 4u);
  std::size_t emptied = 0;
  for (const BandId band : bands) {
    SCOPED_TRACE(band.value);
    if (!is_in_use(band)) continue;
    device.damage({band, 0}, 8 * 35);
    open();
    const std::vector<BandId> found = damaged();
    EXPECT_EQ(found, std::vector{band});
    ASSERT_EQ(store->empty_log_bands(found), ok());
    EXPECT_EQ(damaged(), std::vector<BandId>());
    EXPECT_FALSE(is_in_use(band));
    expect_all_there();
    ASSERT_TRUE(store->close());
    open();
    EXPECT_EQ(damaged(), std::vector<BandId>());
    expect_all_there();
    rewrite(kLap);
    ++emptied;
  }
  EXPECT_GT(emptied, 2u);
}

// Neither a cold band nor one that older transactions lie in held the newest ones.
TEST_F(EmptiedBandTest, IsNoLossOfTheNewestTransactionsIfItCannotBeRead) {
  open();
  const std::vector<BandId> bands = bands_in_use();
  store->abandon();
  device.forget_write_pointers();
  const BandId head = recover_log(device, *read_superblock(device))->chain.back().band;
  StoreOptions options = quiet_options();
  options.read_only = true;
  int opened = 0;
  for (const BandId band : bands) {
    if (band == head) continue;
    device::FaultyDevice faulty(device);
    faulty.break_band(band);
    const auto found = Store::open(faulty, options);
    if (!found) continue;
    EXPECT_EQ((*found)->log_losses(), std::vector<std::string>()) << band.value;
    ++opened;
  }
  EXPECT_GT(opened, 1);
}

TEST_F(EmptiedBandTest, LosesNothingWhenThePowerIsCutAtAnyChange) {
  const std::vector<BandId> bands = bands_in_use();
  std::uint64_t cuts = 0;
  for (std::uint64_t change = 1;; change += 1 + change / 16) {
    SCOPED_TRACE(change);
    device.cut_power_after(change);
    const auto opened = Store::open(device, quiet_options());
    const bool is_done = opened && (*opened)->empty_log_bands(bands);
    ASSERT_TRUE(is_done || !opened || (*opened)->failed());
    device.restore_power();
    open();
    expect_all_there();
    if (HasFailure() || is_done) break;
    ++cuts;
  }
  EXPECT_GT(cuts, 10u);
}

// The device allows the two super bands, the log's head and one cold band to be partly written.
TEST_F(ModelledStoreTest, TheLimitOfOpenBandsIsKeptWhenTheColdBandThatIsFilledIsEmptied) {
  const auto limited = device::MemoryDevice::uniform(kBands + 2, kBlocks, {.max_open_bands = 4});
  ASSERT_TRUE(Store::format(*limited, small_superblock(kBands)));
  open_on(*limited);
  constexpr std::uint64_t kKeys = kBands * kBlocks;  // three to a node
  for (std::uint64_t key = 0; key < kKeys; ++key) put(key, 'c');
  std::vector<BandId> bands;
  for (const auto& use : store->log_band_use()) bands.push_back(use.band);
  for (std::uint64_t i = 0; i < 5 * kKeys; ++i) {
    put(i % 4 == 0 ? i * 37 % kKeys : i % 8, static_cast<char>('a' + i % 26));
    ASSERT_TRUE(store->commit());
    if (i % 128 == 0) {
      const BandId band = bands[i / 128 % bands.size()];
      ASSERT_EQ(store->empty_log_bands(std::span(&band, 1)), ok());
    }
  }
  EXPECT_EQ(limited->refused_begins(), 0u);
  EXPECT_EQ(contents_of(*store), model);
  store.reset();
}

// Blocks written for each node that changes, in a log that is 60 % live, when so many of ten
// changes meet a tenth of the items.
double cost_of_changes(unsigned hot_of_ten) {
  constexpr std::uint32_t kManyBands = 32;
  constexpr std::uint64_t kBlocksOfLog = std::uint64_t{kManyBands} * kBlocks;
  const auto device = memory_device(kManyBands + 2, kBlocks);
  EXPECT_TRUE(Store::format(*device, small_superblock(kManyBands)));
  const auto store = Store::open(*device, quiet_options());
  EXPECT_TRUE(store);
  std::mt19937_64 random(test_seed());
  std::uint64_t items = 0;
  const auto put = [&](std::uint64_t key) {
    Batch batch;
    batch.put({1, 1, key}, as_value(std::string(1000, static_cast<char>('a' + random() % 26))));
    EXPECT_TRUE((*store)->apply(batch));
    if (random() % 20 == 0) {
      EXPECT_TRUE((*store)->commit());
    }
  };
  while (10 * (*store)->stats().log_live_blocks < 6 * kBlocksOfLog) put(items++);
  const auto change = [&](std::uint64_t laps) {
    const std::uint64_t stop = (*store)->stats().log_blocks_written + laps * kBlocksOfLog;
    while ((*store)->stats().log_blocks_written < stop) {
      put(random() % (random() % 10 < hot_of_ten ? items / 10 : items));
    }
  };
  change(4);
  const StoreStats before = (*store)->stats();
  change(6);
  const StoreStats after = (*store)->stats();
  const auto changed =
      (after.nodes_written - after.nodes_cleaned) - (before.nodes_written - before.nodes_cleaned);
  return static_cast<double>(after.log_blocks_written - before.log_blocks_written) /
         static_cast<double>(changed);
}

TEST(CleaningCostTest, IsLowerWhereSomeNodesChangeMoreOftenThanOthers) {
  const double uniform = cost_of_changes(0), skewed = cost_of_changes(9);
  EXPECT_LT(skewed, 0.9 * uniform);
}

// Changes a few hot items, and now and then a cold one, until the power fails. Returns what the
// store must hold as of each transaction.
std::vector<std::pair<Seq, Model>> live_on(Store& store, Model now, std::mt19937_64& random,
                                           std::uint64_t cold) {
  std::vector<std::pair<Seq, Model>> states{{store.durable_seq(), now}};
  for (;;) {
    const Key hot{1, 1, 10000 + random() % 30}, old{1, 1, random() % cold};
    const std::string value(random() % 1000, static_cast<char>('a' + random() % 26));
    Batch batch;
    batch.put(hot, as_value(value));
    now[hot] = value;
    if (random() % 8 == 0) {
      batch.put(old, as_value(value));
      now[old] = value;
    } else if (random() % 8 == 0) {
      batch.erase(old);
      now.erase(old);
    }
    const auto seq = store.apply(batch, Reserve::kDelete);
    if (!seq) return states;
    if (states.back().first != *seq) states.emplace_back(*seq, Model{});
    states.back().second = now;
    if (random() % 3 == 0 && !store.commit()) return states;
    const auto needed = std::ranges::find_if(
        states, [&](const auto& state) { return state.first > store.durable_seq(); });
    if (needed - states.begin() > 1) states.erase(states.begin(), std::prev(needed));
  }
}

// In some lives a change to the device fails, in the hot log or in a cold band, and the power goes
// later.
class ColdLivesTest : public ColdTest, public ::testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(Devices, ColdLivesTest, ::testing::Values(false, true),
                         [](const auto& mode) { return mode.param ? "Failing" : "Good"; });

TEST_P(ColdLivesTest, ManyLivesOfColdAndHotItemsLoseNothingThatWasCommitted) {
  std::mt19937_64 random(test_seed());
  std::uint64_t lives_with_cold = 0, adopted = 0, cooled = 0;
  open();
  put_cold();
  const std::size_t lives = rounds(300, 60);
  for (std::size_t life = 0; life < lives; ++life) {
    SCOPED_TRACE(life);
    device.cut_power_after(1 + random() % (life % 10 == 0 ? 1500 : 150));
    if (GetParam()) device.fail_after(1 + random() % 60);
    const auto states = live_on(*store, model, random, kCold);
    lives_with_cold += store->stats().log_cold_live_blocks > 0;
    adopted += store->stats().bands_adopted;
    cooled += store->stats().nodes_cooled;
    store.reset();
    device.fail_after(0);
    device.restore_power();
    open();
    ASSERT_TRUE(store);
    const auto later = std::ranges::find_if(
        states, [&](const auto& state) { return state.first > store->durable_seq(); });
    ASSERT_NE(later, states.begin());
    model = std::prev(later)->second;
    expect_all_there();
    if (HasFailure()) return;
  }
  EXPECT_GT(lives_with_cold, lives / 3);
  EXPECT_GT(cooled, 3 * lives);
  std::cout << adopted << " bands adopted, " << cooled << " nodes cooled\n";
}

}  // namespace
}  // namespace lazyfs::meta
