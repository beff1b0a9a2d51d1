#include "sim/models.h"

#include <gtest/gtest.h>

#include "sim/disk.h"
#include "sim/random.h"
#include "test/support/seed.h"

namespace lazyfs::sim {
namespace {

TEST(ModelsTest, EachParameterHasAnOrigin) {
  for (const Model& model : models()) {
    ParameterSheet sheet;
    model.make(sheet);
    EXPECT_GT(sheet.parameters().size(), 10u) << model.name;
    for (const Parameter& parameter : sheet.parameters()) {
      EXPECT_FALSE(parameter.origin.empty()) << model.name << ": " << parameter.name;
    }
  }
}

TEST(ModelsTest, AreFoundInAnyCase) {
  EXPECT_EQ(find_model("st8000as0002"), find_model("ST8000AS0002"));
  EXPECT_NE(find_model("Cheetah9LP"), nullptr);
  EXPECT_EQ(find_model("cheetah"), nullptr);
}

TEST(ModelsTest, HaveASmallerPersistentCacheOnRequest) {
  const auto choice = choose_model("st8000as0002/16");
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->model->name, "ST8000AS0002");
  EXPECT_EQ(choice->cache_divisor, 16u);
  EXPECT_EQ(choose_model("ST8000AS0002")->cache_divisor, 1u);
  for (const char* const wrong : {"ST8000AS0002/", "ST8000AS0002/0", "ST8000AS0002/1001",
                                  "ST8000AS0002/2x", "WD5000YS/2", "nothing/2", "/2"}) {
    EXPECT_FALSE(choose_model(wrong)) << wrong;
  }
}

// The map of 180,000 extents is full after a 16th of the writes; the capacity is as before.
TEST(ModelsTest, ASmallerCacheIsFullEarlier) {
  const auto full_after = [](std::string_view name) {
    const auto disk = choose_model(name)->make();
    EXPECT_EQ(disk->sectors(), 15'628'053'168u);
    Random random(1);
    double now_ms = 0;
    int writes = 0;
    for (; disk->counters().full_since_ms < 0 && writes < 200'000; ++writes) {
      const std::uint64_t sector = random.below(1u << 25) * 8;
      now_ms = disk->serve(now_ms, {.sector = sector, .sectors = 8, .op = Op::kWrite});
    }
    return writes;
  };
  EXPECT_NEAR(full_after("ST8000AS0002"), 180'000, 2000);
  EXPECT_NEAR(full_after("ST8000AS0002/16"), 180'000 / 16, 200);
}

TEST(ModelsTest, HaveTheCapacitiesOfTheDrives) {
  ParameterSheet sheet;
  EXPECT_EQ(find_model("ST8000AS0002")->make(sheet)->sectors(), 15'628'053'168u);
  EXPECT_EQ(find_model("cheetah9lp")->make(sheet)->sectors(), 17'783'240u);
  EXPECT_EQ(find_model("WD5000YS")->make(sheet)->sectors(), 976'773'168u);
}

TEST(ModelsTest, ServeTheirFirstAndLastSectors) {
  for (const Model& model : models()) {
    ParameterSheet sheet;
    const auto disk = model.make(sheet);
    const std::uint64_t last = disk->sectors() - 8;
    double now_ms = disk->serve(0, {.sector = 0, .sectors = 8, .op = Op::kWrite});
    now_ms = disk->serve(now_ms, {.sector = last, .sectors = 8, .op = Op::kRead});
    now_ms = disk->serve(now_ms, {.sector = last, .sectors = 8, .op = Op::kWrite});
    EXPECT_GE(disk->settle(now_ms), now_ms) << model.name;
  }
}

TEST(ModelsTest, ServeAnyMixtureOfRequestsInOrderOfTime) {
  SCOPED_TRACE(seed_trace());
  for (const Model& model : models()) {
    ParameterSheet sheet;
    const auto disk = model.make(sheet);
    Random random(test_seed());
    const Op ops[] = {Op::kRead, Op::kRead, Op::kWrite, Op::kWrite, Op::kFlush, Op::kDiscard};
    double now_ms = 0;
    std::uint64_t near = 0;
    for (int i = 0; i < 20'000; ++i) {
      Request request;
      request.op = ops[random.below(std::size(ops))];
      if (request.op != Op::kFlush) {
        request.sectors = static_cast<std::uint32_t>(1 + random.below(random.below(4) ? 64 : 9000));
        const std::uint64_t room = disk->sectors() - request.sectors;
        // Some continue where the last one ended, some overlap it, some lie elsewhere.
        if (random.below(4) == 0) near = random.below(room);
        request.sector = std::min(room, near + random.below(3) * 100);
        near = request.end();
      }
      if (random.below(100) == 0) now_ms += static_cast<double>(random.below(5000));
      const double end_ms = disk->serve(now_ms, request);
      ASSERT_GE(end_ms, now_ms) << model.name << " " << i;
      ASSERT_LT(end_ms, now_ms + 60'000) << model.name << " " << i;
      now_ms = end_ms;
    }
    EXPECT_GE(disk->settle(now_ms), now_ms) << model.name;
  }
}

// ---- The host-managed disk ----------------------------------------------------------------------

class HostManagedTest : public testing::Test {
 protected:
  void serve(Op op, std::uint64_t sector, std::uint32_t sectors) {
    now_ms_ = disk_->serve(now_ms_, {.sector = sector, .sectors = sectors, .op = op});
  }
  static constexpr std::uint64_t kZone = 256 * 2048;
  ParameterSheet sheet_;
  std::unique_ptr<Disk> disk_ = find_model("host-managed")->make(sheet_);
  double now_ms_ = 0;
};

TEST_F(HostManagedTest, TakesWritesAtThePointersOnly) {
  serve(Op::kWrite, 3 * kZone, 8);
  serve(Op::kWrite, 3 * kZone + 8, 8);
  EXPECT_EQ(disk_->counters().refused, 0u);
  serve(Op::kWrite, 3 * kZone + 24, 8);
  serve(Op::kWrite, 3 * kZone, 8);
  EXPECT_EQ(disk_->counters().refused, 2u);
}

TEST_F(HostManagedTest, RefusesAWriteOverTheEndOfAZone) {
  serve(Op::kWrite, 0, kZone - 8);
  serve(Op::kWrite, kZone - 8, 16);
  EXPECT_EQ(disk_->counters().refused, 1u);
}

TEST_F(HostManagedTest, DiscardingAWholeZoneResetsItsPointer) {
  serve(Op::kWrite, 0, 8);
  serve(Op::kDiscard, 8, kZone - 8);  // not all of it
  serve(Op::kWrite, 0, 8);
  EXPECT_EQ(disk_->counters().refused, 1u);
  serve(Op::kDiscard, 0, kZone);
  serve(Op::kWrite, 0, 8);
  EXPECT_EQ(disk_->counters().refused, 1u);
}

TEST_F(HostManagedTest, WritesInSequenceAtTheRateOfTheMedia) {
  for (std::uint64_t i = 0; i < 200; ++i) serve(Op::kWrite, i * 2048, 2048);
  EXPECT_NEAR(200 / (now_ms_ / 1000), 190, 8);  // MiB/s
}

}  // namespace
}  // namespace lazyfs::sim
