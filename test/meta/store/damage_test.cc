// What the store does when the device fails or its bytes are damaged.
#include <algorithm>
#include <map>
#include <set>

#include "base/crc32c.h"
#include "base/endian.h"
#include "device/memory.h"
#include "meta/log/damaged_headers.h"
#include "meta/log/recovery.h"
#include "test/meta/fixture.h"
#include "meta/tree/node_page.h"
#include "test/meta/power_device.h"
#include "test/meta/troubled_device.h"

namespace lazyfs::meta {
namespace {

Key key_of(std::uint64_t i) { return {1, 1, i}; }
std::string value_of(std::uint64_t i) {
  return std::string(300, static_cast<char>('a' + i % 26)) + std::to_string(i);
}

class SmallLogTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kLogBands = 5, kBandBlocks = 32;
};

class DamageTest : public SmallLogTest {
 protected:
  DamageTest() : device(kLogBands + 2 + rescue_bands(), kBandBlocks, test_seed()) {}
  void SetUp() override { ASSERT_TRUE(Store::format(device, small_superblock(kLogBands))); }
  Result<std::unique_ptr<Store>> open() { return Store::open(device, quiet_options()); }
  Result<Seq> put(Store& store, std::uint64_t i) {
    Batch batch;
    batch.put(key_of(i), as_value(value_of(i)));
    return store.apply(batch);
  }
  // `items` items, committed in fives, and a clean end.
  void fill(std::uint64_t items) {
    auto store = open();
    ASSERT_TRUE(store);
    for (std::uint64_t i = 0; i < items; ++i) {
      ASSERT_TRUE(put(**store, i));
      if (i % 5 == 4) {
        ASSERT_TRUE((*store)->commit());
      }
    }
    ASSERT_TRUE((*store)->close());
  }
  // With zeros.
  void overwrite_all(BandId band) {
    const AlignedBuffer zeros = AlignedBuffer::zeroed(kBlockBytes);
    for (std::uint32_t rba = 0; rba < *device.write_pointer(band); ++rba) {
      device.overwrite({band, rba}, zeros.span().first<kBlockBytes>());
    }
  }
  // Of the log.
  BandId oldest_band() {
    const auto superblock = read_superblock(device);
    return recover_log(device, *superblock)->chain.front().band;
  }
  // Where the device holds blocks that begin with `magic`.
  std::vector<BandAddress> blocks_with(std::string_view magic) {
    return blocks_with(magic, device);
  }
  static std::vector<BandAddress> blocks_with(std::string_view magic, PowerDevice& device) {
    std::vector<BandAddress> found;
    AlignedBuffer block(kBlockBytes);
    for (std::uint32_t band = 0; band < device.geometry().band_count(); ++band) {
      for (std::uint32_t rba = 0; rba < *device.write_pointer(BandId{band}); ++rba) {
        if (!device.read({BandId{band}, rba}, block.span())) continue;
        if (std::ranges::equal(block.span().first(4), as_value(magic))) {
          found.push_back({BandId{band}, rba});
        }
      }
    }
    return found;
  }

  PowerDevice device;
};

// A session writes a transaction and loses it: the write pointer is where it was. The next one
// writes another with the same number to the same place, and the power is cut: of its first block
// the medium shows what the lost one was. They are distinguished as long as it is the newest, and
// later.
class OutdatedFrontTest : public SmallLogTest {
 protected:
  static constexpr std::uint64_t kItems = 60;  // in several leaves

