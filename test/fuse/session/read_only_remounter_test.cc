#include "fuse/session/read_only_remounter.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>

namespace lazyfs::fuse {
namespace {

class ReadOnlyRemounterTest : public testing::Test {
 protected:
  // Nothing is mounted there, and no keeper is asked.
  void start(ReadOnlyRemounter::Report report) {
    remounter_ = std::make_unique<ReadOnlyRemounter>(nullptr, "/nowhere", std::move(report));
    ASSERT_TRUE(remounter_->start());
    remounter_->note_mount();
  }

  std::atomic<int> reports_{0};
  std::unique_ptr<ReadOnlyRemounter> remounter_;
};

// Else it would wait for an unmount that waits for its thread.
TEST_F(ReadOnlyRemounterTest, WhoAsksDoesNotWaitForTheReport) {
  std::atomic<bool> has_asked{false};
  start([&] {
    has_asked.wait(false);
    ++reports_;
    return true;
  });
  remounter_->ask();
  has_asked = true;
  has_asked.notify_all();
  remounter_.reset();
  EXPECT_EQ(reports_, 1);
}

TEST_F(ReadOnlyRemounterTest, WhatWasAskedJustBeforeTheEndIsReported) {
  for (int round = 1; round <= 100; ++round) {
    start([&] {
      ++reports_;
      return false;
    });
    remounter_->ask();
    remounter_->ask();
    remounter_.reset();
    EXPECT_EQ(reports_, round);
  }
}

TEST_F(ReadOnlyRemounterTest, NothingIsReportedBeforeTheMount) {
  {
    ReadOnlyRemounter remounter(nullptr, "/nowhere", [&] {
      ++reports_;
      return false;
    });
    remounter.ask();
    ASSERT_TRUE(remounter.start());
  }  // the thread has ended
  EXPECT_EQ(reports_, 0);
}

TEST_F(ReadOnlyRemounterTest, NothingIsReportedUnlessAsked) {
  start([&] {
    ++reports_;
    return true;
  });
  remounter_.reset();
  EXPECT_EQ(reports_, 0);
}

}  // namespace
}  // namespace lazyfs::fuse
