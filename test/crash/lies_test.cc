// Each rule of DESIGN's section 6 broken on purpose: the explorer must notice.
#include "crash/lies.h"

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include "crash/explorer.h"
#include "crash/workloads.h"
#include "test/support/seed.h"

namespace lazyfs::crash {
namespace {

using Lie = Trace (*)(Trace);

class LiesTest : public testing::Test {
 protected:
  void SetUp() override { spdlog::set_level(spdlog::level::off); }

  // True when the lie is found out in one of some workloads; the truth must stand in all of them.
  bool is_found_out(Lie lie, const Image& image, Workload (*generator)(std::mt19937_64&,
                                                                       std::size_t)) {
    bool found = false;
    for (std::uint64_t i = 0; i < 40 && !found; ++i) {
      std::mt19937_64 random(test_seed() + i);
      const Trace truth = run(image, generator(random, 40), {});
      EXPECT_EQ(truth.problems, std::vector<std::string>{});
      const ExploreOptions options{.seed = test_seed() + i, .choices = 6, .max_states = 2000};
      const Explored explored = explore(lie(truth), options);
      found = explored.failure.has_value();
    }
    return found;
  }
};

TEST_F(LiesTest, DataThatIsNotFlushedBeforeItsTransactionIsMissed) {
  EXPECT_TRUE(is_found_out(without_flush_of_data, small_image(), random_workload));
}

TEST_F(LiesTest, BandOfDataThatIsResetTooEarlyIsMissed) {
  EXPECT_TRUE(is_found_out(with_early_resets_of_data, worn_image(), wearing_workload));
}

TEST_F(LiesTest, BandOfTheLogThatIsResetTooEarlyIsMissed) {
  EXPECT_TRUE(is_found_out(with_early_resets_of_log, crowded_image(), crowding_workload));
}

TEST_F(LiesTest, SyncThatDoesNotFlushItsTransactionIsMissed) {
  EXPECT_TRUE(is_found_out(without_flush_of_log, small_image(), random_workload));
}

TEST_F(LiesTest, SuperblockThatIsNotFlushedIsMissed) {
  EXPECT_TRUE(is_found_out(without_flush_of_superblock, small_image(), remounting_workload));
}

}  // namespace
}  // namespace lazyfs::crash