  std::vector<std::uint32_t> write_pointers() {
    std::vector<std::uint32_t> all;
    for (std::uint32_t band = 2; band < kLogBands + 2; ++band) {
      all.push_back(*device->write_pointer(BandId{band}));
    }
    return all;
  }
  // Opens, changes items, commits, and is killed. Returns where the log ended before.
  std::vector<std::uint32_t> change(std::uint64_t first, std::uint64_t end, std::uint64_t value) {
    auto store = Store::open(*device, quiet_options());
    EXPECT_TRUE(store);
    const auto before = write_pointers();
    for (std::uint64_t i = first; i < end; ++i) {
      Batch batch;
      batch.put(key_of(i), as_value(value_of(value)));
      EXPECT_TRUE((*store)->apply(batch));
      values[i] = value;
    }
    EXPECT_TRUE((*store)->commit());
    return before;
  }
  // `earlier`: the number of transactions that come first, so that this one lies elsewhere in its
  // band. False if it lies in two bands.
  bool write_one_with_an_outdated_front(int earlier) {
    device = memory_device(kLogBands + 2, kBandBlocks);
    EXPECT_TRUE(Store::format(*device, small_superblock(kLogBands)));
    change(0, kItems, 0);
    for (; earlier > 0; --earlier) change(0, 1, 0);
    const auto before = change(0, 1, 1);
    values[0] = 0;
    const auto lost = write_pointers();
    const auto differs = std::ranges::mismatch(before, lost);
    if (!std::equal(differs.in1 + 1, before.end(), differs.in2 + 1)) return false;
    const auto band = static_cast<std::uint32_t>(differs.in1 - before.begin()) + 2;
    const BandAddress front{BandId{band}, *differs.in1};
    AlignedBuffer outdated(kBlockBytes), now(kBlockBytes);
    device->peek(front, outdated.span());
    device->place_write_pointer(front.band, front.rba);
    EXPECT_EQ(change(kItems - 1, kItems, 2), before);
    EXPECT_EQ(write_pointers(), lost);
    device->peek(front, now.span());
    EXPECT_FALSE(std::ranges::equal(now.span(), outdated.span()));
    device->poke(front, outdated.span());
    return true;
  }
  void expect_all_there(Store& store) {
    for (const auto& [i, number] : values) {
      const auto value = store.get(key_of(i));
      ASSERT_TRUE(value && *value) << i;
      EXPECT_EQ(as_text(**value), value_of(number)) << i;
    }
  }

