// Two to four things at once that disagree: what a repair makes of one must not be in the way of
// the others, nor what one that was cut off has left.
//
// LAZYFS_SEVERAL says how many volumes to try (unless it is set 400, fewer under a sanitizer),
// LAZYFS_SEED which ones.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <vector>

#include "test/fsck/band_corruptions.h"
#include "test/fsck/repaired.h"
#include "test/fsck/corruptions.h"
#include "support/rounds.h"
#include "support/seed.h"

namespace lazyfs::fsck {
namespace {

std::uint64_t volumes_wanted() {
  const char* given = std::getenv("LAZYFS_SEVERAL");
  return given ? std::strtoull(given, nullptr, 0) : rounds_of_build(400, 80);
}

std::vector<Corruption> all_corruptions() {
  std::vector<Corruption> all;
  const auto add = [&](const auto& corruptions) {
    all.insert(all.end(), std::begin(corruptions), std::end(corruptions));
  };
  add(kNames);
  add(kInodes);
  add(kExtents);
  add(kSharedExtents);
  add(kBands);
  return all;
}

// Every change is made durable at once, until the power goes.
void repair_until(SampleVolume& volume, std::uint64_t change) {
  ASSERT_TRUE(volume.store->close());
  volume.store.reset();
  {
    device::FaultyDevice faulty(*volume.device);
    const auto store = meta::Store::open(faulty, {.background = false});
    ASSERT_TRUE(store);
    faulty.cut_power_at_change(change);
    FixedClock clock;
    ignore_error(fsck::repair(**store, faulty, clock,
                            [&](const std::string&) {
                              ignore_error((*store)->commit(), "it may be cut off anywhere");
                            })
                     .result,
                 "likewise");
  }
  volume.open();
}

void corrupt_and_repair(const std::vector<Corruption>& corruptions, std::uint64_t interrupted_at) {
  SampleVolume volume;
  for (const Corruption& corruption : corruptions) {
    corruption.corrupt(volume);
    volume.commit();
  }
  const auto before = readable(volume);
  if (interrupted_at > 0) repair_until(volume, interrupted_at);
  const Repaired first = repair(volume);
  const std::string changes = testing::PrintToString(first.changes);
  EXPECT_EQ(volume.problems(), Strings{}) << changes;
  EXPECT_EQ(repair(volume).changes, Strings{}) << changes;
  const auto after = readable(volume);
  for (const auto& [inode, contents] : before) {
    ASSERT_TRUE(after.contains(inode)) << inode << changes;
    EXPECT_TRUE(after.at(inode) == contents) << inode << changes;
  }
}

TEST(RepairSeveralTest, AreRepairedInOneRunAndNothingIsLost) {
  const std::vector<Corruption> all = all_corruptions();
  std::mt19937_64 random(test_seed());
  for (std::uint64_t n = volumes_wanted(); n > 0; --n) {
    std::vector<Corruption> corruptions;
    std::string names = seed_trace();
    for (std::uint64_t i = 2 + random() % 3; i > 0; --i) {
      corruptions.push_back(all[random() % all.size()]);
      names += std::string(", ") + corruptions.back().name;
    }
    SCOPED_TRACE(names);
    const std::uint64_t interrupted_at = random() % 2 == 0 ? 0 : 1 + random() % 60;
    corrupt_and_repair(corruptions, interrupted_at);
  }
}

// It becomes a file, which may not have both.
TEST(RepairSeveralTest, ASharedInodeWithANameAndInlineDataBecomesAFile) {
  std::vector<Corruption> both;
  for (const Corruption& corruption : all_corruptions()) {
    const std::string_view name = corruption.name;
    if (name == "SharedInodeWithTheNameOfAFile" || name == "SharedInodeWithInlineData") {
      both.push_back(corruption);
    }
  }
  ASSERT_EQ(both.size(), 2u);
  corrupt_and_repair(both, 0);
}

}  // namespace
}  // namespace lazyfs::fsck
