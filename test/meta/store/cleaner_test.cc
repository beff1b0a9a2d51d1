// The log is small and written for ever: the tail follows, whatever is live is kept, and what does
// not fit is refused with nothing lost.
#include <set>

#include "device/faulty.h"
#include "device/forwarding.h"
#include "meta/log/log_layout.h"
#include "meta/tree/node_page.h"
#include "test/meta/modelled_store.h"
#include "test/meta/power_device.h"
#include "test/meta/spare_bands.h"
#include "test/support/result_printer.h"

namespace lazyfs::meta {
namespace {

struct Shape {
  std::uint32_t bands, blocks;
};

class CleanerTest : public ::testing::TestWithParam<Shape> {
 protected:
  void SetUp() override {
    device = memory_device(GetParam().bands + 12, GetParam().blocks);
    ASSERT_TRUE(Store::format(*device, small_superblock(GetParam().bands)));
    open();
  }
  void open(StoreOptions options = quiet_options()) {
    store.reset();
    device->forget_write_pointers();
    auto opened = Store::open(*device, options);
    ASSERT_TRUE(opened) << describe(opened.error());
    store = std::move(*opened);
  }
  Result<Seq> put(std::uint64_t key, std::string value, Reserve reserve = Reserve::kNone) {
    Batch batch;
    batch.put({1, 1, key}, as_value(value));
    auto applied = store->apply(batch, reserve);
    if (applied) model[{1, 1, key}] = std::move(value);
    return applied;
  }
  Result<Seq> erase(std::uint64_t key) {
    Batch batch;
    batch.erase({1, 1, key});
    auto applied = store->apply(batch, Reserve::kDelete);
    if (applied) model.erase({1, 1, key});
    return applied;
  }
  // Puts large items until the log refuses.
  std::uint64_t fill() {
    for (std::uint64_t key = 0;; ++key) {
      const auto applied = put(key, std::string(1000, 'f'));
      if (!applied) {
        EXPECT_EQ(applied.error(), Errc::kLogFull);
        return key;
      }
    }
  }

  static std::uint32_t log_bands() { return GetParam().bands + rescue_bands(); }

