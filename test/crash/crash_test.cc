// Power cuts at every moment of many workloads. LAZYFS_CRASH_STATES is the number of states to try
// (8,000 by default). `make check-crash` tries many more states, and with LAZYFS_CRASH_PAIRS=all
// all pairs of operations.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "base/log.h"
#include "base/types.h"
#include "crash/explorer.h"
#include "crash/parallel_run.h"
#include "crash/workloads.h"
#include "test/support/seed.h"

namespace lazyfs::crash {
namespace {

std::uint64_t states_wanted() {
  static const std::uint64_t wanted = [] {
    const char* given = std::getenv("LAZYFS_CRASH_STATES");
    return given ? std::strtoull(given, nullptr, 0) : 8'000;
  }();
  return wanted;
}

bool all_pairs_wanted() {
  const char* given = std::getenv("LAZYFS_CRASH_PAIRS");
  return given && std::string_view(given) == "all";
}

using Generator = Workload (*)(std::mt19937_64&, std::size_t);
using IsWanted = bool (*)(const OpCounts&);

// A random workload that does what is wanted to the image; some do not, so it tries ten.
Workload wanted_workload(const Image& image, Generator generate, IsWanted is_wanted,
                         std::mt19937_64& random, std::size_t length) {
  Workload workload;
  for (int tries = 0; tries < 10; ++tries) {
    workload = generate(random, length);
    const Trace trace = run(image, workload, {});
    if (is_wanted(count_ops(trace.recording, trace.first))) break;
  }
  return workload;
}

// Bands are cleaned.
Workload cleaning_workload(std::mt19937_64& random, std::size_t length) {
  const IsWanted cleans = [](const OpCounts& counts) {
    return counts.data_resets > 1 && counts.discards > 1;
  };
  return wanted_workload(worn_image(), wearing_workload, cleans, random, length);
}

Workload halved_cleaning_workload(std::mt19937_64& random, std::size_t length) {
  const IsWanted cleans = [](const OpCounts& counts) { return counts.data_resets > 1; };
  return wanted_workload(halved_image(), wearing_workload, cleans, random, length);
}

// The log gets bands and gives some back.
Workload resizing_workload(std::mt19937_64& random, std::size_t length) {
  const IsWanted resizes = [](const OpCounts& counts) {
    return counts.log_resets > 1 && counts.log_bands_added > 0;
  };
  return wanted_workload(crowded_image(), crowding_workload, resizes, random, length);
}

class CrashTest : public testing::Test {
 protected:
  // This test may try `percent` of all states.
  void allow(std::uint64_t percent) { left_ = states_wanted() * percent / 100; }
  void allow_all() { left_ = ~std::uint64_t{0}; }

  void SetUp() override {
    if (!std::getenv("LAZYFS_CRASH_LOG")) log::set_level(log::Level::kOff);
  }
  void TearDown() override {
    std::printf("%lu workloads, %lu states; %lu after a cut recovery, %lu used further\n%s\n",
                workloads_, tried_.states, tried_.cut_in_recovery, tried_.used,
                to_string(tried_.op_counts).c_str());
  }

  bool may_continue() const { return left_ > 0 && !HasFailure(); }

  // Tries the power cuts of one workload.
  void explore_one(const Image& image, const Workload& workload) {
    options_.seed = test_seed();
    options_.max_states = left_;
    const Outcome outcome = explore(image, workload, run_, options_);
    EXPECT_FALSE(outcome.explored.failure) << to_string(outcome, options_);
    count(outcome.explored);
  }
  // Tries the power cuts of a history that cannot be run again.
  void explore_history(const History& history) {
    options_.seed = test_seed();
    options_.max_states = left_;
    const Explored explored = explore(history, options_);
    EXPECT_FALSE(explored.failure)
        << "LAZYFS_SEED=" << test_seed() << "\n" << to_string(*explored.failure);
    count(explored);
  }
  void count(const Explored& explored) {
    ++workloads_;
    tried_.states += explored.states;
    tried_.cut_in_recovery += explored.cut_in_recovery;
    tried_.used += explored.used;
    tried_.op_counts += explored.op_counts;
    left_ -= std::min(left_, explored.states);
  }

