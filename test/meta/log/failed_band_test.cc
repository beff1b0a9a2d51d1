// Bands of the log that fail while they are written: the log turns to another one and loses
// nothing, as long as there is one.
#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "device/faulty.h"
#include "device/forwarding.h"
#include "meta/log/log.h"
#include "meta/log/superblock_log.h"
#include "test/meta/modelled_store.h"
#include "test/meta/power_device.h"
#include "test/meta/spare_bands.h"

namespace lazyfs::meta {
namespace {

class FailedBandTest : public ModelledStoreTest {
 protected:
  static constexpr std::uint32_t kLogBands = 6, kBandBlocks = 24;

  void begin() {
    store.reset();
    faulty.reset();
    memory = memory_device(kLogBands + 6, kBandBlocks);
    ASSERT_TRUE(Store::format(*memory, small_superblock(kLogBands)));
    faulty.emplace(*memory);
    model.clear();
    open();
  }
  void open() {
    store.reset();
    memory->forget_write_pointers();
    faulty->restore_power();  // a device that was restarted knows nothing of bands that failed
    open_on(*faulty);
  }
  // Transactions of one node and of many, which lie in several bands; each is committed.
  void work() {
    for (std::uint64_t i = 0; i < 40; ++i) {
      const std::uint64_t items = i % 5 == 4 ? 20 : 1;
      for (std::uint64_t key = 0; key < items; ++key) put(key, static_cast<char>('a' + i % 26));
      const auto committed = store->commit();
      ASSERT_TRUE(committed) << describe(committed.error());
    }
  }
  // Puts items until the log refuses one; returns how many there are.
  std::uint64_t fill() {
    for (std::uint64_t key = 0;; ++key) {
      Batch batch;
      const std::string value(1000, 'f');
      batch.put({1, 1, key}, as_value(value));
      const auto applied = store->apply(batch);
      if (!applied) {
        EXPECT_EQ(applied.error(), Errc::kLogFull);
        return key;
      }
      model[{1, 1, key}] = value;
    }
  }
  Result<Seq> erase(std::uint64_t key) {
    Batch batch;
    batch.erase({1, 1, key});
    model.erase({1, 1, key});
    return store->apply(batch, Reserve::kDelete);
  }
  void expect_all_there() {
    EXPECT_EQ(contents_of(*store), model);
    EXPECT_EQ(problems_of(*store), std::vector<std::string>{});
  }
  // Bands that do not belong to the log.
  static BandId beside_log(std::uint32_t index) {
    return BandId{2 + kLogBands + rescue_bands() + index};
  }
  std::uint64_t appends() const { return faulty->calls(device::Call::kAppend); }