  std::unique_ptr<device::MemoryDevice> device;
  std::unique_ptr<Store> store;
  Model model;
};

TEST_P(CleanerTest, RewritesForEver) {
  std::mt19937_64 random(test_seed());
  const std::uint64_t total = std::uint64_t{GetParam().bands} * GetParam().blocks;
  while (store->stats().log_blocks_written < 300 * total) {
    ASSERT_TRUE(put(random() % 20, std::string(random() % 300, 'r')));
    if (random() % 3 == 0) {
      ASSERT_TRUE(store->commit());
    }
  }
  EXPECT_EQ(contents_of(*store), model);
  EXPECT_EQ(problems_of(*store), std::vector<std::string>{});
  open();
  EXPECT_TRUE(store->stats().log_free_bands > 0);
}

TEST_P(CleanerTest, RewritesForEverBesideColdItemsThatFillTheLog) {
  std::mt19937_64 random(test_seed());
  const std::uint64_t cold = fill();
  ASSERT_GT(cold, 0u);
  const std::uint64_t total = std::uint64_t{GetParam().bands} * GetParam().blocks;
  while (store->stats().log_blocks_written < 100 * total) {
    ASSERT_TRUE(put(random() % cold, std::string(1000, static_cast<char>('a' + random() % 26))));
    if (random() % 2 == 0) {
      ASSERT_TRUE(store->commit());
    }
  }
  ASSERT_TRUE(store->commit());
  EXPECT_EQ(contents_of(*store), model);
  EXPECT_EQ(problems_of(*store), std::vector<std::string>{});
  EXPECT_GT(store->stats().nodes_cleaned, 0u);
  open();
  EXPECT_EQ(contents_of(*store), model);
}

TEST_P(CleanerTest, AFullLogStillTakesDeletionsAndThenPutsAgain) {
  const std::uint64_t keys = fill();
  ASSERT_TRUE(store->commit());
  EXPECT_EQ(put(keys + 1, std::string(1000, 'x')).error(), Errc::kLogFull);
  EXPECT_EQ(contents_of(*store), model);
  for (std::uint64_t key = 0; key < keys; ++key) ASSERT_TRUE(erase(key)) << key;
  ASSERT_TRUE(store->commit());
  EXPECT_EQ(store->stats().log_live_blocks, 1u);
  const std::uint64_t again = fill();
  EXPECT_EQ(again, keys);
  ASSERT_TRUE(store->close());
  open();
  EXPECT_EQ(contents_of(*store), model);
}

TEST_P(CleanerTest, TheReserveForDeletionsGoesFurtherThanOrdinaryWork) {
  std::uint64_t key = fill();
  EXPECT_TRUE(put(key, std::string(1000, 'd'), Reserve::kDelete));
  EXPECT_EQ(problems_of(*store), std::vector<std::string>{});
}

TEST_P(CleanerTest, PunchingLeavesRoomForDeletions) {
  std::uint64_t key = fill();
  Result<Seq> punched = Seq{};
  while ((punched = put(key, std::string(1000, 'p'), Reserve::kPunch))) ++key;
  EXPECT_EQ(punched.error(), Errc::kLogFull);
  EXPECT_TRUE(put(key, std::string(1000, 'd'), Reserve::kDelete));
}

TEST_P(CleanerTest, AFullLogTakesABandAndGivesItBackWhenEmpty) {
  SpareBands pool(2 + log_bands(), 6);  // the bands given back need not be those that were taken
  const auto source = [&] {
    return Store::BandSource{.take = [&] { return pool.take(); },
                             .give_back =
                                 [&](BandId band) {
                                   EXPECT_EQ(*device->write_pointer(band), 0u);
                                   pool.give_back(band);
                                 }};
  };
  store->set_band_source(source());
  const std::uint64_t keys = fill();
  EXPECT_EQ(pool.size(), 0u);
  EXPECT_EQ(store->log_bands().size(), log_bands() + 6);
  EXPECT_EQ(store->superblock().log_bands, store->log_bands());
  ASSERT_TRUE(store->commit());
  open();
  store->set_band_source(source());
  EXPECT_EQ(store->log_bands().size(), log_bands() + 6);
  EXPECT_EQ(contents_of(*store), model);
  for (std::uint64_t key = 0; key < keys; ++key) ASSERT_TRUE(erase(key));
  for (std::uint32_t i = 0; i < 300; ++i) {
    ASSERT_TRUE(put(1, std::to_string(i)));
    ASSERT_TRUE(store->commit());
  }
  EXPECT_EQ(store->log_bands().size(), log_bands());
  EXPECT_EQ(pool.size(), 6u);
  open();
  EXPECT_EQ(contents_of(*store), model);
}

// Nothing but the commit of what was deleted wakes the thread.
TEST_P(CleanerTest, ThreadGivesEveryBandBackThatALogWithoutItemsDoesNotNeed) {
  SpareBands pool(2 + log_bands(), 6);
  StoreOptions options;
  options.transaction_bytes = 8 * kBlockBytes;
  open(options);
  store->set_band_source(pool.source());
  const std::uint64_t keys = fill();
  for (std::uint64_t key = 0; key < keys; ++key) ASSERT_TRUE(erase(key));
  ASSERT_TRUE(store->commit());
  pool.wait_for_size(6);
  EXPECT_EQ(store->log_bands().size(), log_bands());
  ASSERT_TRUE(store->close());
  open();
  EXPECT_EQ(contents_of(*store), model);
}

TEST_P(CleanerTest, GivesBackUnderShortageWhatItWouldKeepOtherwise) {
  SpareBands pool(2 + log_bands(), 6);
  const std::size_t all = pool.size();
  store->set_band_source(pool.source());
  const std::uint64_t keys = fill();
  ASSERT_TRUE(store->commit());
  ASSERT_TRUE(store->give_back_bands());
  EXPECT_EQ(pool.size(), 0u) << "a full log has none to give";
  for (std::uint64_t key = keys / 2; key < keys; ++key) ASSERT_TRUE(erase(key));
  ASSERT_TRUE(store->give_back_bands());
  EXPECT_GT(pool.size(), 0u);
  EXPECT_EQ(contents_of(*store), model);
  EXPECT_EQ(store->log_bands().size() + pool.size(), log_bands() + all);
  const std::size_t had = pool.size();
  ASSERT_TRUE(store->commit());
  EXPECT_EQ(pool.size(), had) << "it needs them again at once";
  open();
  EXPECT_EQ(contents_of(*store), model);
}

TEST_P(CleanerTest, WorksWithAThreadOfItsOwn) {
  StoreOptions options;
  options.cache_bytes = 16 * kBlockBytes;
  options.transaction_bytes = 8 * kBlockBytes;
  open(options);
  std::mt19937_64 random(test_seed());
  const std::uint64_t total = std::uint64_t{GetParam().bands} * GetParam().blocks;
  while (store->stats().log_blocks_written < 50 * total) {
    ASSERT_TRUE(put(random() % 20, std::string(random() % 300, 'r')));
    if (random() % 8 == 0) {
      ASSERT_TRUE(store->commit());
    }
  }
  ASSERT_TRUE(store->close());
  open();
  EXPECT_EQ(contents_of(*store), model);
}

INSTANTIATE_TEST_SUITE_P(Shapes, CleanerTest,
                         ::testing::Values(Shape{4, 16}, Shape{4, 64}, Shape{6, 16}, Shape{8, 40},
                                           Shape{16, 16}),
                         [](const auto& shape) {
                           return std::to_string(shape.param.bands) + "x" +
                                  std::to_string(shape.param.blocks);
                         });

TEST(CleanerTest, FormatRefusesALogThatIsTooSmall) {
  auto few = memory_device(8, 64);
  EXPECT_EQ(Store::format(*few, small_superblock(kMinLogBands - 1)).error(), Errc::kBadGeometry);
  auto small = memory_device(8, kMinLogBandBlocks - 1);
  EXPECT_EQ(Store::format(*small, small_superblock(kMinLogBands)).error(), Errc::kBadGeometry);
}

// Fails the first two reads of a leaf alone, which load it, and calls a function with the leaf's
// keys before the next one. So the leaf changes after the cleaner has chosen it, and before the
// cleaner has read it.
class LeafChangesWhileItIsRead final : public device::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  std::function<void(const std::vector<Key>&)> change;  // set: called for the next leaf read
  bool reads_zeros = false;  // after the change, as if the leaf's band had been reset
  bool has_changed() const { return has_changed_; }