  std::unique_ptr<device::MemoryDevice> device;
  std::map<std::uint64_t, std::uint64_t> values;  // by item
};

TEST_F(OutdatedFrontTest, WhatALostSessionHadWrittenIsNeverTakenForWhatCameAfterIt) {
  ASSERT_TRUE(write_one_with_an_outdated_front(0));
  for (int mount = 0; mount < 3; ++mount) {
    SCOPED_TRACE(mount);
    auto store = Store::open(*device, quiet_options());
    ASSERT_TRUE(store) << describe(store.error());
    expect_all_there(**store);
  }
}

// Also if a read is wrong.
TEST_F(OutdatedFrontTest, IsNotTakenForTheNewOneWhicheverReadIsWrong) {
  StoreOptions options = quiet_options();
  options.read_only = true;
  int tried = 0;
  for (int earlier = 0; earlier < 20; ++earlier) {
    SCOPED_TRACE(earlier);
    if (!write_one_with_an_outdated_front(earlier)) continue;
    change(kItems / 2, kItems / 2 + 1, 3);
    bool is_past = true;
    for (std::uint64_t n = 1; is_past && !HasFailure(); ++n, ++tried) {
      SCOPED_TRACE(n);
      WrongReadDevice wrong(*device, n);
      auto store = Store::open(wrong, options);
      ASSERT_TRUE(store) << describe(store.error());
      is_past = wrong.is_past();
      if (is_past) expect_all_there(**store);
    }
  }
  EXPECT_GT(tried, 50);
}

// A store is formatted again under the same UUID. A power cut shows blocks of the store before, at
// the very places where the new one began alike: they do not count.
using FormatAgainTest = SmallLogTest;

TEST_F(FormatAgainTest, WhatWasThereBeforeUnderTheSameUuidDoesNotComeBack) {
  const auto device = memory_device(kLogBands + 2, kBandBlocks);
  std::vector<AlignedBuffer> earlier;  // each log band as the first one left it
  for (const std::uint64_t life : {0, 1}) {
    Superblock first = small_superblock(kLogBands);
    first.created_seconds += 3600 * life;
    ASSERT_TRUE(Store::format(*device, first));
    auto store = Store::open(*device, quiet_options());
    ASSERT_TRUE(store);
    std::vector<std::uint32_t> before;
    for (std::uint32_t band = 0; band < kLogBands; ++band) {
      before.push_back(*device->write_pointer(BandId{band + 2}));
    }
    Batch batch;
    batch.put(key_of(life), as_value(value_of(0)));
    ASSERT_TRUE((*store)->apply(batch));
    ASSERT_TRUE((*store)->commit());
    for (std::uint32_t band = 0; band < kLogBands; ++band) {
      if (life == 0) {
        earlier.push_back(AlignedBuffer::zeroed(std::size_t{kBandBlocks} * kBlockBytes));
        device->peek({BandId{band + 2}, 0}, earlier.back().span());
      }
      for (std::uint32_t rba = before[band]; rba < *device->write_pointer(BandId{band + 2});
           ++rba) {
        const auto lost = earlier[band].span().subspan(std::size_t{rba} * kBlockBytes, kBlockBytes);
        if (life == 1) device->poke({BandId{band + 2}, rba}, lost);
      }
    }
  }
  auto store = Store::open(*device, quiet_options());
  ASSERT_TRUE(store) << describe(store.error());
  EXPECT_EQ(contents_of(**store), Model{});
}

// The device fails once, at each of its changes in turn: the store says so, stays readable, takes
// no more changes, and the next opening finds everything that was committed.
TEST_F(DamageTest, AFailureAtAnyChangeLosesNothingThatWasCommitted) {
  std::uint64_t at = 1;
  for (bool all_done = false; !all_done; ++at) {
    SCOPED_TRACE(at);
    PowerDevice faulty(kLogBands + 2 + rescue_bands(), kBandBlocks, test_seed());
    ASSERT_TRUE(Store::format(faulty, small_superblock(kLogBands)));
    faulty.fail_after(at);
    Model committed, applied;
    if (auto store = Store::open(faulty, quiet_options()); store) {
      bool good = true;
      for (std::uint64_t i = 0; i < 60 && good; ++i) {
        good = put(**store, i % 25).has_value();
        if (!good) break;
        applied[key_of(i % 25)] = value_of(i % 25);
        if (i % 3 != 2) continue;
        good = (*store)->commit().has_value();
        if (good) committed = applied;
      }
      EXPECT_EQ((*store)->failed(), !good);
      EXPECT_EQ(contents_of(**store), applied);
      if (!good) {
        EXPECT_EQ(put(**store, 1).error(), Errc::kLogFailed);
        EXPECT_EQ((*store)->commit().error(), Errc::kLogFailed);
      }
      ignore_error((*store)->close(), "the store may have failed");
    }
    all_done = faulty.failure_is_due();
    faulty.fail_after(0);
    auto again = Store::open(faulty, quiet_options());
    ASSERT_TRUE(again) << describe(again.error());
    const Model found = contents_of(**again);
    EXPECT_TRUE(found == committed || found == applied);
    EXPECT_EQ(problems_of(**again), std::vector<std::string>{});
  }
  EXPECT_GT(at, 40u);
}

TEST_F(DamageTest, ADamagedNodeIsTheTroubleOfItsItemsAlone) {
  fill(60);
  std::vector<BandAddress> nodes;
  {
    auto store = open();
    ASSERT_TRUE(store);
    ASSERT_EQ(contents_of(**store).size(), 60u);
  }
  int harmed = 0, harmless = 0;
  for (const BandAddress at : blocks_with("LZND")) {
    SCOPED_TRACE(at.packed());
    device.damage(at, 8 * 1000 + 3);
    auto store = open();
    if (!store) {  // the root
      EXPECT_EQ(store.error(), Errc::kNodeChecksumBad);
    } else {
      const auto problems = problems_of(**store);
      std::size_t lost = 0;
      for (std::uint64_t i = 0; i < 60; ++i) {
        const auto value = (*store)->get(key_of(i));
        if (!value) {
          EXPECT_EQ(value.error(), Errc::kNodeChecksumBad);
          ++lost;
        } else {
          ASSERT_TRUE(*value);
          EXPECT_EQ(as_text(**value), value_of(i));
        }
      }
      EXPECT_EQ(problems.empty(), lost == 0);
      ++(lost > 0 ? harmed : harmless);
    }
    device.damage(at, 8 * 1000 + 3);
  }
  EXPECT_GT(harmed, 3);
  EXPECT_GT(harmless, 3);  // images that are no longer the newest
}

TEST_F(DamageTest, ADamagedNodeDoesNotHoldTheTail) {
  fill(60);
  // Damage one that holds items in the middle: find it by what is lost.
  std::uint64_t lost_key = 0;
  for (const BandAddress at : blocks_with("LZND")) {
    device.damage(at, 8 * 1000 + 3);
    auto store = open();
    if (store && !(*store)->get(key_of(30))) {
      lost_key = 30;
      break;
    }
    store = fail(Errc::kInvalid);
    device.damage(at, 8 * 1000 + 3);
  }
  ASSERT_EQ(lost_key, 30u);
  auto store = open();
  ASSERT_TRUE(store);
  for (std::uint64_t i = 0; i < 2000; ++i) {
    Batch batch;
    batch.put(key_of(0), as_value(value_of(i)));
    ASSERT_TRUE((*store)->apply(batch)) << i;
    ASSERT_TRUE((*store)->commit());
  }
  EXPECT_GT((*store)->stats().log_blocks_written, 10u * kLogBands * kBandBlocks);
  EXPECT_FALSE((*store)->get(key_of(lost_key)));
  EXPECT_EQ(as_text(**(*store)->get(key_of(59))), value_of(59));
  ASSERT_TRUE((*store)->close());
  *store = nullptr;
  store = open();
  ASSERT_TRUE(store);
  EXPECT_FALSE((*store)->get(key_of(lost_key)));
  EXPECT_EQ(as_text(**(*store)->get(key_of(59))), value_of(59));
}

TEST_F(DamageTest, ADamagedBlockOfOneSuperBandCostsNothing) {
  fill(20);
  for (const BandAddress at : blocks_with("LZSB")) {
    device.damage(at, 8 * 70);
    auto store = open();
    ASSERT_TRUE(store) << describe(store.error());
    EXPECT_EQ(contents_of(**store).size(), 20u);
    *store = nullptr;
    device.damage(at, 8 * 70);
  }
}

// What a crash leaves of an append may be what lay there in the band's life before: a whole record,
// and an old one.
TEST_F(DamageTest, ARecordOfAnEarlierLifeBehindTheNewestCostsNothing) {
  fill(20);
  AlignedBuffer old(kBlockBytes);
  ASSERT_TRUE(device.read({BandId{0}, 0}, old.span()));
  const Superblock newest = *read_superblock(device);
  for (const BandId band : {BandId{0}, BandId{1}}) {
    ASSERT_TRUE(device.append({band, *device.write_pointer(band)}, old.span()));
    ASSERT_TRUE(device.append({band, *device.write_pointer(band)}, old.span()));
  }
  EXPECT_EQ(*read_superblock(device), newest);
  auto store = open();
  ASSERT_TRUE(store) << describe(store.error());
  EXPECT_EQ(contents_of(**store).size(), 20u);
}

TEST_F(DamageTest, ADamagedBandHeaderCostsNothing) {
  fill(60);
  const auto headers = blocks_with("LZBH");
  ASSERT_GT(headers.size(), 1u);
  for (const BandAddress at : headers) {
    device.damage(at, 8 * 35);
    auto store = open();
    ASSERT_TRUE(store) << describe(store.error());
    EXPECT_EQ(contents_of(**store).size(), 60u);
    *store = nullptr;
    device.damage(at, 8 * 35);
  }
}

// The newest checkpoint of the map says which bands the log has.
TEST_F(DamageTest, ABandInWhichNothingCanBeReadCostsItsNodesOnly) {
  fill(60);
  const BandId bad = oldest_band();
  overwrite_all(bad);
  auto store = open();
  ASSERT_TRUE(store) << describe(store.error());
  std::vector<std::uint64_t> good;
  for (std::uint64_t i = 0; i < 60; ++i) {
    const auto value = (*store)->get(key_of(i));
    if (value) good.push_back(i);
    EXPECT_TRUE(value || value.error() == Errc::kNodeChecksumBad);
  }
  EXPECT_GT(good.size(), 10u);
  EXPECT_LT(good.size(), 60u);
  *store = nullptr;
  store = Store::repair(device, quiet_options(), [](const std::string&) {},
                        [](Store&, const std::vector<KeyRange>&) { return ok(); });
  ASSERT_TRUE(store) << describe(store.error());
  ASSERT_TRUE((*store)->commit());
  ASSERT_TRUE((*store)->empty_log_bands(std::span(&bad, 1)));
  ASSERT_TRUE((*store)->close());
  *store = nullptr;
  EXPECT_EQ(*damaged_headers(device, {}), std::vector<BandId>());
  store = open();
  ASSERT_TRUE(store) << describe(store.error());
  EXPECT_EQ(problems_of(**store), std::vector<std::string>());
  const Model found = contents_of(**store);
  EXPECT_EQ(found.size(), good.size());
  for (const std::uint64_t i : good) EXPECT_EQ(found.at(key_of(i)), value_of(i));
}

// A band that is empty was reset after a newer transaction was durable. So no older one counts.
TEST_F(DamageTest, ABandThatIsEmptyIsNotOneInWhichNothingCanBeRead) {
  if (devices_are_plain()) GTEST_SKIP() << "nothing says that the band is empty";
  fill(60);
  ASSERT_TRUE(device.reset(oldest_band()));
  EXPECT_EQ(open(), fail(Errc::kLogTailLost));
}

// Its header says that the band was begun again.
TEST_F(DamageTest, ABandOfAnotherPlaceIsNotOneInWhichNothingCanBeRead) {
  fill(60);
  const BandId band = oldest_band();
  const Superblock superblock = *read_superblock(device);
  overwrite_all(band);
  for (const bool is_cold : {false, true}) {
    SCOPED_TRACE(is_cold);
    AlignedBuffer block(kBlockBytes);
    const BlockStamp stamp{superblock.uuid, superblock.session, superblock.head_slot - 1, 0};
    encode(BandHeader{stamp, band, kBandBlocks, is_cold}, block.span().first<kBlockBytes>());
    device.overwrite({band, 0}, block.span().first<kBlockBytes>());
    EXPECT_EQ(open(), fail(Errc::kLogTailLost));
  }
}

// A descriptor has a copy, which also says which band of the log this is.
TEST_F(DamageTest, ADamagedBeginningOfABandCostsNothing) {
  fill(60);
  const auto headers = blocks_with("LZBH");
  ASSERT_GT(headers.size(), 1u);
  StoreOptions options = quiet_options();
  options.read_only = true;
  for (const BandAddress at : headers) {
    SCOPED_TRACE(at.band.value);
    for (const std::uint32_t rba : {0u, 1u}) device.damage({at.band, rba}, 8 * 130);
    auto store = Store::open(device, options);
    ASSERT_TRUE(store) << describe(store.error());
    EXPECT_EQ(contents_of(**store).size(), 60u);
    for (const std::uint32_t rba : {0u, 1u}) device.damage({at.band, rba}, 8 * 130);
  }
}

// The log must not seem to end before the band.
TEST_F(DamageTest, ADamagedBeginningOfABandCostsNothingAfterACrash) {
  fill(60);
  auto store = open();
  ASSERT_TRUE(store);
  // Until the newest band is one that the superblock does not name yet.
  const auto is_ahead = [this] {
    const std::uint64_t known = read_superblock(device)->head_slot;
    return std::ranges::any_of(blocks_with("LZBH"), [&](BandAddress at) {
      AlignedBuffer block(kBlockBytes);
      return device.read(at, block.span()) && load_le_at<std::uint64_t>(block.span(), 32) > known;
    });
  };
  std::uint64_t items = 60;
  for (; !is_ahead() && items < 100; ++items) {
    ASSERT_TRUE(put(**store, items));
    ASSERT_TRUE((*store)->commit());
  }
  ASSERT_TRUE(is_ahead());
  (*store)->abandon();
  *store = nullptr;
  device.forget_write_pointers();
  StoreOptions options = quiet_options();
  options.read_only = true;
  for (const BandAddress at : blocks_with("LZBH")) {
    SCOPED_TRACE(at.band.value);
    for (const std::uint32_t rba : {0u, 1u}) device.damage({at.band, rba}, 8 * 130);
    auto found = Store::open(device, options);
    ASSERT_TRUE(found) << describe(found.error());
    EXPECT_EQ(contents_of(**found).size(), items);
    for (const std::uint32_t rba : {0u, 1u}) device.damage({at.band, rba}, 8 * 130);
  }
}

// Each descriptor has a copy, and the superblock knows where the newest transaction lies.
TEST_F(DamageTest, ADamagedDescriptorCopyOrCommitRecordCostsNothing) {
  fill(60);
  StoreOptions options = quiet_options();
  options.read_only = true;
  for (const bool with_checkpoints : {true, false}) {
    for (const std::string_view magic : {"LZDE", "LZDC", "LZCM"}) {
      for (const BandAddress at : blocks_with(magic)) {
        SCOPED_TRACE(at.packed());
        device.damage(at, 8 * 130);
        auto store = Store::open(device, options);
        ASSERT_TRUE(store) << describe(store.error());
        EXPECT_EQ(contents_of(**store).size(), 60u);
        device.damage(at, 8 * 130);
      }
    }
    if (!with_checkpoints) continue;
    for (const BandAddress at : blocks_with("LZSN")) device.damage(at, 8 * 130);
  }
}

// Never does it open with something missing.
TEST_F(DamageTest, ADescriptorDamagedWithItsCopyIsNoticed) {
  fill(60);
  for (const BandAddress at : blocks_with("LZSN")) device.damage(at, 8 * 130);
  StoreOptions options = quiet_options();
  options.read_only = true;
  int noticed = 0;
  for (const BandAddress at : blocks_with("LZDE")) {
    SCOPED_TRACE(at.packed());
    AlignedBuffer block(kBlockBytes);
    ASSERT_TRUE(device.read(at, block.span()));
    const auto images = load_le_at<std::uint32_t>(block.span(), 116);
    const BandAddress copy{at.band, at.rba + 1 + images};
    device.damage(at, 8 * 130);
    device.damage(copy, 8 * 130);
    if (auto store = Store::open(device, options); store) {
      EXPECT_EQ(contents_of(**store).size(), 60u);  // the tail has passed it
    } else {
      EXPECT_TRUE(store.error() == Errc::kLogTailLost || store.error() == Errc::kLogDescriptorBad);
      ++noticed;
    }
    device.damage(at, 8 * 130);
    device.damage(copy, 8 * 130);
  }
  EXPECT_GT(noticed, 1);
}

TEST_F(DamageTest, RandomDamageIsAnErrorOrHarmlessButNeverACrash) {
  fill(60);
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < 300; ++round) {
    std::vector<std::pair<BandAddress, std::size_t>> done;
    for (unsigned n = 1 + random() % 4; n > 0; --n) {
      // One super band stays whole, as its mirror does against single faults.
      const BandId band{static_cast<std::uint32_t>(1 + random() % (kLogBands + 1))};
      const std::uint32_t blocks = *device.write_pointer(band);
      if (blocks == 0) continue;
      done.emplace_back(BandAddress{band, static_cast<std::uint32_t>(random() % blocks)},
                        random() % (8 * kBlockBytes));
      device.damage(done.back().first, done.back().second);
    }
    StoreOptions options = quiet_options();
    options.read_only = true;
    if (auto store = Store::open(device, options); store) {
      (void)problems_of(**store);
      for (std::uint64_t i = 0; i < 60; ++i) {
        const auto value = (*store)->get(key_of(i));
        if (!value) continue;
        ASSERT_TRUE(*value);
        EXPECT_EQ(as_text(**value), value_of(i));
      }
    }
    for (const auto& [at, bit] : done) device.damage(at, bit);
  }
}

