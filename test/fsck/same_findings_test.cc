// A check and a repair find the same: for each way in which a volume can disagree with itself, the
// repair reports what the check reports, and what it has done about it.
#include <gtest/gtest.h>

#include <set>

#include "test/fsck/band_corruptions.h"
#include "test/fsck/corruptions.h"
#include "test/fsck/repaired.h"

namespace lazyfs::fsck {
namespace {

class SameFindingsTest : public testing::TestWithParam<Corruption> {};

// The finding of a change that a repair reports; nullopt for what it says of what an action did.
std::optional<std::string> finding_of(const std::string& change) {
  for (const char* action : {"removed", "moved", "corrected", "rebuilt", "truncated", "copied"}) {
    const std::string end = std::string(": ") + action + ".";
    if (change.ends_with(end)) return change.substr(0, change.size() - end.size()) + ".";
  }
  return std::nullopt;
}

TEST_P(SameFindingsTest, AreReportedByARepair) {
  SampleVolume volume;
  GetParam().corrupt(volume);
  volume.commit();
  const Strings problems = volume.problems();
  std::multiset<std::string> found(problems.begin(), problems.end()), acted_on;
  const Repaired repaired = repair(volume);
  for (const std::string& change : repaired.changes) {
    if (const auto finding = finding_of(change)) acted_on.insert(*finding);
  }
  EXPECT_EQ(found, acted_on) << testing::PrintToString(repaired.changes);
  EXPECT_EQ(volume.problems(), Strings{});
}

INSTANTIATE_TEST_SUITE_P(Names, SameFindingsTest, testing::ValuesIn(kNames), name_of_case);
INSTANTIATE_TEST_SUITE_P(Inodes, SameFindingsTest, testing::ValuesIn(kInodes), name_of_case);
INSTANTIATE_TEST_SUITE_P(Extents, SameFindingsTest, testing::ValuesIn(kExtents), name_of_case);
INSTANTIATE_TEST_SUITE_P(SharedExtents, SameFindingsTest, testing::ValuesIn(kSharedExtents),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Bands, SameFindingsTest, testing::ValuesIn(kBands), name_of_case);

}  // namespace
}  // namespace lazyfs::fsck
