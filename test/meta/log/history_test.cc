// What small transactions say of those before them, and what recovery makes of it.
#include "meta/log/history.h"

#include <algorithm>

#include "base/endian.h"
#include "device/forwarding.h"
#include "test/meta/fixture.h"
#include "meta/log/log_reader.h"
#include "test/meta/power_device.h"

namespace lazyfs::meta {
namespace {

constexpr std::uint64_t kSlot = 7;

PartPlace part_at(std::uint32_t rba, std::uint64_t seq, std::uint32_t blocks,
                  std::uint64_t slot = kSlot) {
  return {{slot, rba, Seq{seq}}, blocks};
}
std::vector<DescriptorEntry> images(std::size_t count) {
  return std::vector<DescriptorEntry>(count, {5, 6, EntryKind::kImage});
}
std::size_t transactions_in(std::span<const DescriptorEntry> entries) {
  return static_cast<std::size_t>(
      std::ranges::count(entries, EntryKind::kEarlier, &DescriptorEntry::kind));
}

// Transactions of one image each, three blocks long, one after the other: 1 at block 1, ...
class HistoryTest : public ::testing::Test {
 protected:
  void add(std::uint64_t seq, std::size_t entries = 1) {
    const auto rba = static_cast<std::uint32_t>(3 * seq - 2);
    history.add(part_at(rba, seq, 3), part_at(rba - 3, seq - 1, 3), images(entries));
  }
  History history;
};

TEST_F(HistoryTest, TellsOfTheNewestTransactionsFirstAndOfWholeOnesOnly) {
  for (const std::uint64_t seq : {2, 3, 4}) add(seq);
  const auto repeated = history.before(Seq{5}, kSlot, 5);
  ASSERT_EQ(repeated.size(), 4u);
  EXPECT_EQ(repeated[0], (DescriptorEntry{3ull << 32 | 7, 10, EntryKind::kEarlier}));
  EXPECT_EQ(repeated[1], images(1)[0]);
  EXPECT_EQ(repeated[2], (DescriptorEntry{3ull << 32 | 4, 7, EntryKind::kEarlier}));
  EXPECT_EQ(transactions_in(history.before(Seq{5}, kSlot, 6)), 3u);
  EXPECT_EQ(history.before(Seq{5}, kSlot, 1).size(), 0u);
}

TEST_F(HistoryTest, TellsNothingToATransactionThatDoesNotFollowInTheBand) {
  add(2);
  EXPECT_EQ(transactions_in(history.before(Seq{3}, kSlot, 100)), 1u);
  EXPECT_EQ(transactions_in(history.before(Seq{4}, kSlot, 100)), 0u);
  EXPECT_EQ(transactions_in(history.before(Seq{3}, kSlot + 1, 100)), 0u);
}

TEST_F(HistoryTest, AGapForgetsWhatWasBefore) {
  add(2);
  add(4);
  EXPECT_EQ(transactions_in(history.before(Seq{5}, kSlot, 100)), 1u);
  history.forget();
  EXPECT_EQ(transactions_in(history.before(Seq{5}, kSlot, 100)), 0u);
}

TEST_F(HistoryTest, ATransactionWhosePartBeforeLiesInAnotherBandIsNotTold) {
  history.add(part_at(1, 2, 3), part_at(90, 1, 3, kSlot - 1), images(1));
  EXPECT_EQ(transactions_in(history.before(Seq{3}, kSlot, 100)), 0u);
}

TEST_F(HistoryTest, KeepsWhatFitsIntoOneDescriptor) {
  for (std::uint64_t seq = 2; seq < 300; ++seq) add(seq);
  const auto repeated = history.before(Seq{300}, kSlot, 10'000);
  EXPECT_EQ(transactions_in(repeated), kEntriesPerDescriptor / 2);
  add(300, kEntriesPerDescriptor - 1);
  EXPECT_EQ(transactions_in(history.before(Seq{301}, kSlot, 10'000)), 1u);
  add(301, kEntriesPerDescriptor);
  EXPECT_EQ(transactions_in(history.before(Seq{302}, kSlot, 10'000)), 0u);
}

// ---- Reading it --------------------------------------------------------------------------------

class EarlierTest : public ::testing::Test {
 protected:
  EarlierTest() : device(device::MemoryDevice::uniform(4, 16)), reader(*device, superblock) {
    part.part.place = part_at(100, 50, 3);
    part.previous = part_at(97, 49, 3);
    part.history = {{4ull << 32 | 93, 97, EntryKind::kEarlier},
                    {5, 6, EntryKind::kImage},
                    {2ull << 32 | 91, 93, EntryKind::kEarlier},
                    {5, 6, EntryKind::kImage},
                    {7, 8, EntryKind::kImage},
                    {9, 0, EntryKind::kFreed}};
  }
  std::unique_ptr<device::MemoryDevice> device;
  Superblock superblock;
  LogReader reader;
  FoundPart part;
};

TEST_F(EarlierTest, TransactionsOfTheHistoryComeBack) {
  const auto found = reader.earlier(part);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].part.place, part_at(97, 49, 3));
  EXPECT_EQ(found[0].previous, part_at(93, 48, 4));
  EXPECT_EQ(found[0].part.entries.size(), 1u);
  EXPECT_EQ(found[1].part.place, part_at(93, 48, 4));
  EXPECT_EQ(found[1].previous, part_at(91, 47, 2));
  EXPECT_EQ(found[1].images, 2u);
  EXPECT_EQ(found[1].part.entries.size(), 3u);
}

TEST_F(EarlierTest, AHistoryThatMakesNoSenseIsNotBelieved) {
  const FoundPart good = part;
  const auto is_refused = [&](auto change) {
    part = good;
    change();
    return reader.earlier(part).empty();
  };
  EXPECT_FALSE(is_refused([] {}));
  EXPECT_TRUE(is_refused([&] { part.history.clear(); }));
  EXPECT_TRUE(is_refused([&] { part.index = 1; }));
  EXPECT_TRUE(is_refused([&] { part.previous.address.slot = kSlot - 1; }));
  EXPECT_TRUE(is_refused([&] { part.previous.address.seq = Seq{48}; }));
  EXPECT_TRUE(is_refused([&] { part.previous.blocks = 4; }));
  EXPECT_TRUE(is_refused([&] { part.history[0].crc = 96; }));
  EXPECT_TRUE(is_refused([&] { part.history[0].number = 4ull << 32 | 97; }));
  EXPECT_TRUE(is_refused([&] { part.history[0].number = 3ull << 32 | 93; }));
  EXPECT_TRUE(is_refused([&] { part.history[1].kind = EntryKind::kCheckpoint; }));
  EXPECT_TRUE(is_refused([&] { std::swap(part.history[4], part.history[5]); }));
  EXPECT_TRUE(is_refused([&] { part.history.erase(part.history.begin()); }));
}

// ---- Recovery ----------------------------------------------------------------------------------

class ReadCounter final : public device::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  Result<> read(BandAddress from, std::span<std::byte> to) override {
    blocks_read += to.size() / kBlockBytes;
    return ForwardingDevice::read(from, to);
  }
  std::uint64_t blocks_read = 0;
};

class HistoryRecoveryTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kLogBands = 4, kBandBlocks = 4096;
  static constexpr std::uint64_t kCommits = 1000;

  HistoryRecoveryTest() : device(kLogBands + 2 + rescue_bands(), kBandBlocks, test_seed()) {
    EXPECT_TRUE(Store::format(device, small_superblock(kLogBands)));
    const auto store = open(device);
    for (std::uint64_t key = 0; key < kCommits; ++key) {
      put_and_commit(*store, key < 100 ? key : 100 + key % 20, std::to_string(key));
    }
  }
  // The first keys stay as they are, in nodes of the oldest transactions.
  void put_and_commit(Store& store, std::uint64_t key, std::string value) {
    value.resize(900, '.');
    Batch batch;
    batch.put({1, 1, key}, as_value(value));
    EXPECT_TRUE(store.apply(batch));
    EXPECT_TRUE(store.commit());
    expected[{1, 1, key}] = value;
  }
  static std::unique_ptr<Store> open(device::Device& on) {
    StoreOptions options = quiet_options();
    options.checkpoint_bytes = std::size_t{1} << 40;
    auto store = Store::open(on, options);
    EXPECT_TRUE(store) << describe(store.error());
    return store ? std::move(*store) : nullptr;
  }
  // Where the descriptor of the transaction lies, and its copy.
  std::vector<BandAddress> blocks_of(std::uint64_t seq) {
    std::vector<BandAddress> found;
    AlignedBuffer block(kBlockBytes);
    for (std::uint32_t band = 2; band < kLogBands + 2; ++band) {
      for (std::uint32_t rba = 1; rba < *device.write_pointer(BandId{band}); ++rba) {
        EXPECT_TRUE(device.read({BandId{band}, rba}, block.span()));
        for (const auto role : {DescriptorRole::kFront, DescriptorRole::kCommit}) {
          const auto d = decode_descriptor(role, block.span().first<kBlockBytes>());
          if (d && d->seq.value == seq) found.push_back({BandId{band}, rba});
        }
      }
    }
    return found;
  }
  PowerDevice device;
  Model expected;
};

TEST_F(HistoryRecoveryTest, OfManySmallTransactionsFewAreRead) {
  ReadCounter counting(device);
  const auto store = open(counting);
  ASSERT_TRUE(store);
  EXPECT_GT(store->stats().recovered_parts, kCommits - 10);
  EXPECT_LT(counting.blocks_read, kCommits / 10);  // of more than 3 * kCommits
  EXPECT_EQ(contents_of(*store), expected);
}

TEST_F(HistoryRecoveryTest, AnEarlierTransactionIsKnownThoughBothItsDescriptorsAreDamaged) {
  const auto blocks = blocks_of(kCommits - 20);
  ASSERT_EQ(blocks.size(), 2u);
  for (const BandAddress at : blocks) device.damage(at, 777);
  const auto store = open(device);
  ASSERT_TRUE(store);
  EXPECT_EQ(contents_of(*store), expected);
}

TEST_F(HistoryRecoveryTest, GoesOnBehindACrash) {
  for (int i = 0; i < 3; ++i) {
    const auto store = open(device);
    ASSERT_TRUE(store);
    EXPECT_EQ(contents_of(*store), expected);
    for (int k = 0; k < 30; ++k) {
      put_and_commit(*store, 110, std::to_string(i * 100 + k));
    }
    device.restore_power();
  }
}

}  // namespace
}  // namespace lazyfs::meta
