// The small parts beneath the store: batches, the map, the layout of transactions.
#include <algorithm>
#include <deque>

#include "base/endian.h"
#include "test/meta/fixture.h"
#include "meta/log/jmap.h"
#include "meta/log/log_layout.h"
#include "meta/tree/tree.h"

namespace lazyfs::meta {
namespace {

const Key kA{1, 1, 1}, kB{1, 1, 2};

std::vector<std::uint64_t> counters(std::span<const std::byte> bytes) {
  std::vector<std::uint64_t> all;
  for (std::size_t at = 0; at + 8 <= bytes.size(); at += 8) {
    all.push_back(load_le_at<std::uint64_t>(bytes, at));
  }
  return all;
}

TEST(BatchTest, TheLastChangeOfAKeyWinsAndKeysComeInOrder) {
  Batch batch;
  batch.put(kB, as_value("b"));
  batch.put(kA, as_value("old"));
  batch.erase(kA);
  batch.put(kA, as_value("new"));
  const auto changes = coalesce(batch);
  ASSERT_TRUE(changes);
  ASSERT_EQ(changes->size(), 2u);
  EXPECT_EQ((*changes)[0].key, kA);
  EXPECT_TRUE(std::ranges::equal((*changes)[0].result(), as_value("new")));
  EXPECT_EQ((*changes)[1].key, kB);
}

TEST(BatchTest, AdditionsAddUpOnTopOfWhatCameBefore) {
  const std::vector<std::int64_t> one{1, -1}, five{5, 7};
  Batch batch;
  batch.add(kA, one);
  batch.add(kA, five);
  batch.erase(kB);
  batch.add(kB, five);
  batch.add(kB, one);
  const auto changes = coalesce(batch);
  ASSERT_TRUE(changes);
  EXPECT_EQ((*changes)[0].kind, Batch::Change::kAdd);
  EXPECT_EQ(counters((*changes)[0].operand()), (std::vector<std::uint64_t>{6, 6}));
  EXPECT_EQ((*changes)[1].kind, Batch::Change::kPut);
  EXPECT_EQ(counters((*changes)[1].result()), (std::vector<std::uint64_t>{6, 6}));
}

TEST(BatchTest, AnAdditionToAnItemOfAnotherLengthIsRefused) {
  const std::vector<std::int64_t> one{1};
  Batch batch;
  batch.put(kA, as_value("short"));
  batch.add(kA, one);
  EXPECT_EQ(coalesce(batch).error(), Errc::kItemBad);
}

TEST(BatchTest, TheLargestValueFitsAndOneByteMoreDoesNot) {
  Batch batch;
  batch.put(kA, std::vector<std::byte>(kMaxValueBytes));
  EXPECT_TRUE(coalesce(batch));
  batch.put(kB, std::vector<std::byte>(kMaxValueBytes + 1));
  EXPECT_EQ(coalesce(batch).error(), Errc::kValueTooLarge);
}

TEST(JmapTest, AgreesWithAMapAndEachPartListsItsLiveNodes) {
  std::mt19937_64 random(test_seed());
  std::deque<Part> parts;
  Jmap jmap;
  std::map<std::uint64_t, std::pair<BandAddress, std::size_t>> model;
  for (std::uint32_t round = 0; round < 20000; ++round) {
    if (round % 100 == 0) parts.emplace_back(PartAddress{1, round, Seq{1}}, BandId{1}, 9);
    const std::uint64_t node = 1 + random() % 3000;
    if (random() % 4 == 0) {
      jmap.erase(NodeNo{node});
      model.erase(node);
    } else {
      const BandAddress address{BandId{3}, round};
      jmap.assign(NodeNo{node}, address, parts.back());
      model[node] = {address, parts.size() - 1};
    }
  }
  ASSERT_EQ(jmap.size(), model.size());
  for (std::uint64_t node = 1; node <= 3000; ++node) {
    const auto found = jmap.find(NodeNo{node});
    ASSERT_EQ(found.has_value(), model.contains(node));
    if (found) {
      ASSERT_EQ(*found, model[node].first);
    }
  }
  std::size_t live = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    for (const JmapEntry& entry : parts[i].live) {
      ASSERT_EQ(model.at(entry.node.value).second, i);
      ++live;
    }
  }
  EXPECT_EQ(live, model.size());
}

TEST(JmapTest, AMillionEntriesTakeLessThan57BytesEach) {
  std::deque<Part> parts;
  parts.emplace_back(PartAddress{1, 1, Seq{1}}, BandId{1}, 9);
  Jmap jmap;
  for (std::uint64_t i = 1; i <= 1'000'000; ++i) {
    jmap.assign(NodeNo{i}, {BandId{1}, 7}, parts.back());
  }
  EXPECT_EQ(jmap.size(), 1'000'000u);
  EXPECT_LT(jmap.bytes(), 57'000'000u);
}

std::vector<Room> rooms_of(std::uint32_t head_blocks, std::span<const std::uint32_t> fresh) {
  std::vector<Room> rooms{{BandId{0}, 1, 100, head_blocks}};
  for (std::uint32_t i = 0; i < fresh.size(); ++i) {
    rooms.push_back({BandId{i + 1}, 2 + i, 1, fresh[i] - 1});
  }
  return rooms;
}

TEST(LogLayoutTest, ASmallTransactionIsOnePart) {
  const auto parts = lay_out(3, 2, rooms_of(5, {}));
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_TRUE(parts[0].is_last);
  EXPECT_EQ(parts[0].room.blocks, 5u);  // descriptor, images, commit record
  EXPECT_TRUE(lay_out(3, 2, rooms_of(4, {})).empty());
}

// The cold room is as good as the reserve, but for the frames of the cleaner's own transactions.
TEST(LogLayoutTest, AChangeIsAdmittedWhileTheCleanerCanEmptyABandBehindIt) {
  const LogLimits limits = limits_of(std::vector<std::uint32_t>(16, 1024), 16384);
  EXPECT_EQ(limits.reserve, 1022 + limits.frames);
  EXPECT_TRUE(limits.admits(10, {10 + limits.reserve, 0}));
  EXPECT_FALSE(limits.admits(10, {9 + limits.reserve, 0}));
  EXPECT_TRUE(limits.admits(10, {10 + limits.frames, 1022}));
  EXPECT_FALSE(limits.admits(10, {10 + limits.frames, 1021}));
  EXPECT_FALSE(limits.admits(10, {9 + limits.frames, 1023}));
}

// A part of the band's nodes may go to what is left of a cold band.
TEST(LogLayoutTest, TheReserveHoldsABandThatIsEmptiedInTwoSteps) {
  const std::vector<std::uint32_t> sizes(8, 128);
  const LogLimits limits = limits_of(sizes, 16384);
  ASSERT_TRUE(limits.has_cold);
  for (std::uint64_t cooled = 1; cooled + 1 < limits.band; ++cooled) {
    const std::uint64_t index = limits.cost(0, cooled + 2);
    const std::uint64_t rest = limits.cost(limits.band - 1 - cooled, 0);
    EXPECT_LE(cooled + index + rest, limits.reserve);
  }
}

TEST(LogLayoutTest, ALogThatHasColdBandsKeepsRoomForThemWhenItGetsSmall) {
  const std::vector<std::uint32_t> sizes(kMinColdBands - 1, 128);
  EXPECT_FALSE(limits_of(sizes, 16384).has_cold);
  const LogLimits limits = limits_of(sizes, 16384, false, true);
  EXPECT_TRUE(limits.has_cold);
  EXPECT_GT(limits.reserve, limits_of(sizes, 16384).reserve);
}

// Whatever the head has left, what cost() says fits, and every node is placed once, within its
// room.
TEST(LogLayoutTest, WhatTheLimitsAllowFitsWhereverTheHeadStands) {
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < 20000; ++round) {
    const std::uint32_t bands = 4 + random() % 8;
    std::vector<std::uint32_t> sizes(bands);
    for (std::uint32_t& blocks : sizes) {
      blocks = static_cast<std::uint32_t>(16 + random() % (round % 3 == 0 ? 2000 : 20));
    }
    const LogLimits limits = limits_of(sizes, 16384);
    const auto head = static_cast<std::uint32_t>(random() % sizes[0]);
    const auto rooms = rooms_of(head, std::span(sizes).subspan(1));
    std::uint64_t available = 0;
    for (const Room& room : rooms) available += room.blocks;
    const std::uint64_t images = random() % (available + 1), freed = random() % 600;
    const auto parts = lay_out(images, freed, rooms);
    if (limits.cost(images, freed) > available) continue;
    ASSERT_FALSE(parts.empty()) << images << " " << freed << " of " << available;
    std::uint64_t placed = 0, removed = 0;
    for (const PartPlan& part : parts) {
      placed += part.images;
      removed += part.annotations;
      const auto room = std::ranges::find(rooms, part.room.slot, &Room::slot);
      ASSERT_LE(part.room.blocks, room->blocks);
      ASSERT_EQ(part.is_last, &part == &parts.back());
      ASSERT_GE(part.descriptors * kEntriesPerDescriptor, part.images + part.annotations);
    }
    ASSERT_EQ(placed, images);
    ASSERT_EQ(removed, freed);
  }
}

TEST(LogLayoutTest, TheSmallestLogHasRoomForATreeAndALargeOneForMuchMore) {
  const std::vector<std::uint32_t> smallest(kMinLogBands, kMinLogBandBlocks);
  const LogLimits small = limits_of(smallest, 16384);
  EXPECT_GE(small.live_ordinary, 8u);
  EXPECT_GE(small.achievable(small.live_max), small.reserve + small.transaction);
  const std::vector<std::uint32_t> usual(8, 65536);
  const LogLimits large = limits_of(usual, 16384);
  EXPECT_GT(large.live_max, 8 * 65536u / 2);
  EXPECT_GE(large.achievable(large.live_max), large.reserve + large.transaction);
  for (const LogLimits& limits : {small, large}) {
    EXPECT_LT(limits.live_ordinary, limits.live_promised);
    EXPECT_LE(limits.live_promised, limits.live_punched);
    EXPECT_LT(limits.live_punched, limits.live_max);
  }
}

}  // namespace
}  // namespace lazyfs::meta