  std::unique_ptr<device::MemoryDevice> memory;
  std::optional<device::FaultyDevice> faulty;
};

TEST_F(FailedBandTest, AnyOneAppendMayFailAndNothingIsLost) {
  begin();
  const std::uint64_t before = appends();
  work();
  const std::uint64_t count = appends() - before;
  EXPECT_GT(count, 40u);
  for (const Errc error : {Errc::kDeviceWrite, Errc::kBandFailed, Errc::kTooManyOpenBands}) {
    for (std::uint64_t n = 1; n <= count; ++n) {
      SCOPED_TRACE(n);
      begin();
      const std::uint64_t blocks_done = error == Errc::kDeviceWrite ? n % 4 : 0;
      faulty->fail_nth(device::Call::kAppend, n, {error, blocks_done});
      work();
      EXPECT_EQ(faulty->faults(), 1u);
      expect_all_there();
      open();  // as after a crash
      expect_all_there();
      work();
      ASSERT_TRUE(store->close());
      open();
      expect_all_there();
      if (HasFailure()) return;
    }
  }
}

TEST_F(FailedBandTest, ABandThatFailedIsNotWrittenAgainInTheSameSession) {
  begin();
  std::set<std::uint32_t> failed;
  std::uint64_t again = 0;
  std::optional<BandId> fails;
  faulty->fail_when([&](const device::CallInfo& info) -> std::optional<device::Fault> {
    if (info.call != device::Call::kAppend || info.at.band.value < 2) return std::nullopt;
    again += failed.contains(info.at.band.value);
    if (failed.size() == 2 || info.number % 17 != 0) return std::nullopt;
    failed.insert(info.at.band.value);
    return device::Fault{Errc::kDeviceWrite};
  });
  for (int i = 0; i < 5 && !HasFailure(); ++i) work();
  EXPECT_EQ(failed.size(), 2u);
  EXPECT_EQ(again, 0u);
  expect_all_there();
}

TEST_F(FailedBandTest, WhenItsBandsAreUsedUpTheLogTakesFreeOnes) {
  begin();
  SpareBands spare({beside_log(0), beside_log(1), beside_log(2)});
  store->set_band_source(spare.source());
  faulty->fail_when([&](const device::CallInfo& info) -> std::optional<device::Fault> {
    const std::uint32_t band = info.at.band.value;
    if (info.call != device::Call::kAppend || band < 3 || band > 5) return std::nullopt;
    return device::Fault{Errc::kDeviceWrite};
  });
  work();
  expect_all_there();
  EXPECT_FALSE(store->failed());
  EXPECT_GT(store->log_bands().size(), kLogBands);  // one or more in the place of those
}

TEST_F(FailedBandTest, WhenNoBandTakesAnythingTheStoreStaysReadable) {
  begin();
  work();
  faulty->fail_when([](const device::CallInfo& info) -> std::optional<device::Fault> {
    if (info.call != device::Call::kAppend) return std::nullopt;
    return device::Fault{Errc::kDeviceWrite};
  });
  Batch batch;
  batch.put({1, 1, 1}, as_value("new"));
  ASSERT_TRUE(store->apply(batch));
  EXPECT_EQ(store->commit().error(), Errc::kLogFailed);
  EXPECT_TRUE(store->failed());
  EXPECT_EQ(store->apply(batch).error(), Errc::kLogFailed);
  EXPECT_EQ(contents_of(*store).size(), model.size());
  faulty->mend();
  open();
  expect_all_there();
}

TEST_F(FailedBandTest, EveryBandMayFailOneAfterTheOther) {
  begin();
  work();
  std::set<std::uint32_t> failed;
  faulty->fail_when([&](const device::CallInfo& info) -> std::optional<device::Fault> {
    const bool again = failed.contains(info.at.band.value) || info.number % 2 == 0;
    if (info.call != device::Call::kAppend || info.at.band.value < 2 || !again) return std::nullopt;
    failed.insert(info.at.band.value);
    return device::Fault{Errc::kDeviceWrite};
  });
  Result<> committed = ok();
  Model before;
  for (int i = 0; i < 1000 && committed; ++i) {
    before = model;
    put(1, static_cast<char>('a' + i % 26));
    committed = store->commit();
  }
  EXPECT_EQ(committed.error(), Errc::kLogFailed);
  EXPECT_GE(failed.size(), 3u);
  faulty->mend();
  open();
  // What failed may be what follows the last change: cleaning, a checkpoint.
  const Model found = contents_of(*store);
  EXPECT_TRUE(found == before || found == model);
  EXPECT_EQ(problems_of(*store), std::vector<std::string>{});
}

// Else ordinary work fills the room that deletions need.
TEST_F(FailedBandTest, ABandThatIsNotResetIsNoRoom) {
  for (const std::uint32_t broken : {1u, 2u}) {
    SCOPED_TRACE(broken);
    begin();
    std::set<BandId> hit;
    faulty->fail_when([&](const device::CallInfo& info) -> std::optional<device::Fault> {
      const std::uint32_t band = info.at.band.value;
      if (info.call != device::Call::kReset || band < 5 || band >= 5 + broken) return std::nullopt;
      hit.insert(info.at.band);
      return device::Fault{Errc::kDeviceWrite};
    });
    for (int i = 0; i < 5; ++i) work();
    EXPECT_EQ(hit.size(), broken);
    const auto bands = store->log_bands();
    EXPECT_TRUE(std::ranges::includes(bands, hit));  // nobody else gets them
    for (const bool is_opened_again : {false, true}) {
      if (is_opened_again) open();
      const std::uint64_t keys = fill();
      for (std::uint64_t i = 0; i < 100; ++i) {
        put(i * 7 % keys, static_cast<char>('a' + i % 26));
        ASSERT_TRUE(store->commit());
      }
      for (std::uint64_t key = 0; key < keys; ++key) ASSERT_TRUE(erase(key)) << key;
      ASSERT_TRUE(store->commit());
    }
    expect_all_there();
  }
}

// Else no checkpoint could be used while the band is in the chain.
TEST_F(FailedBandTest, ACheckpointNamesNoBandThatFailedBeforeItsFirstPart) {
  begin();
  work();
  bool has_failed = false;
  faulty->fail_when([&](const device::CallInfo& info) -> std::optional<device::Fault> {
    const bool begins_band = info.call == device::Call::kAppend && info.at.band.value >= 2 &&
                             info.at.rba == 0;
    if (!begins_band || std::exchange(has_failed, true)) return std::nullopt;
    return device::Fault{Errc::kDeviceWrite};
  });
  for (int i = 0; i < 100 && !has_failed; ++i) {
    put(1, static_cast<char>('a' + i % 26));
    ASSERT_TRUE(store->commit());
  }
  EXPECT_TRUE(has_failed);
  ASSERT_TRUE(store->close());
  open();
  EXPECT_LE(store->stats().recovered_parts, 2u);  // two when it crosses into another band
  expect_all_there();
}

TEST_F(FailedBandTest, AFlushThatFailsIsTheEnd) {
  begin();
  work();
  faulty->fail_nth(device::Call::kFlush, 1, {Errc::kDeviceFlush});
  EXPECT_EQ(store->commit().error(), Errc::kLogFailed);
  open();
  expect_all_there();
}

// Those of the superblocks too, which are written when the log grows and shrinks: what such a
// record says of the log's bands may be believed after a crash, or not.
TEST_F(FailedBandTest, NothingIsWrittenBehindAFlushThatFails) {
  bool grew = false, shrank = false, was_hit = true;
  for (std::uint64_t n = 1; was_hit && !HasFatalFailure(); ++n) {
    SCOPED_TRACE(n);
    begin();
    SpareBands pool({beside_log(0), beside_log(1)});
    store->set_band_source({[&] {
                              const auto band = pool.take();
                              if (band) grew = true;
                              return band;
                            },
                            [&](BandId band) {
                              pool.give_back(band);
                              shrank = true;
                            }});
    faulty->fail_nth(device::Call::kFlush, n, {Errc::kDeviceFlush});
    Model committed;
    bool works = true;
    for (std::uint64_t i = 0; i < 120 && works; ++i) {
      Batch batch;
      for (std::uint64_t key = i % 60 * 5; key < i % 60 * 5 + 5; ++key) {
        const std::string value(1000, 'v');
        if (i < 60) batch.put({1, 1, key}, as_value(value));
        if (i >= 60) batch.erase({1, 1, key});
        if (i < 60) model[{1, 1, key}] = value;
        if (i >= 60) model.erase({1, 1, key});
      }
      works = store->apply(batch, Reserve::kDelete) && store->commit();
      if (works) committed = model;
    }
    was_hit = faulty->faults() > 0;
    if (!was_hit) break;
    EXPECT_FALSE(works);
    EXPECT_TRUE(store->failed());
    const std::uint64_t changes = faulty->changes();
    EXPECT_FALSE(store->commit());
    EXPECT_TRUE(store->close());  // the failure was reported
    EXPECT_EQ(faulty->changes(), changes);
    open();
    const Model found = contents_of(*store);
    EXPECT_TRUE(found == committed || found == model);
    EXPECT_EQ(problems_of(*store), std::vector<std::string>{});
  }
  EXPECT_TRUE(grew && shrank);
}

// A thin-provisioned device, or the filesystem of an image, is full for a while.
TEST_F(FailedBandTest, AFullDeviceCostsTheLogNoBand) {
  begin();
  SpareBands spare({beside_log(0), beside_log(1)});
  store->set_band_source(spare.source());
  std::set<std::uint32_t> failed, again;
  faulty->fail_when([&](const device::CallInfo& info) -> std::optional<device::Fault> {
    const std::uint32_t band = info.at.band.value;
    if (info.call != device::Call::kAppend || band < 2) return std::nullopt;
    if (failed.contains(band)) again.insert(band);
    if (failed.size() == 2 || info.number % 17 != 0) return std::nullopt;
    failed.insert(band);
    return device::Fault{Errc::kDeviceNoSpace, 1};
  });
  for (int i = 0; i < 5 && !HasFailure(); ++i) work();
  EXPECT_EQ(failed.size(), 2u);
  EXPECT_EQ(again, failed);
  EXPECT_EQ(spare.size(), 2u);
  expect_all_there();
  open();
  expect_all_there();
}

TEST_F(FailedBandTest, AFullDeviceTakesNoBandOfTheVolume) {
  begin();
  work();
  SpareBands spare({beside_log(0), beside_log(1)});
  store->set_band_source(spare.source());
  faulty->fail_when([](const device::CallInfo& info) -> std::optional<device::Fault> {
    const bool fails = info.call == device::Call::kAppend && info.at.band.value >= 2;
    return fails ? std::optional(device::Fault{Errc::kDeviceNoSpace}) : std::nullopt;
  });
  put(1, 'z');
  EXPECT_EQ(store->commit(), fail(Errc::kLogFailed));
  EXPECT_EQ(spare.size(), 2u);
  EXPECT_EQ(contents_of(*store), model);
  faulty->mend();
  model[{1, 1, 1}] = std::string(1000, 'a' + 39 % 26);
  open();
  expect_all_there();
  work();
}

TEST_F(FailedBandTest, WhenABandOfTheVolumeCannotBeResetTheLogTakesTheNext) {
  begin();
  SpareBands spare({beside_log(0), beside_log(1), beside_log(2)});
  store->set_band_source(spare.source());
  faulty->fail_when([&](const device::CallInfo& info) -> std::optional<device::Fault> {
    const BandId band = info.at.band;
    const bool is_of_log = band.value >= 2 && band < beside_log(0);
    const bool fails = (info.call == device::Call::kAppend && is_of_log) ||
                       (info.call == device::Call::kReset && band > beside_log(0));
    return fails ? std::optional(device::Fault{Errc::kDeviceWrite}) : std::nullopt;
  });
  put(0, 'a');
  ASSERT_TRUE(store->commit());
  const auto log = store->log_bands();
  EXPECT_EQ(std::ranges::count(log, beside_log(0)), 1);
  EXPECT_EQ(log.size(), kLogBands + rescue_bands() + 1);
  EXPECT_EQ(spare.size(), 2u);
  faulty->mend();
  open();
  expect_all_there();
}

// A transaction of these bands' log takes more than one of them.
class SmallBandsTest : public ModelledStoreTest {
 protected:
  static constexpr std::uint32_t kLogBands = 12, kBandBlocks = 16, kSpare = 8;
  static constexpr std::uint64_t kKeys = 100;

