// One block of the log is damaged, wherever it lies and whatever it is: what is lost is the node in
// it, by name, or nothing; after a crash, at the very end of the log, the last transaction.
#include <algorithm>
#include <map>

#include "base/endian.h"
#include "device/faulty.h"
#include "meta/log/log_format.h"
#include "meta/log/superblock_format.h"
#include "test/meta/fixture.h"
#include "test/meta/power_device.h"
#include "test/meta/troubled_device.h"

namespace lazyfs::meta {
namespace {

class DamageAnywhereTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kLogBands = 6, kBandBlocks = 48;
  static constexpr std::uint64_t kKeys = 150;

  DamageAnywhereTest()
      : random(test_seed()),
        device(kLogBands + 2 + rescue_bands(), kBandBlocks, random()),
        faulty(device) {}
  void SetUp() override { ASSERT_TRUE(Store::format(device, small_superblock(kLogBands))); }

  // Fills a store, with checkpoints, several bands and small commits. The model is what it holds,
  // and `before` what it held one transaction earlier. The last transaction is an ordinary one, and
  // has set free a band, or not.
  void fill(bool frees_a_band = false) {
    StoreOptions options = quiet_options();
    options.checkpoint_bytes = 0;
    auto opened = Store::open(faulty, options);
    ASSERT_TRUE(opened);
    store = std::move(*opened);
    for (std::uint64_t key = 0; key < kKeys; ++key) put(key);
    ASSERT_TRUE(store->commit());
    bool done = false;
    for (int i = 0; i < 10000 && !done; ++i) {
      before = model;
      const StoreStats then = store->stats();
      for (int k = 0; k < 2; ++k) put(random() % kKeys);
      ASSERT_TRUE(store->commit());
      const StoreStats now = store->stats();
      const bool is_ordinary = now.transactions == then.transactions + 1 &&
                               now.log_blocks_after_checkpoint > 12 && now.checkpoints > 1;
      const bool frees = now.log_free_bands > then.log_free_bands;
      const bool keeps = now.log_free_bands == then.log_free_bands;
      done = is_ordinary && (frees_a_band ? frees : keeps);
    }
    ASSERT_TRUE(done);
  }
  void put(std::uint64_t key) {
    const std::string value(300, static_cast<char>('a' + random() % 26));
    Batch batch;
    batch.put({1, 1, key}, as_value(value));
    ASSERT_TRUE(store->apply(batch));
    model[{1, 1, key}] = value;
  }
  Result<std::unique_ptr<Store>> open() {
    StoreOptions options = quiet_options();
    options.read_only = true;
    return Store::open(faulty, options);
  }
  std::vector<BandAddress> blocks_of_log() {
    std::vector<BandAddress> blocks;
    for (std::uint32_t band = 2; band < kLogBands + 2; ++band) {
      for (std::uint32_t rba = 0; rba < *device.write_pointer(BandId{band}); ++rba) {
        blocks.push_back({BandId{band}, rba});
      }
    }
    return blocks;
  }
  // Commits until the log begins a band, and returns the band.
  BandId put_until_a_band_begins() {
    const BandId head = newest_band();
    for (int i = 0; i < 1000 && newest_band() == head; ++i) {
      put(random() % kKeys);
      EXPECT_TRUE(store->commit());
    }
    return newest_band();
  }
  BandId newest_band() {
    std::pair<std::uint64_t, BandId> newest{};  // by slot
    for (std::uint32_t band = 2; band < device.geometry().band_count(); ++band) {
      if (!device.read({BandId{band}, 0}, block.span())) continue;
      const auto header = decode_band_header(block.span().first<kBlockBytes>());
      if (header && !header->is_cold) newest = std::max(newest, {header->stamp.slot, header->band});
    }
    return newest.second;
  }
  // Of the transaction.
  void damage_descriptors(DescriptorRole role, Seq seq) {
    for (const BandAddress at : blocks_of_log()) {
      ASSERT_TRUE(device.read(at, block.span()));
      const auto d = decode_descriptor(role, block.span().first<kBlockBytes>());
      if (d && d->seq == seq) device.damage(at, 8 * 99);
    }
  }
  // The first descriptor of each of its parts, if each part has one.
  std::vector<BandAddress> fronts_of(Seq seq) {
    std::map<std::uint32_t, BandAddress> fronts;
    for (const BandAddress at : blocks_of_log()) {
      EXPECT_TRUE(device.read(at, block.span()));
      const auto d =
          decode_descriptor(DescriptorRole::kFront, block.span().first<kBlockBytes>());
      if (d && d->seq == seq && d->block == 0) fronts[d->part] = at;
    }
    std::vector<BandAddress> all;
    for (const auto& [part, at] : fronts) all.push_back(at);
    return all;
  }
  // Its descriptors and nodes.
  std::vector<BandAddress> blocks_of_transaction(Seq seq) {
    std::vector<BandAddress> blocks;
    for (const BandAddress at : blocks_of_log()) {
      EXPECT_TRUE(device.read(at, block.span()));
      const auto bytes = block.span().first<kBlockBytes>();
      bool is_of_it = seq_of_image(bytes, fs_tag_of(small_superblock(kLogBands).uuid)) == seq;
      for (const auto role :
           {DescriptorRole::kFront, DescriptorRole::kCopy, DescriptorRole::kCommit}) {
        const auto d = decode_descriptor(role, bytes);
        is_of_it |= d && d->seq == seq;
      }
      if (is_of_it) blocks.push_back(at);
    }
    return blocks;
  }
  void make_unreadable(BandAddress at) {
    faulty.fail_when([at](const device::CallInfo& call) -> std::optional<device::Fault> {
      const bool hit = call.call == device::Call::kRead && call.at.band == at.band &&
                       call.at.rba <= at.rba && at.rba < call.at.rba + call.blocks;
      return hit ? std::optional(device::Fault{Errc::kDeviceRead}) : std::nullopt;
    });
  }
  // All items remain but those of one node, which the check names. Returns whether items are lost.
  // The root is the exception: without the root the store cannot be opened.
  bool expect_one_node_lost_at_most(BandAddress at) {
    SCOPED_TRACE(::testing::Message() << "band " << at.band.value << " block " << at.rba);
    const auto opened = open();
    if (!opened) {
      const Errc error = opened.error();  // kNodeBad: the checksum does not cover the magic number
      EXPECT_TRUE(error == Errc::kNodeChecksumBad || error == Errc::kNodeBad ||
                  error == Errc::kDeviceRead)
          << describe(error);
      ++roots_lost;
      return true;
    }
    Store& found = **opened;
    std::size_t lost = 0;
    for (const auto& [key, value] : model) {
      const auto got = found.get(key);
      if (!got) {
        ++lost;
        continue;
      }
      EXPECT_TRUE(*got && as_text(**got) == value);
    }
    const auto problems = problems_of(found);
    EXPECT_EQ(lost > 0, !problems.empty()) << (problems.empty() ? "" : problems.front());
    const std::string place =
        "at band " + std::to_string(at.band.value) + " block " + std::to_string(at.rba) + ":";
    for (const std::string& problem : problems) {
      EXPECT_NE(problem.find("node "), std::string::npos) << problem;
    }
    if (lost > 0) {
      EXPECT_NE(problems.front().find(place), std::string::npos) << problems.front();
    }
    EXPECT_LE(lost, 13u);  // as many as a leaf holds
    return lost > 0;
  }

