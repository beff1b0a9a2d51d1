// The store after power cuts: it holds all that was committed, and its state is that at the end of
// some transaction.
#include <algorithm>
#include <deque>
#include <set>

#include "device/recording.h"
#include "meta/log/log_layout.h"
#include "test/meta/spare_bands.h"
#include "test/meta/fixture.h"
#include "test/meta/power_device.h"
#include "test/support/rounds.h"

namespace lazyfs::meta {
namespace {

// Changes a store at random and knows what it must hold as of each transaction.
class Workload {
 public:
  explicit Workload(std::uint64_t seed, std::uint64_t keys = 60) : random_(seed), keys_(keys) {}

  // Works until something fails or `steps` are done. Returns whether all went well.
  bool run(Store& store, int steps) {
    for (int step = 0; step < steps; ++step) {
      if (random_() % 6 == 0) {
        if (!commit(store)) return false;
      } else if (!change(store)) {
        return false;
      }
    }
    return true;
  }

  // As run(), but takes everything away.
  bool erase_all(Store& store) {
    while (!now_.empty()) {
      Batch batch;
      batch.erase(now_.begin()->first);
      const auto seq = store.apply(batch, Reserve::kDelete);
      if (!seq) return false;
      now_.erase(now_.begin());
      remember(*seq);
    }
    for (int i = 0; i < 20; ++i) {
      if (!change(store) || !commit(store)) return false;
    }
    return true;
  }

  // The store was opened again: it must hold the state as of its newest transaction, which is none
  // before the last commit that succeeded. Continues from there.
  void expect_recovered(Store& store) {
    const Seq newest = store.durable_seq();
    EXPECT_GE(newest, committed_);
    EXPECT_EQ(store.log_losses(), std::vector<std::string>());
    while (!states_.empty() && states_.back().first > newest) states_.pop_back();
    const Model& expected = states_.empty() ? Model{} : states_.back().second;
    ASSERT_EQ(contents_of(store), expected) << "as of transaction " << newest.value;
    ASSERT_EQ(problems_of(store), std::vector<std::string>{});
    now_ = expected;
    committed_ = newest;
  }

  Seq committed() const { return committed_; }
  const Model& now() const { return now_; }

 private:
  bool commit(Store& store) {
    if (!store.commit()) return false;
    committed_ = states_.empty() ? committed_ : std::max(committed_, states_.back().first);
    while (states_.size() > 1 && states_[1].first <= committed_) states_.pop_front();
    return true;
  }

  bool change(Store& store) {
    Batch batch;
    Model next = now_;
    for (unsigned n = 1 + random_() % 3; n > 0; --n) {
      const Key key{1 + random_() % 2, 1, random_() % keys_};
      if (random_() % 3 == 0) {
        batch.erase(key);
        next.erase(key);
      } else {
        const std::string value(random_() % 300, static_cast<char>('a' + random_() % 26));
        batch.put(key, as_value(value));
        next[key] = value;
      }
    }
    const auto seq = store.apply(batch);
    if (!seq && (seq.error() == Errc::kLogFull || seq.error() == Errc::kBatchTooLarge)) return true;
    if (!seq) return false;
    now_ = std::move(next);
    remember(*seq);
    return true;
  }

  void remember(Seq seq) {
    states_.emplace_back(seq, now_);
    if (states_.size() > 1 && states_[states_.size() - 2].first == seq) {
      states_.erase(states_.end() - 2);
    }
  }