  // Runs `at_first` when the first append to a band of the log fails. `fails`: another such band.
  class AppendsFail final : public device::ForwardingDevice {
   public:
    using ForwardingDevice::ForwardingDevice;
    std::uint64_t failures_left = 0;
    std::function<void()> at_first;
    std::optional<BandId> fails;

    Result<> append(BandAddress to, std::span<const device::Piece> pieces) override {
      const bool is_of_log = to.band.value >= 2 && to.band < first_spare();
      const bool fails_now = failures_left > 0 && (is_of_log || to.band == fails);
      if (!fails_now) return ForwardingDevice::append(to, pieces);
      --failures_left;
      if (at_first) std::exchange(at_first, nullptr)();
      return fail(Errc::kDeviceWrite);
    }
  };

  static BandId first_spare() { return BandId{2 + kLogBands + rescue_bands()}; }
  static std::uint32_t bands() { return 2 + kLogBands + rescue_bands() + kSpare; }
  void TearDown() override { store.reset(); }
  void begin() {
    store.reset();
    model.clear();
    power.emplace(bands(), kBandBlocks, test_seed());
    device.emplace(*power);
    ASSERT_TRUE(Store::format(*device, small_superblock(kLogBands)));
    open_on(*device);
    for (std::uint64_t key = 0; key < kKeys; ++key) put(key, 'a');
    ASSERT_TRUE(store->commit());
    spare.emplace(first_spare().value, kSpare);
    store->set_band_source(spare->source());
  }
  // Changes items that lie in many nodes.
  void change(std::uint64_t first, std::uint64_t end, char letter) {
    for (std::uint64_t key = first; key < end; key += 4) put(key, letter);
  }
  void open_after_a_crash() {
    store.reset();
    device->failures_left = 0;
    power->restore_power();
    open_on(*device);
    EXPECT_EQ(problems_of(*store), std::vector<std::string>{});
  }