  std::mt19937_64 random;
  PowerDevice device;
  device::FaultyDevice faulty;
  std::unique_ptr<Store> store;
  Model model, before;
  AlignedBuffer block{kBlockBytes};
  int roots_lost = 0;
};

TEST_F(DamageAnywhereTest, AFlippedBitCostsOneNodeAtMost) {
  fill();
  ASSERT_TRUE(store->close());
  store.reset();
  int harmful = 0, harmless = 0;
  for (const BandAddress at : blocks_of_log()) {
    const std::size_t bit = random() % (8 * kBlockBytes);
    device.damage(at, bit);
    ++(expect_one_node_lost_at_most(at) ? harmful : harmless);
    device.damage(at, bit);
    if (HasFailure()) return;
  }
  EXPECT_EQ(roots_lost, 1);
  EXPECT_GT(harmful, 8);
  EXPECT_GT(harmless, 50);
}

TEST_F(DamageAnywhereTest, AnUnreadableBlockCostsOneNodeAtMost) {
  fill();
  ASSERT_TRUE(store->close());
  store.reset();
  int harmful = 0;
  for (const BandAddress at : blocks_of_log()) {
    make_unreadable(at);
    harmful += expect_one_node_lost_at_most(at);
    faulty.mend();
    if (HasFailure()) return;
  }
  EXPECT_EQ(roots_lost, 1);
  EXPECT_GT(harmful, 8);
}

// The superblock names the newest transaction then, so no band held another one.
TEST_F(DamageAnywhereTest, AfterACleanEndABandThatCannotBeReadIsNotReported) {
  fill();
  ASSERT_TRUE(store->close());
  const std::vector<BandId> bands = store->log_bands();
  const Seq newest = store->durable_seq();
  store.reset();
  device.forget_write_pointers();
  int opened = 0;
  for (const BandId band : bands) {
    faulty.break_band(band);
    const auto found = open();
    faulty.mend();
    if (!found) continue;
    EXPECT_EQ((*found)->durable_seq(), newest);
    EXPECT_EQ((*found)->log_losses(), std::vector<std::string>{}) << band.value;
    ++opened;
  }
  EXPECT_GT(opened, 2);
}

// After a crash recovery cannot know whether the last transaction was torn or damaged later.
TEST_F(DamageAnywhereTest, AfterACrashDamageAtTheEndEndsRecoveryAtTheLastGoodCommit) {
  fill();
  const Seq newest = store->durable_seq();
  store.reset();
  int ended_before = 0;
  for (const BandAddress at : blocks_of_log()) {
    for (const bool flipped : {true, false}) {
      if (flipped) {
        device.damage(at, 8 * 99);
      } else {
        make_unreadable(at);
      }
      const auto opened = open();
      if (opened && (*opened)->durable_seq() != newest) {
        EXPECT_EQ((*opened)->durable_seq().value + 1, newest.value);
        EXPECT_EQ(contents_of(**opened), before);
        EXPECT_EQ(problems_of(**opened), std::vector<std::string>{});
        ++ended_before;
      } else {
        expect_one_node_lost_at_most(at);
      }
      if (opened) {  // what was torn looks like a flipped bit
        const bool may_be_lost = !flipped && (*opened)->durable_seq() != newest;
        EXPECT_EQ((*opened)->log_losses().size(), may_be_lost ? 1u : 0u);
      }
      if (flipped) device.damage(at, 8 * 99);
      faulty.mend();
      if (HasFailure()) return;
    }
  }
  EXPECT_LE(roots_lost, 2);
  EXPECT_GE(ended_before, 4);  // a node and the commit record, each of them in both ways
}

// Recovery ends before the band, and says what that may cost.
TEST_F(DamageAnywhereTest, AfterACrashANewestBandThatCannotBeReadIsReported) {
  fill();
  int reported = 0;
  for (int band = 0; band < 12; ++band) {
    const BandId newest_band = put_until_a_band_begins();
    const Seq newest = store->durable_seq();
    faulty.break_band(newest_band);
    const auto opened = open();
    if (opened) {
      EXPECT_LT((*opened)->durable_seq(), newest);
      const auto& losses = (*opened)->log_losses();
      ASSERT_EQ(losses.size(), 1u);
      EXPECT_NE(losses[0].find("Log band " + std::to_string(newest_band.value)), losses[0].npos)
          << losses[0];
      ++reported;
    } else {
      EXPECT_EQ(opened.error(), Errc::kLogTailLost);  // a band was freed since
    }
    faulty.mend();
    const auto whole = open();
    ASSERT_TRUE(whole) << describe(whole.error());
    EXPECT_EQ((*whole)->durable_seq(), newest);
    EXPECT_EQ((*whole)->log_losses(), std::vector<std::string>());
  }
  EXPECT_GT(reported, 2);
}

// What is older than the torn transaction was durable.
TEST_F(DamageAnywhereTest, AfterACrashNothingDurableIsLostSilentlyBesideATornTransaction) {
  fill();
  int opened = 0, reported = 0;
  for (int state = 0; state < 6; ++state) {
    put_until_a_band_begins();  // the transaction before ends in another band
    const Seq newest = store->durable_seq();
    for (const BandAddress at : blocks_of_transaction(newest)) {
      device.damage(at, 8 * 99);
      for (const BandId broken : store->log_bands()) {
        SCOPED_TRACE(::testing::Message() << at.band.value << " " << at.rba << " beside "
                                          << broken.value);
        faulty.break_band(broken);
        const auto found = open();
        faulty.mend();
        if (!found) continue;  // not silently
        ++opened;
        if ((*found)->durable_seq().value + 1 >= newest.value) continue;
        EXPECT_FALSE((*found)->log_losses().empty());
        ++reported;
      }
      device.damage(at, 8 * 99);
    }
  }
  EXPECT_GT(opened, reported);
  EXPECT_TRUE(reported > 0 || devices_are_plain());
}

// The newest transaction looks torn, so the search reads on and meets the block.
TEST_F(DamageAnywhereTest, AfterACrashAnUnreadableBlockBeforeTheEndIsNotReported) {
  fill();
  const Seq newest = store->durable_seq();
  store.reset();
  BandAddress end;  // the last block of the transaction before
  for (const BandAddress at : blocks_of_log()) {
    ASSERT_TRUE(device.read(at, block.span()));
    const auto commit =
        decode_descriptor(DescriptorRole::kCommit, block.span().first<kBlockBytes>());
    if (commit && commit->seq == newest) device.damage(at, 8 * 99);
    if (commit && commit->seq.value + 1 == newest.value) end = at;
  }
  int opened = 0;
  for (BandAddress at{end.band, 0}; at.rba < end.rba; ++at.rba) {
    make_unreadable(at);
    const auto found = open();
    faulty.mend();
    if (!found || (*found)->durable_seq().value + 1 != newest.value) continue;
    EXPECT_EQ((*found)->log_losses(), std::vector<std::string>()) << at.rba;
    ++opened;
  }
  EXPECT_GT(opened, 0);
}

// A later part of it names the first part. That part is not the transaction before.
TEST_F(DamageAnywhereTest, AfterACrashPartOfATornTransactionDoesNotCount) {
  fill();
  std::vector<BandAddress> fronts;  // of the newest transaction, by part
  for (int i = 0; i < 1000 && fronts.size() != 2; ++i) {
    before = model;
    const StoreStats then = store->stats();
    for (int k = 0; k < 20; ++k) put(random() % kKeys);
    ASSERT_TRUE(store->commit());
    const StoreStats now = store->stats();
    const bool is_ordinary =
        now.transactions == then.transactions + 1 && now.checkpoints == then.checkpoints;
    const bool begins_a_band = now.log_free_bands + 1 == then.log_free_bands;  // and frees none
    if (is_ordinary && begins_a_band) fronts = fronts_of(store->durable_seq());
  }
  ASSERT_EQ(fronts.size(), 2u);
  const Seq newest = store->durable_seq();
  store.reset();
  damage_descriptors(DescriptorRole::kCommit, newest);
  device.damage(fronts[0], 8 * 99);
  const auto opened = open();
  ASSERT_TRUE(opened) << describe(opened.error());
  EXPECT_EQ((*opened)->durable_seq().value + 1, newest.value);
  EXPECT_EQ(contents_of(**opened), before);
}

// A transaction was durable if a later one was begun. The later one says where it lies.
TEST_F(DamageAnywhereTest, AfterACrashADurableTransactionWithoutACommitRecordIsFound) {
  fill();
  const Seq newest = store->durable_seq();
  store.reset();
  damage_descriptors(DescriptorRole::kCommit, Seq{newest.value - 1});
  damage_descriptors(DescriptorRole::kCommit, newest);  // it looks torn
  const auto opened = open();
  ASSERT_TRUE(opened) << describe(opened.error());
  EXPECT_EQ((*opened)->durable_seq().value + 1, newest.value);
  EXPECT_EQ((*opened)->log_losses(), std::vector<std::string>{});
  EXPECT_EQ(contents_of(**opened), before);
}

TEST_F(DamageAnywhereTest, AfterACrashADurableTransactionThatIsLostIsReported) {
  fill();
  const Seq newest = store->durable_seq();
  store.reset();
  for (const auto role : {DescriptorRole::kCommit, DescriptorRole::kFront}) {
    damage_descriptors(role, Seq{newest.value - 1});
  }
  damage_descriptors(DescriptorRole::kCommit, newest);  // it looks torn
  const auto opened = open();
  ASSERT_TRUE(opened) << describe(opened.error());
  EXPECT_EQ((*opened)->durable_seq().value + 2, newest.value);
  ASSERT_EQ((*opened)->log_losses().size(), 1u);
  EXPECT_NE((*opened)->log_losses()[0].find("are lost"), std::string::npos);
}

TEST_F(DamageAnywhereTest, ABlockThatIsReadRightTheSecondTimeIsNotDamaged) {
  for (const bool frees_a_band : {false, true}) {
    fill(frees_a_band);
    const Seq newest = store->durable_seq();
    store.reset();
    StoreOptions options = quiet_options();
    options.read_only = true;
    auto blocks = blocks_of_log();
    for (const std::uint32_t band : {0u, 1u}) {
      blocks.push_back({BandId{band}, *device.write_pointer(BandId{band}) - 1});
    }
    for (const BandAddress at : blocks) {
      for (const bool is_wrong : {true, false}) {
        SCOPED_TRACE(::testing::Message() << at.band.value << " " << at.rba << " " << is_wrong);
        TroubledDevice troubled(device, at, is_wrong);
        const auto opened = Store::open(troubled, options);
        ASSERT_TRUE(opened) << describe(opened.error());
        EXPECT_EQ((*opened)->durable_seq(), newest);
        EXPECT_EQ((*opened)->log_losses(), std::vector<std::string>{});
        EXPECT_EQ(problems_of(**opened), std::vector<std::string>{});
        ASSERT_EQ(contents_of(**opened), model);
      }
    }
  }
}

// All blocks of the read, which may be many.
TEST_F(DamageAnywhereTest, AnyOneReadOfAnOpeningMayReturnOtherBytes) {
  for (const bool frees_a_band : {false, true}) {
    fill(frees_a_band);
    const Seq newest = store->durable_seq();
    store.reset();
    device.forget_write_pointers();
    StoreOptions options = quiet_options();
    options.read_only = true;
    bool is_past = true;
    for (std::uint64_t n = 1; is_past && !HasFailure(); ++n) {
      SCOPED_TRACE(n);
      WrongReadDevice wrong(device, n);
      const auto opened = Store::open(wrong, options);
      is_past = wrong.is_past();
      ASSERT_TRUE(opened) << describe(opened.error());
      EXPECT_EQ((*opened)->durable_seq(), newest);
      EXPECT_EQ((*opened)->log_losses(), std::vector<std::string>{});
    }
  }
}

// A transaction was durable if the band that it freed has been reset. So recovery keeps the
// transaction, and one damaged node is all that is lost.
TEST_F(DamageAnywhereTest, ATransactionThatHasFreedABandIsNotGivenUpForOneBadBlock) {
  fill(true);
  const Seq newest = store->durable_seq();
  store.reset();
  for (const BandAddress at : blocks_of_log()) {
    for (const bool flipped : {true, false}) {
      if (flipped) {
        device.damage(at, 8 * 99);
      } else {
        make_unreadable(at);
      }
      if (const auto opened = open(); opened) {
        EXPECT_EQ((*opened)->durable_seq(), newest);
      }
      expect_one_node_lost_at_most(at);
      if (flipped) device.damage(at, 8 * 99);
      faulty.mend();
      if (HasFailure()) return;
    }
  }
  EXPECT_EQ(roots_lost, 2);
}

}  // namespace
}  // namespace lazyfs::meta