  std::mt19937_64 random_;
  const std::uint64_t keys_;
  Model now_;
  Seq committed_;
  std::deque<std::pair<Seq, Model>>
      states_;  // the last state of each transaction, oldest needed first
};

std::unique_ptr<Store> open_store(device::Device& device, bool read_only = false) {
  StoreOptions options = quiet_options();
  options.read_only = read_only;
  options.cache_bytes = 20 * kBlockBytes;
  auto store = Store::open(device, options);
  EXPECT_TRUE(store.has_value()) << describe(store.error());
  return store ? std::move(*store) : nullptr;
}

// The parameter: whether the device keeps write pointers. One that does not aborts the test when a
// block is written twice between two resets of its band.
class CrashTest : public ::testing::TestWithParam<bool> {
 protected:
  static bool keeps_pointers() { return GetParam(); }
  static std::uint32_t smallest_log() {
    return min_log_bands({.keeps_write_pointers = keeps_pointers()});
  }
  // Runs the workload until the device has seen `changes` changes, then restores the power.
  static void run_until_power_cut(PowerDevice& device, Workload& workload, std::uint64_t changes) {
    auto store = open_store(device);
    ASSERT_TRUE(store);
    device.cut_power_after(changes);
    workload.run(*store, 200);
    store.reset();
    device.restore_power();
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, CrashTest, ::testing::Bool(), [](const auto& kind) {
  return kind.param ? "WithWritePointers" : "WithoutWritePointers";
});

TEST_P(CrashTest, KeepsWhatWasCommittedThroughManyPowerCuts) {
  std::mt19937_64 random(test_seed());
  PowerDevice device(8, 24, random(), keeps_pointers());
  ASSERT_TRUE(Store::format(device, small_superblock(1 + smallest_log())));
  Workload workload(random());
  const std::size_t lives = rounds(1200, 200);
  for (std::size_t life = 0; life < lives; ++life) {
    SCOPED_TRACE(life);
    auto store = open_store(device);
    ASSERT_TRUE(store);
    workload.expect_recovered(*store);
    if (HasFatalFailure()) return;
    device.cut_power_after(1 + random() % 60);
    workload.run(*store, 200);
    store.reset();
    device.restore_power();
  }
}

TEST_P(CrashTest, KeepsWhatWasCommittedWhileTheLogGrowsAndShrinks) {
  std::mt19937_64 random(test_seed());
  PowerDevice device(16, 16, random(), keeps_pointers());
  ASSERT_TRUE(Store::format(device, small_superblock(smallest_log())));
  Workload workload(random(), 150);
  std::size_t most = 0, least = 100;
  std::set<BandId> used;  // by the volume: bands that the log gave back, with durable data in them
  const std::size_t lives = rounds(500, 200);
  for (std::size_t life = 0; life < lives; ++life) {
    SCOPED_TRACE(life);
    auto store = open_store(device);
    ASSERT_TRUE(store);
    workload.expect_recovered(*store);
    if (HasFatalFailure()) return;
    SpareBands pool;
    const std::vector<BandId> log_bands = store->log_bands();
    for (const BandId band : used) {
      EXPECT_FALSE(std::ranges::count(log_bands, band)) << "listed after it was given back";
      EXPECT_GT(*device.write_pointer(band), 0u);
    }
    for (std::uint32_t band = 2; band < 16; ++band) {
      if (!std::ranges::count(log_bands, BandId{band})) pool.give_back(BandId{band});
    }
    most = std::max(most, log_bands.size());
    least = std::min(least, log_bands.size());
    store->set_band_source({.take =
                                [&] {
                                  const auto band = pool.take();
                                  if (band) used.erase(*band);
                                  return band;
                                },
                            .give_back =
                                [&](BandId band) {
                                  pool.give_back(band);
                                  const AlignedBuffer data = AlignedBuffer::zeroed(kBlockBytes);
                                  const auto at = device.write_pointer(band);
                                  if (!at) return;  // the power is off
                                  EXPECT_EQ(*at, 0u);
                                  if (!device.append({band, 0}, data.span())) return;
                                  if (device.flush()) used.insert(band);
                                }});
    device.cut_power_after(1 + random() % 200);
    if (life % 100 == 50) {
      workload.erase_all(*store);
    } else {
      workload.run(*store, 300);
    }
    store.reset();
    device.restore_power();
  }
  EXPECT_EQ(least, smallest_log());
  EXPECT_GT(most, smallest_log() + 1);
}

TEST_P(CrashTest, KeepsWhatWasCommittedWhenThePowerIsCutAtEachChangeInTurn) {
  const std::uint64_t seed = test_seed();
  std::uint64_t cut = 1;
  for (bool finished = false; !finished; ++cut) {
    SCOPED_TRACE(cut);
    PowerDevice device(7, 16, seed + cut, keeps_pointers());
    ASSERT_TRUE(Store::format(device, small_superblock(smallest_log())));
    Workload workload(seed);
    device.cut_power_after(cut);
    auto store = Store::open(device, quiet_options());
    if (store) finished = workload.run(**store, 120) && (*store)->close();
    if (store) store->reset();
    device.restore_power();
    auto again = open_store(device);
    ASSERT_TRUE(again);
    workload.expect_recovered(*again);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(cut, 30u);  // some 50, by seed
}

TEST_P(CrashTest, RecoversTheSameStateAgainWhenThePowerIsCutDuringRecovery) {
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    PowerDevice device(7, 16, random(), keeps_pointers());
    ASSERT_TRUE(Store::format(device, small_superblock(smallest_log())));
    Workload workload(random());
    run_until_power_cut(device, workload, 1 + random() % 100);
    for (std::uint64_t cut = 1; cut < 8; ++cut) {
      device.cut_power_after(cut);
      auto store = Store::open(device, quiet_options());
      if (store) store->reset();
      device.restore_power();
    }
    auto store = open_store(device);
    ASSERT_TRUE(store);
    workload.expect_recovered(*store);
    if (HasFatalFailure()) return;
  }
}

// Puts one item into a store that is opened for it, and ends as if by a power cut that loses
// nothing.
void put_and_die(device::Device& device, Key key, std::string_view value) {
  auto store = open_store(device);
  ASSERT_TRUE(store);
  Batch batch;
  batch.put(key, as_value(value));
  ASSERT_TRUE(store->apply(batch));
  ASSERT_TRUE(store->commit());
}

// The one band of the log that holds something.
BandId head_of(device::Device& device) {
  BandId head{2};
  while (*device.write_pointer(head) == 0) ++head.value;
  return head;
}

// Of four sessions the first loses a long transaction, the second writes a shorter one to its
// place, and the third moves the write pointer over the rest of the long one, and loses what it
// wrote.
TEST(LogCrashTest, ALongTransactionThatWasLostDoesNotComeBackBehindAShorterOne) {
  const auto device = device::MemoryDevice::uniform(7, 64);
  ASSERT_TRUE(Store::format(*device, small_superblock(4)));
  put_and_die(*device, {1, 1, 1}, "kept");
  const BandId head = head_of(*device);
  const std::uint32_t before = *device->write_pointer(head);
  {
    auto store = open_store(*device);
    Batch batch;
    for (std::uint64_t i = 0; i < 8; ++i) batch.put({1, 2, i}, as_value(std::string(1000, 'x')));
    ASSERT_TRUE(store->apply(batch));
    ASSERT_TRUE(store->commit());
  }
  const std::uint32_t behind_long = *device->write_pointer(head);
  device->place_write_pointer(head, before);
  put_and_die(*device, {1, 1, 2}, "short");
  ASSERT_LT(*device->write_pointer(head), behind_long);
  ASSERT_TRUE(open_store(*device));
  device->place_write_pointer(head, behind_long);
  auto store = open_store(*device);
  ASSERT_TRUE(store);
  EXPECT_EQ(contents_of(*store), (Model{{{1, 1, 1}, "kept"}, {{1, 1, 2}, "short"}}));
  EXPECT_EQ(problems_of(*store), std::vector<std::string>{});
}

// A daemon may be killed between writing a transaction and flushing it. The next one finds it, and
// must not say in the superblock that it is durable before it is.
TEST(LogCrashTest, OpeningFlushesWhatItFindsBeforeItWritesAnything) {
  const auto device = device::MemoryDevice::uniform(7, 16);
  ASSERT_TRUE(Store::format(*device, small_superblock(4)));
  device::RecordingDevice recorded(*device);
  const std::size_t before = recorded.op_count();
  ASSERT_TRUE(open_store(recorded));
  const auto ops = recorded.recording().ops;
  ASSERT_GT(ops.size(), before);
  EXPECT_EQ(ops[before].kind, device::Op::Kind::kFlush);
}

TEST_P(CrashTest, ReadOnlyOpeningOfATornLogWritesNothing) {
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < 200; ++round) {
    PowerDevice device(7, 16, random(), keeps_pointers());
    ASSERT_TRUE(Store::format(device, small_superblock(smallest_log())));
    Workload workload(random());
    run_until_power_cut(device, workload, 1 + random() % 100);
    const std::uint64_t changes = device.changes();
    auto store = open_store(device, true);
    ASSERT_TRUE(store);
    workload.expect_recovered(*store);
    ASSERT_TRUE(store->commit());
    ASSERT_TRUE(store->close());
    EXPECT_EQ(device.changes(), changes);
  }
}

}  // namespace
}  // namespace lazyfs::meta