  std::optional<PowerDevice> power;
  std::optional<AppendsFail> device;
  std::optional<SpareBands> spare;
};

// The second band that the volume gives fails when the first one is filled.
TEST_F(SmallBandsTest, ATransactionTakesAsManyBandsOfTheVolumeAsItNeeds) {
  bool was_cut = true;
  for (std::uint64_t cut = 1; was_cut && !HasFailure(); ++cut) {
    SCOPED_TRACE(cut);
    begin();
    const Model before = model;
    change(0, 90, 'b');
    device->fails = BandId{first_spare().value + kSpare - 2};
    device->failures_left = ~std::uint64_t{0};
    power->cut_power_after(cut);
    const auto committed = store->commit();
    was_cut = !committed;
    if (committed) {
      EXPECT_LE(spare->size(), kSpare - 4);
    }
    open_after_a_crash();
    const Model found = contents_of(*store);
    EXPECT_TRUE(found == model || (was_cut && found == before));
  }
}

// The next transaction was admitted before the bands failed.
TEST_F(SmallBandsTest, ATransactionThatWasAdmittedBeforeBandsFailedGetsBands) {
  begin();
  put(1, 'b');
  device->failures_left = ~std::uint64_t{0};
  device->at_first = [this] { change(0, 90, 'c'); };
  ASSERT_TRUE(store->commit());
  ASSERT_TRUE(store->commit());
  open_after_a_crash();
  EXPECT_EQ(contents_of(*store), model);
}

// A node of an older transaction keeps the parts in the log that have moved away.
TEST(FailedPartTest, NodesOfATransactionInThreeBandsAreFoundWhereItIsWrittenAfterAFailure) {
  constexpr std::uint32_t kBandBlocks = 16;
  constexpr std::uint64_t kNodes = 2 * kBandBlocks;
  const auto memory = device::MemoryDevice::uniform(8, kBandBlocks);
  device::FaultyDevice faulty(*memory);
  RecoveredLog nothing;
  nothing.spare = {BandId{2}, BandId{3}, BandId{4}, BandId{5}, BandId{6}};
  Log log(faulty, {Uuid{}, 1}, nothing);
  log.reset_retired();
  const AlignedBuffer bytes = AlignedBuffer::zeroed(kBlockBytes);
  std::vector<LogImage> images;
  for (std::uint64_t node = 1; node <= kNodes; ++node) images.push_back({node, bytes.data()});
  const auto write = [&](Seq seq, std::span<const LogImage> of_it) {
    const auto plan = log.plan(seq, of_it.size(), 0);
    EXPECT_TRUE(plan);
    return std::pair(*plan, log.write(*plan, of_it, {}, NodeNo{kNodes + 2}));
  };
  const LogImage older{kNodes + 1, bytes.data()};
  ASSERT_EQ(write(Seq{1}, std::span(&older, 1)).second, ok());
  faulty.fail_nth(device::Call::kAppend, 1, {Errc::kDeviceWrite});
  ASSERT_EQ(write(Seq{2}, images).second, fail(Errc::kDeviceWrite));
  const auto [plan, written] = write(Seq{2}, images);
  ASSERT_EQ(written, ok());
  ASSERT_EQ(plan.parts.size(), 3u);
  std::uint64_t node = 1;
  for (const PartPlan& part : plan.parts) {
    std::vector<NodeNo> nodes;
    for (std::uint32_t i = 0; i < part.images; ++i) nodes.push_back(NodeNo{node++});
    EXPECT_EQ(log.live_of(part.room.slot, kNodes), nodes);
  }
}

class SuperBandTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kLogBands = 6;

