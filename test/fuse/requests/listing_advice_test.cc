#include "fuse/requests/listing_advice.h"

#include <gtest/gtest.h>

namespace lazyfs::fuse {
namespace {

using Attributes = ListingAdvice::Attributes;

constexpr InodeNo kDirectory{7};
constexpr std::uint64_t kReply = 128;
static_assert(ListingAdvice::kBeforeSamples % kReply == 0);
static_assert(ListingAdvice::kBeforeNames % kReply == 0);

// Lists until the directory has given so many entries. Returns what the last reply gave.
Attributes list(ListingAdvice& advice, InodeNo directory, std::uint64_t entries) {
  Attributes gave = Attributes::kAll;
  for (std::uint64_t listed = 0; listed < entries; listed += kReply) {
    gave = advice.begin_reply(directory, listed == 0);
    advice.add(directory, kReply);
  }
  return gave;
}

Attributes next(ListingAdvice& advice, InodeNo directory) {
  return advice.begin_reply(directory, false);
}

TEST(ListingAdviceTest, AShortListingHasAllAttributes) {
  ListingAdvice advice;
  EXPECT_EQ(list(advice, kDirectory, ListingAdvice::kBeforeSamples), Attributes::kAll);
}

TEST(ListingAdviceTest, ALongListingLacksSome) {
  ListingAdvice advice;
  list(advice, kDirectory, ListingAdvice::kBeforeSamples);
  EXPECT_EQ(next(advice, kDirectory), Attributes::kMost);
  EXPECT_EQ(list(advice, kDirectory, ListingAdvice::kBeforeNames), Attributes::kMost);
}

TEST(ListingAdviceTest, AListingWithoutLookupsEndsWithNames) {
  ListingAdvice advice;
  list(advice, kDirectory, ListingAdvice::kBeforeNames);
  EXPECT_EQ(next(advice, kDirectory), Attributes::kNone);
}

TEST(ListingAdviceTest, AfterALookupAttributesComeAgain) {
  ListingAdvice advice;
  list(advice, kDirectory, ListingAdvice::kBeforeNames);
  advice.note_lookup(kDirectory);
  EXPECT_EQ(next(advice, kDirectory), Attributes::kAll);
}

TEST(ListingAdviceTest, ALookupWhileSamplesAreTakenCounts) {
  ListingAdvice advice;
  list(advice, kDirectory, ListingAdvice::kBeforeSamples);
  advice.note_lookup(kDirectory);
  EXPECT_EQ(next(advice, kDirectory), Attributes::kAll);
}

TEST(ListingAdviceTest, ALookupElsewhereChangesNothing) {
  ListingAdvice advice;
  list(advice, kDirectory, ListingAdvice::kBeforeNames);
  advice.note_lookup(InodeNo{8});
  EXPECT_EQ(next(advice, kDirectory), Attributes::kNone);
}

TEST(ListingAdviceTest, ANewListingBeginsWithAttributes) {
  ListingAdvice advice;
  list(advice, kDirectory, ListingAdvice::kBeforeNames);
  EXPECT_EQ(advice.begin_reply(kDirectory, true), Attributes::kAll);
}

TEST(ListingAdviceTest, ShortListingsReplaceTheOldestOnly) {
  ListingAdvice advice;
  for (std::uint64_t directory = 100; directory < 200; ++directory) {
    list(advice, InodeNo{directory}, kReply);
  }
  list(advice, kDirectory, ListingAdvice::kBeforeNames);
  for (std::uint64_t directory = 200; directory < 210; ++directory) {
    list(advice, InodeNo{directory}, kReply);
  }
  EXPECT_EQ(next(advice, kDirectory), Attributes::kNone);
}

TEST(ListingAdviceTest, AReplacedListingIsForgotten) {
  ListingAdvice advice;
  list(advice, kDirectory, ListingAdvice::kBeforeNames);
  for (std::uint64_t directory = 100; directory < 200; ++directory) {
    list(advice, InodeNo{directory}, kReply);
  }
  EXPECT_EQ(next(advice, kDirectory), Attributes::kAll);
  advice.note_lookup(kDirectory);
  EXPECT_EQ(list(advice, kDirectory, ListingAdvice::kBeforeNames), Attributes::kMost);
}

TEST(ListingAdviceTest, OneEntryInSixtyFourIsASample) {
  unsigned with = 0;
  for (std::uint64_t cookie = 1; cookie <= 64 * 10; ++cookie) {
    EXPECT_TRUE(ListingAdvice::gives(Attributes::kAll, cookie));
    EXPECT_FALSE(ListingAdvice::gives(Attributes::kNone, cookie));
    with += ListingAdvice::gives(Attributes::kMost, cookie);
  }
  EXPECT_EQ(with, 63u * 10);
}

}  // namespace
}  // namespace lazyfs::fuse
