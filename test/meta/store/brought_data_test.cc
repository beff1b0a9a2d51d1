// Data that a transaction refers to: one flush makes it durable together with the transaction, and
// recovery proves it. docs/metadata-log.md, "Data".
#include <atomic>
#include <thread>

#include "base/crc32c.h"
#include "device/faulty.h"
#include "device/forwarding.h"
#include "test/meta/fixture.h"
#include "meta/log/log_format.h"
#include "meta/store/brought_data.h"

namespace lazyfs::meta {
namespace {

// Counts flushes. A flush calls `while_flushing`.
class FlushCounter final : public device::ForwardingDevice {
 public:
  using ForwardingDevice::append;
  using ForwardingDevice::ForwardingDevice;
  Result<> flush() override {
    ++flushes;
    if (while_flushing) while_flushing();
    return ForwardingDevice::flush();
  }
  std::atomic<std::uint64_t> flushes{0};
  std::function<void()> while_flushing;
};

std::vector<std::uint32_t> crcs_of(std::size_t blocks) {
  return std::vector<std::uint32_t>(blocks, 0x12345678);
}

class BroughtDataTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kLogBands = 8, kBands = 16, kBandBlocks = 512;

  void SetUp() override {
    ASSERT_TRUE(Store::format(device, small_superblock(kLogBands)));
    open();
  }
  void open() {
    store.reset();
    auto opened = Store::open(device, quiet_options());
    ASSERT_TRUE(opened) << describe(opened.error());
    store = std::move(*opened);
  }
  // Ends the session without a superblock: the newest transaction is to be proven.
  void crash() {
    store->abandon();
    open();
  }
  // Appends blocks to a data band.
  std::vector<std::uint32_t> append(BandAddress at, std::size_t blocks) {
    AlignedBuffer bytes = AlignedBuffer::zeroed(blocks * kBlockBytes);
    std::vector<std::uint32_t> crcs;
    for (std::size_t i = 0; i < blocks; ++i) {
      const auto block = bytes.span().subspan(i * kBlockBytes, kBlockBytes);
      block[i % kBlockBytes] = std::byte{1};
      crcs.push_back(crc32c(block));
    }
    EXPECT_TRUE(device.append(at, bytes.span()));
    return crcs;
  }
  Batch put(std::uint64_t key) {
    Batch batch;
    batch.put({1, 1, key}, as_value("value"));
    return batch;
  }
  bool has(std::uint64_t key) {
    const auto value = store->get({1, 1, key});
    return value && *value;
  }
  // An item that appended blocks belong to.
  void put_with_data(std::uint64_t key, BandAddress at, std::size_t blocks) {
    Batch batch = put(key);
    batch.brings(at, append(at, blocks));
    ASSERT_TRUE(store->apply(batch));
  }
  // Of a commit.
  std::uint64_t flushes() {
    const std::uint64_t before = device.flushes;
    EXPECT_TRUE(store->commit());
    return device.flushes - before;
  }