// Nodes that a malicious hand has changed, checksums and all: answers may be wrong then, but every
// operation ends, with an error or without.
TEST_F(DamageTest, AHostileTreeIsAnErrorAtWorst) {
  std::mt19937_64 random(test_seed());
  int changed = 0, opened = 0;
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    PowerDevice hostile(kLogBands + 2 + rescue_bands(), kBandBlocks, test_seed());
    ASSERT_TRUE(Store::format(hostile, small_superblock(kLogBands)));
    {
      auto store = Store::open(hostile, quiet_options());
      ASSERT_TRUE(store);
      for (std::uint64_t i = 0; i < 60; ++i) ASSERT_TRUE(put(**store, i));
      ASSERT_TRUE((*store)->close());
    }
    AlignedBuffer block(kBlockBytes);
    const auto bytes = block.span();
    for (const BandAddress at : blocks_with("LZND", hostile)) {
      ASSERT_TRUE(hostile.read(at, bytes));
      NodePage page(block.data());
      if (!page.is_leaf()) {
        for (unsigned n = random() % 4; n > 0; --n) {  // a child twice, or one that is not there
          const unsigned from = static_cast<unsigned>(random() % page.count());
          const unsigned to = static_cast<unsigned>(random() % page.count());
          const NodeNo child = random() % 5 == 0 ? NodeNo{random() % 40} : page.child(from);
          changed += child != page.child(to);
          page.set_child(to, child);
        }
      } else if (random() % 8 == 0) {
        block.data()[24 + random() % 100] = static_cast<std::byte>(random());
      }
      store_le_at(bytes, 4, crc32c(bytes.subspan(8)));
      hostile.overwrite(at, bytes.first<kBlockBytes>());
    }
    auto store = Store::open(hostile, quiet_options());
    if (!store) continue;
    ++opened;
    (void)problems_of(**store);
    for (int i = 0; i < 200; ++i) {
      Batch batch;
      batch.erase(key_of(random() % 60));
      batch.erase(key_of(random() % 60));
      batch.put(key_of(random() % 60), as_value(value_of(random() % 60)));
      (void)(*store)->apply(batch);
      (void)(*store)->get(key_of(random() % 60));
      (void)(*store)->scan(kLowest, kHighest, 100);
      (void)(*store)->last_in(kLowest, key_of(random() % 60));
      if (i % 10 == 0) (void)(*store)->commit();
    }
    (void)problems_of(**store);
  }
  EXPECT_GT(changed, 100);
  EXPECT_GT(opened, 100);
}