  Result<> read(BandAddress from, std::span<std::byte> to) override {
    TRY(ForwardingDevice::read(from, to));
    if (!change) return ok();
    const ConstNodePage page(to.data());
    if (to.size() > kBlockBytes || (leaf_ && *leaf_ != from)) return fail(Errc::kDeviceRead);
    if (!page.is_leaf() || page.count() == 0) return ok();
    leaf_ = from;
    if (++reads_ <= 2) return fail(Errc::kDeviceRead);
    std::vector<Key> keys;
    for (unsigned i = 0; i < page.count(); ++i) keys.push_back(page.key(i));
    has_changed_ = true;
    std::exchange(change, nullptr)(keys);
    if (reads_zeros) std::ranges::fill(to, std::byte{0});
    return ok();
  }

 private:
  std::optional<BandAddress> leaf_;
  int reads_ = 0;
  bool has_changed_ = false;
};

// The cleaner reads before its turn, so other work comes between its reading and its commit.
class CleanerReadsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(Store::format(*memory, small_superblock(4)));
    StoreOptions options = quiet_options();
    options.cache_bytes = 16 * kBlockBytes;
    store = *Store::open(device, options);
    store->set_band_source(pool.source());
    for (std::uint64_t key = 0; key < 900; ++key) put(key, 'a');
    ASSERT_TRUE(store->commit());
    for (std::uint64_t key = 0; key < 900; key += 9) {
      erase({{1, 1, key}, {1, 1, key + 1}, {1, 1, key + 2}, {1, 1, key + 3}, {1, 1, key + 4}});
    }
  }
  void put(std::uint64_t key, char letter) {
    Batch batch;
    const std::string value(1000, letter);
    batch.put({1, 1, key}, as_value(value));
    ASSERT_TRUE(store->apply(batch));
    model[{1, 1, key}] = value;
  }
  void erase(const std::vector<Key>& keys) {
    Batch batch;
    for (const Key& key : keys) {
      batch.erase(key);
      model.erase(key);
    }
    ASSERT_TRUE(store->apply(batch, Reserve::kDelete));
    ASSERT_TRUE(store->commit());
  }
  // Works until the cleaner has read a leaf that changed meanwhile.
  void clean_while(const std::function<void(const std::vector<Key>&)>& change) {
    for (int round = 0; round < 500 && !device.has_changed(); ++round) {
      put(5 + 9 * (static_cast<std::uint64_t>(round) % 100), 'b');
      ASSERT_TRUE(store->commit());
      device.change = change;
      ASSERT_TRUE(store->give_back_bands());
      device.change = nullptr;
    }
    ASSERT_TRUE(device.has_changed());
  }

  std::unique_ptr<device::MemoryDevice> memory = memory_device(24, 64);
  LeafChangesWhileItIsRead device{*memory};
  SpareBands pool{12, 12};
  std::unique_ptr<Store> store;
  Model model;
};