  void SetUp() override {
    ASSERT_TRUE(Store::format(*memory, small_superblock(kLogBands)));
    log.emplace(faulty, *read_superblock(faulty));
  }
  void write(int times) {
    for (int i = 0; i < times; ++i) {
      const auto written = log->write(log->current());
      ASSERT_TRUE(written) << i << ": " << describe(written.error());
    }
  }
  // What is found when the other super band cannot be read.
  std::uint64_t newest_in(std::uint32_t band) {
    faulty.break_band(BandId{1 - band});
    const auto found = read_superblock(faulty);
    faulty.mend();
    return found ? found->sequence : 0;
  }

  std::unique_ptr<device::MemoryDevice> memory = memory_device(kLogBands + 2, 600);
  device::FaultyDevice faulty{*memory};
  std::optional<SuperblockLog> log;
};

// In the same session, and not only until the other one is full.
TEST_F(SuperBandTest, OneThatFailedOnceIsUsedAgain) {
  for (const std::uint64_t n : {1, 2}) {
    faulty.fail_nth(device::Call::kAppend, n, {Errc::kDeviceWrite});
    write(700);
    for (const std::uint32_t band : {0u, 1u}) EXPECT_EQ(newest_in(band), log->current().sequence);
  }
}

TEST_F(SuperBandTest, OneThatFailsForEverLeavesAllOfTheOther) {
  faulty.break_band(BandId{1});
  write(590);
  EXPECT_EQ(newest_in(0), log->current().sequence);
}

}  // namespace
}  // namespace lazyfs::meta