// A leaf that the root does not name any more. A repair puts its items back into the tree.
class LeafWithoutAParentTest : public DamageTest {
 protected:
  static constexpr std::uint64_t kItems = 60;

  // Fills the store, and removes the second child from its root.
  void fill_and_cut() {
    auto store = open();
    ASSERT_TRUE(store);
    for (std::uint64_t i = 0; i < kItems; ++i) ASSERT_TRUE(put(**store, i));
    ASSERT_TRUE((*store)->close());
    AlignedBuffer block(kBlockBytes);
    int changed = 0;
    for (const BandAddress at : blocks_with("LZND")) {
      ASSERT_TRUE(device.read(at, block.span()));
      NodePage page(block.data());
      if (page.is_leaf()) continue;
      cut = page.child(1);
      page.erase(1);
      store_le_at(block.span(), 4, crc32c(block.span().subspan(8)));
      device.overwrite(at, block.span().first<kBlockBytes>());
      ++changed;
    }
    ASSERT_EQ(changed, 1);
  }
  // All blocks of the device.
  std::vector<AlignedBuffer> copy() {
    std::vector<AlignedBuffer> bands;
    for (std::uint32_t band = 0; band < device.geometry().band_count(); ++band) {
      const std::uint32_t blocks = *device.write_pointer(BandId{band});
      bands.emplace_back(std::size_t{blocks} * kBlockBytes);
      EXPECT_TRUE(blocks == 0 || device.read({BandId{band}, 0}, bands.back().span()));
    }
    return bands;
  }
  void restore(PowerDevice& to, std::vector<AlignedBuffer>& bands) {
    for (std::uint32_t band = 0; band < bands.size(); ++band) {
      if (bands[band].size() == 0) continue;
      ASSERT_TRUE(to.reset(BandId{band}));
      ASSERT_TRUE(to.append({BandId{band}, 0}, bands[band].span()));
    }
    to.forget_write_pointers();
  }