  static constexpr BandAddress kData{BandId{12}, 0};
  std::unique_ptr<device::MemoryDevice> memory = device::MemoryDevice::uniform(kBands, kBandBlocks);
  FlushCounter device{*memory};
  std::unique_ptr<Store> store;
};

// It may have been durable, and what it names have become unreadable since.
TEST_F(BroughtDataTest, ATransactionWhoseDataCannotBeReadIsReported) {
  put_with_data(1, kData, 2);
  ASSERT_TRUE(store->commit());
  store->abandon();
  device::FaultyDevice faulty(device);
  faulty.break_band(kData.band);
  const auto opened = Store::open(faulty, quiet_options());
  ASSERT_TRUE(opened) << describe(opened.error());
  ASSERT_EQ((*opened)->log_losses().size(), 1u);
  EXPECT_NE((*opened)->log_losses()[0].find("that it names cannot be read"), std::string::npos);
}

TEST_F(BroughtDataTest, ATransactionWhoseDataLiesInABandThatIsOfflineIsReported) {
  put_with_data(1, kData, 2);
  ASSERT_TRUE(store->commit());
  store->abandon();
  memory->retire(kData.band, device::BandCondition::kOffline);
  const auto opened = Store::open(device, quiet_options());
  ASSERT_TRUE(opened) << describe(opened.error());
  ASSERT_EQ((*opened)->log_losses().size(), 1u);
  EXPECT_NE((*opened)->log_losses()[0].find("that it names cannot be read"), std::string::npos);
}

TEST_F(BroughtDataTest, ACommitIsOneFlush) {
  EXPECT_EQ(flushes(), 1u);  // of what was appended before, if nothing was applied
  ASSERT_TRUE(store->apply(put(1)));
  EXPECT_EQ(flushes(), 1u);
  put_with_data(2, kData, 2);
  EXPECT_EQ(flushes(), 1u);
}

TEST_F(BroughtDataTest, SixteenMebibytesOfDataAreOneFlushAndMoreAreTwo) {
  Batch batch = put(1);
  batch.brings({BandId{12}, 0}, crcs_of(kMaxUnprovenBlocks));
  ASSERT_TRUE(store->apply(batch));
  EXPECT_EQ(flushes(), 1u);
  batch = put(2);
  batch.brings({BandId{13}, 0}, crcs_of(kMaxUnprovenBlocks));
  ASSERT_TRUE(store->apply(batch));
  batch = put(3);
  batch.brings({BandId{14}, 0}, crcs_of(1));
  ASSERT_TRUE(store->apply(batch));
  EXPECT_EQ(flushes(), 2u);
}

TEST_F(BroughtDataTest, ManyRunsAreOneFlushAndMoreThanMayBeNamedAreTwo) {
  for (const std::size_t runs : {kMaxUnprovenRuns, kMaxUnprovenRuns + 1}) {
    for (std::uint32_t i = 0; i < runs; ++i) {
      Batch batch = put(i);
      batch.brings({BandId{12}, 2 * i}, crcs_of(1));
      ASSERT_TRUE(store->apply(batch));
    }
    EXPECT_EQ(flushes(), runs > kMaxUnprovenRuns ? 2u : 1u);
  }
}

TEST_F(BroughtDataTest, WhatBatchesAppendOneAfterTheOtherIsOneRun) {
  BroughtData data;
  Batch first, second, elsewhere;
  const std::vector<std::uint32_t> crcs{1, 2, 3};
  first.brings({BandId{3}, 7}, std::span(crcs).first(1));
  elsewhere.brings({BandId{4}, 8}, std::span(crcs).first(1));
  second.brings({BandId{3}, 8}, std::span(crcs).subspan(1));
  for (const Batch* batch : {&first, &elsewhere, &second}) data.add(*batch);
  const std::uint32_t one = add_block_crc(0, 1);
  const std::vector<DescriptorEntry> expected{
      {3ull << 32 | 7, add_block_crc(add_block_crc(one, 2), 3), EntryKind::kData, 3},
      {4ull << 32 | 8, one, EntryKind::kData, 1}};
  EXPECT_EQ(data.entries(), expected);
}

// Its band may be reset as soon as the transaction is durable, and then it could not be proven.
TEST_F(BroughtDataTest, DataThatDiesInItsOwnTransactionIsFlushedFirstAndNotNamed) {
  put_with_data(1, kData, 4);
  Batch batch = put(2);
  batch.drops({kData.band, 3}, 5);
  ASSERT_TRUE(store->apply(batch));
  EXPECT_EQ(flushes(), 2u);
  ASSERT_TRUE(device.reset(kData.band));
  crash();
  EXPECT_TRUE(has(1));
  EXPECT_TRUE(has(2));
}

TEST_F(BroughtDataTest, ABatchCanAskForTheFlush) {
  Batch batch = put(1);
  batch.flush_first();
  ASSERT_TRUE(store->apply(batch));
  EXPECT_EQ(flushes(), 2u);
  put_with_data(2, kData, 1);
  EXPECT_EQ(flushes(), 1u);  // only that transaction
}

TEST_F(BroughtDataTest, DroppingOlderDataCostsNoFlush) {
  put_with_data(1, kData, 4);
  EXPECT_EQ(flushes(), 1u);
  for (const BandAddress at : {kData, BandAddress{kData.band, 6}, BandAddress{BandId{11}, 4}}) {
    put_with_data(2, {kData.band, kData.rba + *device.write_pointer(kData.band)}, 2);
    Batch batch = put(3);
    batch.drops(at, at.rba == 6 ? 0 : 4);
    ASSERT_TRUE(store->apply(batch));
    EXPECT_EQ(flushes(), 1u) << at.rba;
  }
}

TEST_F(BroughtDataTest, TheNewestTransactionCountsWithItsDataOnly) {
  ASSERT_TRUE(store->apply(put(1)));
  ASSERT_TRUE(store->commit());
  put_with_data(2, kData, 300);
  ASSERT_TRUE(store->commit());
  crash();
  EXPECT_TRUE(has(2));
  put_with_data(3, {kData.band, 300}, 5);
  ASSERT_TRUE(store->commit());
  memory->flip({kData.band, 304}, 100);
  crash();
  EXPECT_TRUE(has(2));
  EXPECT_FALSE(has(3));
}

TEST_F(BroughtDataTest, ATransactionWhoseDataCannotBeReadDoesNotCount) {
  ASSERT_TRUE(store->apply(put(1)));
  ASSERT_TRUE(store->commit());
  put_with_data(2, kData, 3);
  ASSERT_TRUE(store->commit());
  ASSERT_TRUE(device.set_write_pointer(kData.band, 2));
  crash();
  EXPECT_TRUE(has(1));
  EXPECT_FALSE(has(2));
}

// The blocks are damaged after the flush. A file has a bad block then, but nothing else is lost.
TEST_F(BroughtDataTest, ATransactionThatIsKnownToBeDurableIsNotProvenAgain) {
  put_with_data(1, kData, 3);
  ASSERT_TRUE(store->commit());
  ASSERT_TRUE(store->apply(put(2)));
  ASSERT_TRUE(store->commit());
  memory->flip(kData, 100);  // of an older transaction
  crash();
  EXPECT_TRUE(has(1));
  put_with_data(3, {kData.band, 3}, 3);
  ASSERT_TRUE(store->close());  // the superblock names the newest transaction
  memory->flip({kData.band, 3}, 100);
  open();
  EXPECT_TRUE(has(3));
}

// A later transaction was begun: the one before it was durable.
TEST_F(BroughtDataTest, TheBeginningOfATornTransactionShowsThatTheOneBeforeIsDurable) {
  ASSERT_TRUE(store->apply(put(1)));
  ASSERT_TRUE(store->commit());
  put_with_data(2, kData, 3);
  ASSERT_TRUE(store->commit());
  ASSERT_TRUE(store->apply(put(3)));
  ASSERT_TRUE(store->commit());
  memory->flip(kData, 100);
  for (std::uint32_t i = 0; i < kLogBands; ++i) {
    const BandId band{2 + i};
    const std::uint32_t end = *memory->write_pointer(band);
    AlignedBuffer block(kBlockBytes);
    for (std::uint32_t rba = 0; rba < end; ++rba) {
      ASSERT_TRUE(memory->read({band, rba}, block.span()));
      const auto commit =
          decode_descriptor(DescriptorRole::kCommit, block.span().first<kBlockBytes>());
      if (commit && commit->seq == Seq{store->durable_seq()}) memory->flip({band, rba}, 100);
    }
  }
  crash();
  EXPECT_TRUE(has(2));
  EXPECT_FALSE(has(3));
}

TEST_F(BroughtDataTest, DataWhereNoneCanBeDoesNoHarm) {
  for (const BandAddress at : {BandAddress{BandId{kBands}, 0}, BandAddress{BandId{~0u}, ~0u},
                               BandAddress{BandId{12}, kBandBlocks - 1},
                               BandAddress{BandId{12}, ~0u}, BandAddress{BandId{12}, 0}}) {
    Batch batch = put(1);
    batch.brings(at, crcs_of(2));
    ASSERT_TRUE(store->apply(batch));
    ASSERT_TRUE(store->commit());
    crash();
    EXPECT_FALSE(has(1)) << at.rba;
  }
}

// A flush takes until each thread waits for this commit or for the next one.
TEST_F(BroughtDataTest, ThreadsThatSyncInALoopShareFlushes) {
  constexpr std::uint64_t kThreads = 16, kRounds = 25;
  std::atomic<std::uint64_t> running = kThreads;
  device.while_flushing = [&] {
    while (store->stats().commits_waiting < running) std::this_thread::yield();
  };
  const std::uint64_t before = device.flushes;
  std::vector<std::thread> threads;
  for (std::uint64_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::uint64_t i = 0; i < kRounds; ++i) {
        EXPECT_TRUE(store->apply(put(thread * kRounds + i)));
        EXPECT_TRUE(store->commit());
      }
      --running;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(device.flushes - before, kThreads * kRounds / 5);
  device.while_flushing = nullptr;
}

}  // namespace
}  // namespace lazyfs::meta
