// Many threads at one store. The figures are small; what counts is that sanitizers and invariants
// find nothing, that no thread waits for ever, and that nothing is lost.
#include <atomic>
#include <thread>

#include "base/endian.h"
#include "test/meta/fixture.h"

namespace lazyfs::meta {
namespace {

std::string value_for(std::uint64_t writer, std::uint64_t round) {
  return std::to_string(writer) + ":" + std::to_string(round) +
         std::string(100 + round % 200, static_cast<char>('a' + writer));
}

class ConcurrencyTest : public ::testing::TestWithParam<std::size_t> {
 protected:
  static constexpr std::uint64_t kWriters = 3, kReaders = 3, kKeys = 400;
};

// Every writer owns its keys and puts two of them alike in each batch; readers see both alike, in
// one scan of a leaf or not; a counter that all add to comes out right.
TEST_P(ConcurrencyTest, ReadersWritersAndCommittersAgree) {
  auto device = device::MemoryDevice::uniform(16, 256);
  ASSERT_TRUE(Store::format(*device, small_superblock(8)));
  StoreOptions options;
  options.cache_bytes = GetParam() * kBlockBytes;
  options.transaction_bytes = 64 * kBlockBytes;
  auto opened = Store::open(*device, options);
  ASSERT_TRUE(opened);
  Store& store = **opened;
  std::atomic<std::uint64_t> batches{0};
  std::atomic<bool> stop{false};
  const Key counter{9, 9, 9};
  std::vector<std::thread> writers, others;
  for (std::uint64_t w = 0; w < kWriters; ++w) {
    writers.emplace_back([&, w] {
      std::mt19937_64 random(test_seed() + w);
      for (std::uint64_t round = 0; round < 1500; ++round) {
        const std::uint64_t key = random() % kKeys;
        const std::string value = value_for(w, round);
        Batch batch;
        if (random() % 4 == 0) {
          batch.erase({w, 1, key});
          batch.erase({w, 2, key});
        } else {
          batch.put({w, 1, key}, as_value(value));
          batch.put({w, 2, key}, as_value(value));
        }
        const std::int64_t one = 1;
        batch.add(counter, std::span(&one, 1));
        const auto seq = store.apply(batch);
        ASSERT_TRUE(seq) << describe(seq.error());
        ++batches;
        if (random() % 50 == 0) {
          ASSERT_TRUE(store.commit());
          ASSERT_GE(store.durable_seq(), *seq);
        }
      }
    });
  }
  for (std::uint64_t r = 0; r < kReaders; ++r) {
    others.emplace_back([&, r] {
      std::mt19937_64 random(test_seed() + 100 + r);
      for (Seq durable; !stop;) {
        ASSERT_GE(store.durable_seq(), durable);
        durable = store.durable_seq();
        const std::uint64_t w = random() % kWriters;
        ASSERT_TRUE(store.get({w, 1, random() % kKeys}));
        ASSERT_TRUE(store.last_in({w, 1, 0}, {w, 1, random() % kKeys}));
        const auto items = store.scan({w, 1, random() % kKeys}, {w, 1, kMaxOffset}, 20);
        ASSERT_TRUE(items);
        for (std::size_t i = 1; i < items->size(); ++i) {
          ASSERT_LT((*items)[i - 1].key, (*items)[i].key);
        }
        std::this_thread::yield();
      }
    });
  }
  others.emplace_back([&] {
    while (!stop) {
      ASSERT_TRUE(store.commit());
      (void)store.stats();
      std::this_thread::yield();
    }
  });
  for (auto& thread : writers) thread.join();
  stop = true;
  for (auto& thread : others) thread.join();
  const auto total = store.get(counter);
  ASSERT_TRUE(total && *total);
  EXPECT_EQ(load_le_at<std::uint64_t>(bytes_of(**total), 0), batches.load());
  const Model all = contents_of(store);
  for (const auto& [key, value] : all) {
    if (key.kind != 1) continue;
    const auto twin = all.find({key.owner, 2, key.offset});
    ASSERT_NE(twin, all.end());
    EXPECT_EQ(twin->second, value);
  }
  EXPECT_EQ(problems_of(store), std::vector<std::string>{});
  ASSERT_TRUE(store.close());
  opened->reset();
  opened = Store::open(*device, options);
  ASSERT_TRUE(opened);
  EXPECT_EQ(contents_of(**opened), all);
}

INSTANTIATE_TEST_SUITE_P(CacheNodes, ConcurrencyTest, ::testing::Values(16, 64, 4096));

}  // namespace
}  // namespace lazyfs::meta