  NodeNo cut;  // the leaf
};

TEST_F(LeafWithoutAParentTest, KeepsItsItemsWhicheverReadIsWrong) {
  fill_and_cut();
  ASSERT_FALSE(HasFatalFailure());
  auto bands = copy();
  bool is_past = false;
  std::uint64_t n = 0;
  while (!is_past) {
    SCOPED_TRACE(++n);
    PowerDevice again(kLogBands + 2 + rescue_bands(), kBandBlocks, test_seed());
    restore(again, bands);
    WrongReadDevice wrong(again, n);
    std::size_t lost = 0;
    auto store = Store::repair(wrong, quiet_options(), [](const std::string&) {},
                               [&](Store&, const std::vector<KeyRange>& ranges) {
                                 lost += ranges.size();
                                 return ok();
                               });
    ASSERT_TRUE(store) << describe(store.error());
    is_past = !wrong.is_past();
    EXPECT_EQ(lost, 0u);
    for (std::uint64_t i = 0; i < kItems; ++i) {
      const auto value = (*store)->get(key_of(i));
      ASSERT_TRUE(value && *value) << i;
      EXPECT_EQ(as_text(**value), value_of(i));
    }
    EXPECT_EQ(problems_of(**store), std::vector<std::string>{});
  }
  EXPECT_GT(n, 5u);
}