TEST_F(CleanerReadsTest, ANodeThatDiesMeanwhileStaysDead) {
  device.reads_zeros = true;
  clean_while([this](const std::vector<Key>& keys) { erase(keys); });
  ASSERT_TRUE(store->commit());
  EXPECT_EQ(problems_of(*store), std::vector<std::string>());
  EXPECT_EQ(contents_of(*store), model);
}

// Else two threads that clean take the room of one another's reserve, and the log stays full.
TEST_F(CleanerReadsTest, ANodeThatIsMovedMeanwhileIsNotMovedAgain) {
  std::uint64_t moved = 0;
  clean_while([&](const std::vector<Key>&) {
    ASSERT_TRUE(store->give_back_bands());
    moved = store->stats().nodes_cleaned;
  });
  EXPECT_GT(moved, 0u);
  EXPECT_EQ(store->stats().nodes_cleaned, moved);
  EXPECT_EQ(problems_of(*store), std::vector<std::string>());
  EXPECT_EQ(contents_of(*store), model);
}

// A log that is too small for cold bands, with a leaf that the device does not read.
class UnreadableTailCleanerTest : public ModelledStoreTest {
 protected:
  static constexpr std::uint64_t kKeys = 30;

  void SetUp() override {
    ASSERT_TRUE(Store::format(*memory, small_superblock(4)));
    open_on(*memory);
    for (std::uint64_t key = 0; key < kKeys; ++key) put(key, 'a');
    ASSERT_TRUE(store->close());
    StoreOptions options = quiet_options();
    options.cache_bytes = 16 * kBlockBytes;
    open_on(device, options);
    const std::set<BandAddress> bad = images_of_first_leaf();
    ASSERT_FALSE(bad.empty());
    device.fail_when([bad](const device::CallInfo& info) -> std::optional<device::Fault> {
      if (info.call != device::Call::kRead) return std::nullopt;
      const auto first = bad.lower_bound(info.at);
      const bool meets = first != bad.end() && first->band == info.at.band &&
                         first->rba < info.at.rba + info.blocks;
      return meets ? std::optional(device::Fault{Errc::kDeviceRead}) : std::nullopt;
    });
  }
  std::set<BandAddress> images_of_first_leaf() {
    std::set<BandAddress> images;
    AlignedBuffer block(kBlockBytes);
    for (const BandId band : store->log_bands()) {
      for (std::uint32_t rba = 1; rba < memory->geometry().blocks_of(band); ++rba) {
        if (!memory->read({band, rba}, block.span())) continue;
        const ConstNodePage page(block.data());
        if (!std::ranges::equal(block.span().first(4), as_value("LZND"))) continue;
        if (page.is_leaf() && page.count() > 0 && page.key(0).offset == 0) {
          images.insert({band, rba});
        }
      }
    }
    return images;
  }
  // Changes the last leaf.
  Result<> change(std::uint64_t round) {
    const Key key{1, 1, kKeys - 1 - round % 3};
    const std::string value(1000, static_cast<char>('b' + round % 20));
    Batch batch;
    batch.put(key, as_value(value));
    if (auto applied = store->apply(batch); !applied) return fail(applied.error());
    model[key] = value;
    return store->commit();
  }

  std::unique_ptr<device::MemoryDevice> memory = memory_device(20, 64);
  device::FaultyDevice device{*memory};
};

TEST_F(UnreadableTailCleanerTest, IsReadOnceAndThenLeftAlone) {
  Result<> changed = ok();
  for (std::uint64_t round = 0; round < 1000 && changed; ++round) changed = change(round);
  EXPECT_EQ(changed, fail(Errc::kLogFull));
  EXPECT_GT(device.faults(), 0u);
  EXPECT_LT(device.faults(), 10u);
  const std::uint64_t faults = device.faults(), flushes = device.calls(device::Call::kFlush);
  EXPECT_EQ(change(0), fail(Errc::kLogFull));
  EXPECT_EQ(device.faults(), faults);
  EXPECT_LT(device.calls(device::Call::kFlush), flushes + 10);
  device.mend();
  EXPECT_EQ(contents_of(*store), model);
}