  // Workloads of `shortest` to `longest` operations.
  void explore_random(const Image& image, std::vector<Generator> generators, std::size_t longest,
                      std::size_t shortest = 1) {
    for (std::uint64_t i = 0; may_continue(); ++i) {
      std::mt19937_64 random(test_seed() * 1'000'003 + i);
      explore_one(image, generators[i % generators.size()](
                             random, shortest + random() % (longest - shortest + 1)));
    }
  }

  const testing::ScopedTrace seed_{__FILE__, __LINE__, seed_trace()};
  RunOptions run_;
  ExploreOptions options_;
  Explored tried_;
  std::uint64_t workloads_ = 0;
  std::uint64_t left_ = 0;
};

TEST_F(CrashTest, OneOperationIsAppliedAsAWholeOrNotAtAll) {
  options_.choices = 6;
  const Image image = small_image();
  for (const Operation& operation : alphabet()) {
    allow_all();
    explore_one(image, sequence(operation));
  }
}

TEST_F(CrashTest, TwoOperationsAreAppliedInTheirOrder) {
  allow(20);
  if (all_pairs_wanted()) allow_all();
  const Image image = small_image();
  const std::vector<Operation> operations = alphabet();
  struct Pair {
    const Operation* first;
    Between between;
    const Operation* second;
  };
  std::vector<Pair> pairs;
  for (const Operation& first : operations) {
    for (const Operation& second : operations) {
      for (int between = 0; between < kBetweens; ++between) {
        pairs.push_back({&first, static_cast<Between>(between), &second});
      }
    }
  }
  std::mt19937_64 random(test_seed());
  std::ranges::shuffle(pairs, random);
  for (const Pair& pair : pairs) {
    if (may_continue()) explore_one(image, sequence(*pair.first, pair.between, *pair.second));
  }
  std::printf("%zu of %zu pairs\n", workloads_, pairs.size());
}

TEST_F(CrashTest, APrefixOfManyOperationsIsApplied) {
  allow(18);
  options_.recovery_cuts = 1;
  explore_random(small_image(), {random_workload}, 40);
}

TEST_F(CrashTest, NothingIsLostWhileBandsAreCleaned) {
  allow(12);
  explore_random(worn_image(), {cleaning_workload}, 40, 20);
  EXPECT_GT(tried_.op_counts.data_resets, workloads_);
  EXPECT_GT(tried_.op_counts.discards, workloads_);
}

TEST_F(CrashTest, NothingIsLostWhileBandsOfDifferentLengthsAreCleaned) {
  allow(6);
  explore_random(halved_image(), {halved_cleaning_workload}, 60, 30);
  EXPECT_GT(tried_.op_counts.data_resets, workloads_);
}

TEST_F(CrashTest, TailsOfBandsOfDifferentLengthsAreCleanedWithoutLoss) {
  allow(3);
  run_.mount.clean = fs::CleanChoice::kTail;
  explore_random(halved_image(), {wearing_workload}, 60, 30);
}

TEST_F(CrashTest, NothingIsLostWhileTheLogGrowsAndShrinks) {
  allow(10);
  explore_random(crowded_image(), {resizing_workload}, 60, 20);
  EXPECT_GT(tried_.op_counts.log_resets, workloads_);
  EXPECT_GT(tried_.op_counts.log_bands_added, workloads_ / 8);
}

TEST_F(CrashTest, NothingIsLostWhenNodesDoNotFitInMemory) {
  allow(5);
  run_.mount.cache_bytes = 4 * kBlockBytes;
  explore_random(crowded_image(), {crowding_workload}, 60);
}

TEST_F(CrashTest, NothingIsLostWhileLargeFilesAreTruncatedAndDeleted) {
  allow(5);
  explore_random(ragged_image(), {cutting_workload}, 12);
}

TEST_F(CrashTest, NothingIsLostOnBandsOfManyKinds) {
  allow(5);
  explore_random(mixed_image(), {wearing_workload, crowding_workload}, 60);
}

TEST_F(CrashTest, NothingIsLostWhenTheDiskIsFull) {
  allow(5);
  explore_random(full_image(), {filling_workload}, 40);
}

TEST_F(CrashTest, NothingIsLostWhileSuperblocksChangeBands) {
  allow(5);
  explore_random(make_image(20, 16, small_setup()), {remounting_workload}, 60);
  EXPECT_GT(tried_.op_counts.superblock_resets, 0u);
}

// The volume is used again after each power cut, with all that the cut has left, until the next
// one.
TEST_F(CrashTest, NothingIsLostInManySuccessivePowerCuts) {
  allow(10);
  options_.choices = 1;
  for (std::uint64_t i = 0; may_continue(); ++i) {
    std::mt19937_64 random(test_seed() * 1'000'003 + i);
    Image image = i % 2 == 0 ? small_image() : worn_image();
    for (int life = 0; life < 12 && may_continue(); ++life) {
      const Workload workload = i % 2 == 0 ? random_workload(random, 1 + random() % 20)
                                           : wearing_workload(random, 1 + random() % 20);
      explore_one(image, workload);
      const Trace trace = run(image, workload, run_);
      const std::size_t moments = trace.recording.ops.size() + 1 - trace.first;
      device::RandomChoice choice(random());
      auto next = crashed_image(trace, trace.first + random() % moments, choice);
      ASSERT_TRUE(next);
      image = std::move(*next);
    }
  }
}

// On a device without write pointers each crash takes the rest of the bands that were open.
TEST_F(CrashTest, AFullDiskStaysUsableThroughManyCrashesInARow) {
  allow(5);
  options_.choices = 1;
  options_.use_every = 1;
  std::mt19937_64 random(test_seed());
  while (may_continue()) {
    Image image = full_image();
    for (int life = 0; life < 40 && may_continue(); ++life) {
      const Workload workload = filling_workload(random, 1 + random() % 30);
      const Trace trace = run(image, workload, run_);
      ASSERT_EQ(trace.problems, std::vector<std::string>{}) << seed_trace();
      const std::size_t moments = trace.recording.ops.size() + 1 - trace.first;
      device::RandomChoice choice(random());
      auto next = crashed_image(trace, trace.first + random() % moments, choice);
      ASSERT_TRUE(next) << seed_trace();
      image = std::move(*next);
      left_ -= std::min<std::uint64_t>(left_, 1);
    }
    explore_one(image, filling_workload(random, 5));
  }
}

TEST_F(CrashTest, NothingIsLostWhileThreadsWorkInTheBackground) {
  allow(5);
  run_.mount.background = true;
  run_.mount.commit_interval = std::chrono::milliseconds(1);
  run_.mount.dirty_bytes = 16 * kBlockBytes;
  explore_random(worn_image(), {wearing_workload}, 40);
}

TEST_F(CrashTest, NothingIsLostWhileTailsOfBandsAreCleaned) {
  allow(5);
  run_.mount.clean = fs::CleanChoice::kTail;
  explore_random(worn_image(), {wearing_workload}, 40);
}

TEST_F(CrashTest, NothingIsLostWhileSeveralThreadsWorkAtOnce) {
  allow(10);
  const Image image = image_with_folders(3);
  for (std::uint64_t i = 0; may_continue(); ++i) {
    std::mt19937_64 random(test_seed() * 1'000'003 + i);
    std::vector<Workload> workloads;
    for (std::size_t thread = 0; thread < 3; ++thread) {
      workloads.push_back(moved_to(thread, random_workload(random, 1 + random() % 40)));
    }
    const ParallelRun parallel(image, workloads);
    ASSERT_EQ(parallel.problems(), std::vector<std::string>{});
    explore_history({parallel.recording(), parallel.first(),
                     [&](std::size_t op_count, const Observation& found) {
                       return parallel.differences(op_count, found);
                     }});
  }
}

// A power cut interrupts each recovery, and also the recovery from that.
TEST_F(CrashTest, RecoveryWorksAfterAnInterruptedRecovery) {
  allow(5);
  options_.recovery_cuts = 2;
  options_.choices = 1;
  explore_random(worn_image(), {wearing_workload}, 20);
}

}  // namespace
}  // namespace lazyfs::crash
