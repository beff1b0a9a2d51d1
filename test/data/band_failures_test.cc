// Who is to blame for a failure: the band or the device.
#include "data/band_failures.h"

#include <gtest/gtest.h>

namespace lazyfs::data {
namespace {

class BandFailuresTest : public testing::Test {
 protected:
  static constexpr BandId kBad{1}, kOther{2}, kThird{3};

  // The band fails alone, `times` times.
  void strike(BandId band, int times) {
    for (int i = 0; i < times; ++i) {
      failures.blame(band, Blame::kSuspect);
      failures.note_written(kThird);
    }
  }

  BandFailures failures{4};
};

TEST_F(BandFailuresTest, ABandIsGivenUpAfterThreeFailuresWhileAnotherOneWorks) {
  strike(kBad, 2);
  EXPECT_FALSE(failures.is_given_up(kBad));
  failures.blame(kBad, Blame::kSuspect);
  EXPECT_TRUE(failures.is_suspect(kBad));
  EXPECT_FALSE(failures.is_given_up(kBad)) << "no other band has worked since";
  failures.note_written(kThird);
  EXPECT_TRUE(failures.is_given_up(kBad));
  EXPECT_FALSE(failures.is_suspect(kBad));
  EXPECT_FALSE(failures.is_given_up(kThird));
}

TEST_F(BandFailuresTest, ABandThatFailsAgainAndAgainInARowGetsOneStrike) {
  strike(kBad, 2);
  for (int i = 0; i < 10; ++i) failures.blame(kOther, Blame::kSuspect);
  failures.note_written(kThird);
  strike(kOther, 1);
  EXPECT_FALSE(failures.is_given_up(kOther));
  strike(kOther, 1);
  EXPECT_TRUE(failures.is_given_up(kOther));
}

TEST_F(BandFailuresTest, NoBandGetsAStrikeWhenSeveralFailOneAfterTheOther) {
  strike(kBad, 2);
  failures.blame(kBad, Blame::kSuspect);
  failures.blame(kOther, Blame::kSuspect);
  failures.note_written(kThird);
  EXPECT_FALSE(failures.is_given_up(kBad));
  EXPECT_FALSE(failures.is_suspect(kBad));
  EXPECT_FALSE(failures.is_suspect(kOther));
  strike(kBad, 1);
  EXPECT_TRUE(failures.is_given_up(kBad));
}

TEST_F(BandFailuresTest, ABandThatWorksAgainIsNotToBlame) {
  strike(kBad, 2);
  failures.blame(kBad, Blame::kSuspect);
  failures.note_written(kBad);
  failures.note_written(kThird);
  EXPECT_FALSE(failures.is_given_up(kBad));
}

TEST_F(BandFailuresTest, BandsThatAlwaysFailTogetherAreGivenUpInTheEnd) {
  int rows = 0;
  for (; !failures.is_given_up(kBad) && rows < 100; ++rows) {
    failures.blame(kBad, Blame::kSuspect);
    failures.blame(kOther, Blame::kSuspect);
    failures.note_written(kThird);
  }
  EXPECT_EQ(rows, 24);
  EXPECT_TRUE(failures.is_given_up(kOther));
}

// It is a suspect until the next append, so that its retries pause.
TEST_F(BandFailuresTest, ADeviceWithoutSpaceCostsNoBandAStrike) {
  strike(kOther, 2);
  for (int i = 0; i < 100; ++i) {
    failures.blame(kBad, blame_for(Errc::kDeviceNoSpace));
    EXPECT_TRUE(failures.is_suspect(kBad));
    failures.note_written(kThird);
    EXPECT_FALSE(failures.is_suspect(kBad));
  }
  EXPECT_FALSE(failures.is_given_up(kBad));
  // Nor does it hide which band is to blame for another error.
  failures.blame(kBad, blame_for(Errc::kDeviceNoSpace));
  failures.blame(kOther, blame_for(Errc::kDeviceWrite));
  failures.note_written(kThird);
  EXPECT_TRUE(failures.is_given_up(kOther));
}

TEST_F(BandFailuresTest, AStrikeForACertainFailureCountsAtOnce) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(failures.is_given_up(kBad)) << i;
    failures.blame(kBad, Blame::kBand);
  }
  EXPECT_TRUE(failures.is_given_up(kBad));
}

}  // namespace
}  // namespace lazyfs::data