// Nothing says which items it held.
TEST_F(LeafWithoutAParentTest, IsALossIfItIsDamaged) {
  fill_and_cut();
  ASSERT_FALSE(HasFatalFailure());
  AlignedBuffer block(kBlockBytes);
  std::set<std::uint64_t> items;  // of the leaf
  for (const BandAddress at : blocks_with("LZND")) {
    ASSERT_TRUE(device.read(at, block.span()));
    const ConstNodePage page(block.data());
    if (!page.is_leaf() || page.node() != cut) continue;
    for (unsigned i = 0; i < page.count(); ++i) items.insert(page.key(i).offset);
    device.damage(at, 8 * 1000 + 3);
  }
  ASSERT_FALSE(items.empty());
  std::vector<KeyRange> lost;
  auto store = Store::repair(device, quiet_options(), [](const std::string&) {},
                             [&](Store&, const std::vector<KeyRange>& ranges) {
                               lost = ranges;
                               return ok();
                             });
  ASSERT_TRUE(store) << describe(store.error());
  for (const std::uint64_t i : items) {
    EXPECT_TRUE(std::ranges::any_of(lost, [&](const KeyRange& range) {
      return range.first <= key_of(i) && (!range.end || key_of(i) < *range.end);
    })) << i;
  }
  EXPECT_EQ(contents_of(**store).size() + items.size(), kItems);
  ASSERT_TRUE((*store)->commit());
  EXPECT_EQ(problems_of(**store), std::vector<std::string>{});
}

