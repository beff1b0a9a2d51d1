#include "fuse/requests/groups.h"

#include <grp.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

namespace lazyfs::fuse {
namespace {

constexpr gid_t kNoGroup = 4'000'000'000;

TEST(GroupsTest, ThoseOfThisThreadAreFound) {
  std::vector<gid_t> groups(static_cast<std::size_t>(getgroups(0, nullptr)));
  ASSERT_EQ(getgroups(static_cast<int>(groups.size()), groups.data()),
            static_cast<int>(groups.size()));
  for (const gid_t group : groups) EXPECT_TRUE(has_group(gettid(), group)) << group;
  EXPECT_FALSE(has_group(gettid(), kNoGroup));
}

TEST(GroupsTest, ManyAreFound) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can choose its groups";
  const pid_t child = fork();
  if (child == 0) {
    std::vector<gid_t> groups;
    for (gid_t group = 1'000'000; group < 1'003'000; ++group) groups.push_back(group);
    if (syscall(SYS_setgroups, groups.size(), groups.data()) != 0) _exit(2);
    bool all = true;
    for (const gid_t group : groups) all &= has_group(getpid(), group) || group % 500 != 0;
    _exit(all && !has_group(getpid(), kNoGroup) && !has_group(getpid(), 0) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(GroupsTest, AThreadThatHasEndedHasNone) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(has_group(child, 0));
}

}  // namespace
}  // namespace lazyfs::fuse
