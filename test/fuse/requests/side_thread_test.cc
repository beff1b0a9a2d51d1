#include "fuse/requests/side_thread.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <new>
#include <vector>

namespace lazyfs::fuse {
namespace {

TEST(SideThreadTest, JobsRunInOrderAndAllBeforeTheEnd) {
  std::vector<int> done;
  std::thread::id where;
  {
    SideThread side;
    for (int i = 0; i < 1000; ++i) {
      side.run([&done, &where, i] {
        done.push_back(i);
        where = std::this_thread::get_id();
      });
    }
  }
  ASSERT_EQ(done.size(), 1000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(done[static_cast<std::size_t>(i)], i);
  EXPECT_NE(where, std::this_thread::get_id());
}

TEST(SideThreadTest, WithoutJobsItEnds) {
  SideThread side;
  side.finish();
  side.finish();
}

// As a mount ends that is still in use.
TEST(SideThreadTest, AJobThatComesAfterTheEndIsRefused) {
  SideThread side;
  bool first = false, late = false;
  EXPECT_TRUE(side.run([&first] { first = true; }));
  side.finish();
  EXPECT_FALSE(side.run([&late] { late = true; }));
  side.finish();
  EXPECT_TRUE(first);
  EXPECT_FALSE(late);
}

// While this exists, no thread can begin.
class NoThreads {
 public:
  NoThreads() {
    pthread_getattr_default_np(&usual_);
    pthread_attr_t huge;
    pthread_attr_init(&huge);
    pthread_attr_setstacksize(&huge, std::size_t{1} << 50);
    EXPECT_EQ(pthread_setattr_default_np(&huge), 0);
    pthread_attr_destroy(&huge);
  }
  ~NoThreads() {
    pthread_setattr_default_np(&usual_);
    pthread_attr_destroy(&usual_);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  pthread_attr_t usual_;
};

TEST(SideThreadTest, AJobIsRefusedWhereNoThreadCanBegin) {
  SideThread side;
  {
    const NoThreads none;
    EXPECT_FALSE(side.run([] {}));
  }
  EXPECT_TRUE(side.run([] {}));
}

// Lacks memory where it is copied.
struct LargeJob {
  LargeJob() = default;
  LargeJob(const LargeJob&) { throw std::bad_alloc(); }
  void operator()() const {}
};

TEST(SideThreadTest, AJobIsRefusedForLackOfMemory) {
  SideThread side;
  const LargeJob job;
  EXPECT_FALSE(side.run(job));
  EXPECT_TRUE(side.run([] {}));
}

}  // namespace
}  // namespace lazyfs::fuse