TEST_F(UnreadableTailCleanerTest, NoLongerHoldsTheTailOfALogThatHasGrown) {
  SpareBands spare(8, 6);
  store->set_band_source(spare.source());
  for (std::uint64_t round = 0; round < 2000; ++round) ASSERT_EQ(change(round), ok()) << round;
  EXPECT_GT(device.faults(), 0u);
  EXPECT_LT(device.faults(), 20u);
  EXPECT_GT(store->stats().log_cold_bands, 0u);
  device.mend();
  EXPECT_EQ(contents_of(*store), model);
  EXPECT_EQ(problems_of(*store), std::vector<std::string>());
}

// A leaf that is read differently each time.
class RestlessTailCleanerTest : public UnreadableTailCleanerTest {
 protected:
  class RestlessDevice final : public device::ForwardingDevice {
   public:
    using ForwardingDevice::ForwardingDevice;
    std::set<BandAddress> bad;
    std::uint64_t hits = 0;
    bool medium_is_good = false;  // a read is right just after the copies were forgotten

    void forget_copies(BandId) override { is_fresh_ = medium_is_good; }

    Result<> read(BandAddress from, std::span<std::byte> to) override {
      TRY(ForwardingDevice::read(from, to));
      if (std::exchange(is_fresh_, false)) return ok();
      for (const BandAddress at : bad) {
        const std::uint32_t block = at.rba - from.rba;
        const bool hit = at.band == from.band && block < to.size() / kBlockBytes;
        if (hit) to[std::size_t{block} * kBlockBytes + 100 + hits++ % 3000] ^= std::byte{1};
      }
      return ok();
    }

   private:
    bool is_fresh_ = false;
  };

  void SetUp() override {
    UnreadableTailCleanerTest::SetUp();
    device.mend();
    const auto images = images_of_first_leaf();
    StoreOptions options = quiet_options();
    options.cache_bytes = 16 * kBlockBytes;
    store.reset();
    memory->forget_write_pointers();
    open_on(restless, options);
    restless.bad = images;
  }

  RestlessDevice restless{*memory};
};

TEST_F(RestlessTailCleanerTest, IsNotMovedAsADamagedNode) {
  SpareBands spare(8, 6);
  store->set_band_source(spare.source());
  for (std::uint64_t round = 0; round < 2000; ++round) ASSERT_EQ(change(round), ok()) << round;
  EXPECT_GT(restless.hits, 1u);
  restless.bad.clear();
  EXPECT_EQ(contents_of(*store), model);
  EXPECT_EQ(problems_of(*store), std::vector<std::string>());
}

TEST_F(RestlessTailCleanerTest, IsMovedWhenTheSecondReadIsRight) {
  restless.medium_is_good = true;
  for (std::uint64_t round = 0; round < 1000; ++round) ASSERT_EQ(change(round), ok()) << round;
  EXPECT_GT(restless.hits, 0u);
  restless.bad.clear();
  EXPECT_EQ(contents_of(*store), model);
}

TEST_F(UnreadableTailCleanerTest, CountsAgainOnceItsBandWasReset) {
  SpareBands spare(8, 3);
  store->set_band_source(spare.source());
  for (std::uint64_t round = 0; round < 500; ++round) ASSERT_EQ(change(round), ok()) << round;
  device.mend();
  for (std::uint64_t key = 0; key < kKeys; ++key) put(key, 'z');
  for (std::uint64_t round = 0; round < 500; ++round) ASSERT_EQ(change(round), ok()) << round;
  Result<Seq> applied = Seq{};
  Batch batch;
  for (std::uint64_t key = kKeys; applied; ++key) {
    batch = Batch();
    batch.put({1, 1, key}, as_value(std::string(1000, 'f')));
    applied = store->apply(batch);
  }
  EXPECT_EQ(applied, fail(Errc::kLogFull));
  ASSERT_TRUE(store->close());
  open_on(device);
  EXPECT_EQ(store->apply(batch), fail(Errc::kLogFull)) << "the log was larger than it seemed";
}

}  // namespace
}  // namespace lazyfs::meta
