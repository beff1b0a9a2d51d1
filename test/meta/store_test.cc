#include "meta/store.h"

#include "fixture.h"

namespace lazyfs::meta {
namespace {

class StoreTest : public ::testing::Test {
 protected:
  void make(std::uint32_t log_bands = 6, std::uint32_t band_blocks = 64) {
    device = device::MemoryDevice::uniform(log_bands + 10, band_blocks);
    ASSERT_TRUE(Store::format(*device, small_superblock(log_bands)));
    open();
  }
  void open() {
    auto opened = Store::open(*device, options);
    ASSERT_TRUE(opened.has_value()) << describe(opened.error());
    store = std::move(*opened);
  }
  void reopen() {
    ASSERT_TRUE(store->close());
    store.reset();
    open();
  }
  Result<Seq> put(Key key, std::string_view value, Reserve reserve = Reserve::kNone) {
    Batch batch;
    batch.put(key, as_value(value));
    return store->apply(batch, reserve);
  }
  Result<Seq> erase(Key key) {
    Batch batch;
    batch.erase(key);
    return store->apply(batch);
  }
  std::optional<std::string> get(Key key) {
    const auto value = store->get(key);
    EXPECT_TRUE(value.has_value()) << describe(value.error());
    if (!value || !*value) return std::nullopt;
    return as_text(**value);
  }

  std::unique_ptr<device::MemoryDevice> device;
  StoreOptions options = quiet_options();
  std::unique_ptr<Store> store;
};

TEST_F(StoreTest, IsEmptyAfterFormat) {
  make();
  EXPECT_EQ(get({1, 1, 1}), std::nullopt);
  EXPECT_TRUE(contents_of(*store).empty());
  EXPECT_EQ(problems_of(*store), std::vector<std::string>{});
}

TEST_F(StoreTest, FindsWhatWasPutAlsoAfterReopening) {
  make();
  ASSERT_TRUE(put({1, 2, 3}, "abc"));
  ASSERT_TRUE(put({1, 2, 4}, ""));
  EXPECT_EQ(get({1, 2, 3}), "abc");
  reopen();
  EXPECT_EQ(get({1, 2, 3}), "abc");
  EXPECT_EQ(get({1, 2, 4}), "");
  EXPECT_EQ(get({1, 2, 5}), std::nullopt);
}

TEST_F(StoreTest, KeepsRandomItemsThroughCommitsReopeningsAndATinyCache) {
  options.cache_bytes = 20 * kBlockBytes;
  make(8, 64);
  std::mt19937_64 random(test_seed());
  Model model;
  for (int round = 0; round < 20000; ++round) {
    Batch batch;
    for (unsigned n = 1 + random() % 5; n > 0; --n) {
      const Key key{random() % 4, static_cast<std::uint8_t>(random() % 2), random() % 300};
      if (random() % 3 == 0) {
        batch.erase(key);
        model.erase(key);
      } else {
        std::string value(random() % 100, static_cast<char>('a' + random() % 26));
        if (random() % 50 == 0) value.resize(kMaxValueBytes, 'x');
        batch.put(key, as_value(value));
        model[key] = value;
      }
    }
    const auto applied = store->apply(batch);
    ASSERT_TRUE(applied.has_value()) << round << describe(applied.error());
    if (random() % 20 == 0) {
      ASSERT_TRUE(store->commit());
    }
    if (random() % 1000 == 0) {
      reopen();
      ASSERT_EQ(contents_of(*store), model);
      ASSERT_EQ(problems_of(*store), std::vector<std::string>{});
    }
  }
  ASSERT_EQ(contents_of(*store, 7), model);
}

}  // namespace
}  // namespace lazyfs::meta
