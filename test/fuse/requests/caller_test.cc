#include "fuse/requests/caller.h"

#include <grp.h>
#include <gtest/gtest.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

namespace lazyfs::fuse {
namespace {

constexpr gid_t kNoGroup = 4'000'000'000;

TEST(CallerTest, IdsOfThisThreadAreFound) {
  const ThreadIds ids = ids_of_thread(gettid());
  EXPECT_EQ(ids.user, geteuid());
  EXPECT_EQ(ids.group, getegid());
  std::vector<gid_t> groups(static_cast<std::size_t>(getgroups(0, nullptr)));
  ASSERT_EQ(getgroups(static_cast<int>(groups.size()), groups.data()),
            static_cast<int>(groups.size()));
  for (const gid_t group : groups) EXPECT_TRUE(ids.has_group(group)) << group;
  EXPECT_FALSE(ids.has_group(kNoGroup));
}

TEST(CallerTest, IdsForFilesCount) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can choose its ids";
  const pid_t child = fork();
  if (child == 0) {
    setfsgid(1001);
    setfsuid(1000);
    const ThreadIds ids = ids_of_thread(getpid());
    _exit(ids.user == 1000 && ids.group == 1001 && ids.has_group(1001) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(CallerTest, ManyGroupsAreFound) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can choose its groups";
  const pid_t child = fork();
  if (child == 0) {
    std::vector<gid_t> groups;
    for (gid_t group = 1'000'000; group < 1'003'000; ++group) groups.push_back(group);
    if (syscall(SYS_setgroups, groups.size(), groups.data()) != 0) _exit(2);
    const ThreadIds ids = ids_of_thread(getpid());
    _exit(ids.more_groups == groups && !ids.has_group(kNoGroup) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(CallerTest, AThreadThatHasEndedIsUnknown) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  const ThreadIds ids = ids_of_thread(child);
  EXPECT_EQ(ids.user, kUnknownUser);
  EXPECT_EQ(ids.group, kUnknownGroup);
  EXPECT_TRUE(ids.more_groups.empty());
}

}  // namespace
}  // namespace lazyfs::fuse