TEST_F(DamageTest, AnEmptyDeviceAndOneWithoutSuperblocksAreNoFilesystem) {
  PowerDevice empty(7, 16, 1);
  EXPECT_EQ(Store::open(empty, quiet_options()).error(), Errc::kNoFilesystem);
  AlignedBuffer zeros = AlignedBuffer::zeroed(kBlockBytes);
  ASSERT_TRUE(empty.append({BandId{0}, 0}, zeros.span()));
  EXPECT_EQ(Store::open(empty, quiet_options()).error(), Errc::kNoFilesystem);
}

TEST_F(DamageTest, SuperBandsAreUsedInTurnForEver) {
  Superblock last;
  for (int i = 0; i < 100; ++i) {
    auto store = open();
    ASSERT_TRUE(store);
    ASSERT_TRUE((*store)->close());
    const Superblock now = (*store)->superblock();
    EXPECT_GT(now.sequence, last.sequence);
    EXPECT_GT(now.session, last.session);
    last = now;
  }
  EXPECT_EQ(*read_superblock(device), last);
}

TEST_F(DamageTest, ADeviceWithFewerBandsIsRefused) {
  fill(5);
  PowerDevice smaller(kLogBands + 1, kBandBlocks, 1);
  AlignedBuffer bytes(kBlockBytes);
  for (std::uint32_t band = 0; band < 2; ++band) {
    const std::uint32_t end = *device.write_pointer(BandId{band});
    for (std::uint32_t rba = 0; rba < end; ++rba) {
      ASSERT_TRUE(device.read({BandId{band}, rba}, bytes.span()));
      ASSERT_TRUE(smaller.append({BandId{band}, rba}, bytes.span()));
    }
  }
  EXPECT_EQ(Store::open(smaller, quiet_options()).error(), Errc::kSuperblockBad);
}

}  // namespace
}  // namespace lazyfs::meta
