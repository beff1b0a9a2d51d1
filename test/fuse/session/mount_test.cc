// Mounting and unmounting, and what they leave.
#include <sys/ioctl.h>

#include <algorithm>
#include <csignal>

#include "fuse/requests/control.h"
#include "mount_fixture.h"

namespace lazyfs::fuse {
namespace {

TEST_F(MountTest, ShowsItsSourceAndTypeAndIsUsableAtOnce) {
  mount_it();
  const std::string line = mount_line();
  EXPECT_NE(line.find("fuse.lazyfs rw"), std::string::npos) << line;
  EXPECT_NE(line.find("default_permissions,allow_other"), std::string::npos) << line;
  EXPECT_EQ(line.find("nodev"), std::string::npos) << line;
  EXPECT_EQ(line.find("nosuid"), std::string::npos) << line;
  write("f", "x");
  EXPECT_EQ(read("f"), "x");
}

TEST_F(MountTest, UnmountingLeavesNoProcessAndNoMount) {
  mount_it();
  EXPECT_EQ(daemons().size(), 1u);
  EXPECT_EQ(unmount().status, 0);
  EXPECT_FALSE(mounted());
  wait_until_no_daemon();
}

TEST_F(MountTest, KeeperHoldsNothingAndEndsWithTheDaemonHoweverThatEnds) {
  mount_it();
  ASSERT_EQ(keepers().size(), 1u);
  const std::filesystem::path fds = "/proc/" + std::to_string(keepers()[0]) + "/fd";
  std::vector<std::string> held;
  for (const auto& fd : std::filesystem::directory_iterator(fds)) {
    held.push_back(std::filesystem::read_symlink(fd).string());
  }
  std::ranges::sort(held);
  ASSERT_EQ(held.size(), 2u);
  EXPECT_TRUE(held[0].starts_with("pipe:")) << held[0];
  EXPECT_TRUE(held[1].starts_with("socket:")) << held[1];
  kill(keepers()[0], SIGTERM);  // the keeper ignores it: the daemon ends first
  EXPECT_EQ(keepers().size(), 1u);
  kill(daemons()[0], SIGKILL);
  wait_until_no_daemon();
  umount2(mnt_.c_str(), MNT_DETACH);
}

TEST_F(MountTest, DaemonWhoseKeeperWasKilledServesAndLetsOthersUnmount) {
  mount_it();
  kill(keepers()[0], SIGKILL);
  write("f", "x");
  EXPECT_EQ(read("f"), "x");
  EXPECT_EQ(unmount().status, 0);
  wait_until_no_daemon();
}

TEST_F(MountTest, AMountInUseIsNotUnmounted) {
  mount_it();
  const int fd = open(at("f").c_str(), O_CREAT | O_WRONLY, 0644);
  EXPECT_NE(unmount().status, 0);
  EXPECT_EQ(::write(fd, "x", 1), 1);
  close(fd);
  EXPECT_EQ(unmount().status, 0);
}

TEST_F(MountTest, ALazyUnmountServesUntilTheLastUserHasLeft) {
  mount_it();
  const int fd = open(at("f").c_str(), O_CREAT | O_RDWR, 0644);
  ASSERT_EQ(umount2(mnt_.c_str(), MNT_DETACH), 0);
  EXPECT_FALSE(mounted());
  EXPECT_EQ(pwrite(fd, "x", 1, 0), 1);
  EXPECT_EQ(fsync(fd), 0);
  close(fd);
  wait_until_no_daemon();
}

TEST_F(MountTest, TerminationUnmounts) {
  mount_it();
  write("f", "x");
  ASSERT_EQ(daemons().size(), 1u);
  kill(daemons()[0], SIGTERM);
  wait_until_no_daemon();
  EXPECT_FALSE(mounted());
}

TEST_F(MountTest, TerminationOfAMountInUseDetachesIt) {
  mount_it();
  const int fd = open(at("f").c_str(), O_CREAT | O_RDWR, 0644);
  kill(daemons()[0], SIGTERM);
  while (mounted()) usleep(1000);
  EXPECT_EQ(pwrite(fd, "x", 1, 0), 1);  // who is inside may finish
  close(fd);
  wait_until_no_daemon();
}

TEST_F(MountTest, TheForegroundStaysAndEndsWithTheMount) {
  const pid_t child = fork();
  if (child == 0) {
    execl(FUSE_LIMIT, FUSE_LIMIT, "-f", "-o", "loglevel=off", "memory", mnt_.c_str(), nullptr);
    _exit(127);
  }
  while (!mounted()) usleep(1000);
  EXPECT_EQ(waitpid(child, nullptr, WNOHANG), 0);
  kill(child, SIGINT);
  int how = 0;
  ASSERT_EQ(waitpid(child, &how, 0), child);
  EXPECT_TRUE(WIFEXITED(how));
  EXPECT_EQ(WEXITSTATUS(how), 0);
  EXPECT_FALSE(mounted());
}

TEST_F(MountTest, SaysHowItsRequestsCome) {
  mount_it();
  const std::string kind = by_io_uring() ? "io_uring" : "read";
  const Outcome stats = run(std::string(LAZYFSCTL) + " stats --json " + mnt_);
  EXPECT_NE(stats.text.find("\"kind\":\"" + kind + "\""), std::string::npos) << stats.text;
}

TEST_F(MountTest, AReadOnlyMountTakesNoChanges) {
  mount_it("ro");
  EXPECT_ERRNO(EROFS, mkdir(at("d").c_str(), 0755));
  EXPECT_ERRNO(EROFS, open(at("f").c_str(), O_CREAT | O_WRONLY, 0644));
}

TEST_F(MountTest, GenericOptionsReachTheKernel) {
  mount_it("nodev,nosuid,noexec,sync,noatime,_netdev,x-systemd.automount,relatime");
  const std::string line = mount_line();
  for (const char* option : {"nodev", "nosuid", "noexec", "sync"}) {
    EXPECT_NE(line.find(option), std::string::npos) << option << " in " << line;
  }
}

TEST_F(MountTest, AMountPointThatIsNoDirectoryIsRefused) {
  std::ofstream(top_ + "/file") << "x";
  mnt_ = top_ + "/file";
  const Outcome outcome = mount();
  EXPECT_NE(outcome.status, 0);
  EXPECT_EQ(outcome.text, "fuse_limit: " + mnt_ + ": the mount point is not a directory\n");
  mnt_ = top_ + "/none";
  const Outcome missing = mount();
  EXPECT_NE(missing.status, 0);
  EXPECT_EQ(missing.text, "fuse_limit: " + mnt_ +
                              ": the mount point cannot be used: No such file or directory\n");
  EXPECT_TRUE(daemons().empty());
}

TEST_F(MountTest, AnUnknownOptionIsRefused) {
  const Outcome outcome = mount("colour=blue");
  EXPECT_NE(outcome.status, 0);
  EXPECT_NE(outcome.text.find("option 'colour=blue': not known"), std::string::npos);
  EXPECT_FALSE(mounted());
}

TEST_F(MountTest, ABlockDeviceIsMountedAsFuseblkAndOnlyOnce) {
  const std::string loop = loop_device();
  ASSERT_TRUE(loop.starts_with("/dev/loop")) << loop;
  const Outcome first = mount("", loop);
  ASSERT_EQ(first.status, 0) << first.text;
  EXPECT_NE(mount_line().find(loop + " "), std::string::npos) << mount_line();
  EXPECT_NE(mount_line().find("fuseblk.lazyfs rw"), std::string::npos) << mount_line();
  const std::string first_point = mnt_;
  mnt_ = top_ + "/second";
  std::filesystem::create_directory(mnt_);
  const Outcome second = mount("", loop);
  EXPECT_NE(second.status, 0);
  EXPECT_NE(second.text.find("busy"), std::string::npos) << second.text;
  EXPECT_FALSE(mounted());
  wait_until_no_daemon();
  mnt_ = first_point;
  EXPECT_EQ(unmount().status, 0);
  wait_until_no_daemon();
}

TEST_F(MountTest, OfTwoThatStartAtOnceOneMountsTheDevice) {
  const std::string loop = loop_device(), second = top_ + "/second";
  std::filesystem::create_directory(second);
  const std::string begin = std::string(FUSE_LIMIT) + " " + loop + " ";
  const Outcome both = run(begin + mnt_ + " & " + begin + second + " & wait");
  EXPECT_NE(both.text.find(loop + ": the device is busy: it is mounted on " + top_),
            std::string::npos)
      << both.text;
  if (!mounted()) mnt_ = second;
  EXPECT_EQ(unmount().status, 0);
  EXPECT_EQ(run("grep -c " + top_ + " /proc/mounts").text, "0\n");
}

TEST_F(MountTest, TerminationUnmountsABlockDevice) {
  ASSERT_EQ(mount("", loop_device()).status, 0);
  write("f", "x");
  kill(daemons()[0], SIGTERM);
  wait_until_no_daemon();
  EXPECT_FALSE(mounted());
}

TEST_F(MountTest, ADaemonThatWasKilledLeavesAMountThatOnlyNeedsUnmounting) {
  const std::string loop = loop_device();
  ASSERT_EQ(mount("", loop).status, 0);
  kill(daemons()[0], SIGKILL);
  wait_until_no_daemon();
  EXPECT_EQ(access(at("f").c_str(), F_OK), -1);
  const Outcome again = mount("", loop);
  EXPECT_NE(again.status, 0);
  EXPECT_EQ(again.text,
            "fuse_limit: " + mnt_ + ": the daemon of the mount there is dead; run umount -l " +
                mnt_ + "\n");
  EXPECT_EQ(unmount().status, 0);
  EXPECT_EQ(mount("", loop).status, 0);
  EXPECT_EQ(unmount().status, 0);
}

TEST_F(MountTest, RemountingTurnsReadOnlyAndBack) {
  mount_it();
  const std::string again = std::string(FUSE_LIMIT) + " -o remount,";
  EXPECT_EQ(run(again + "ro,nodev memory " + mnt_).status, 0);
  EXPECT_NE(mount_line().find(" ro,nodev"), std::string::npos) << mount_line();
  EXPECT_ERRNO(EROFS, mkdir(at("d").c_str(), 0755));
  EXPECT_EQ(run(again + "rw memory " + mnt_).status, 0);
  EXPECT_EQ(mkdir(at("d").c_str(), 0755), 0);
}

// Whether the volume can be written to is for make_writable(): test/system/remount.sh.
TEST_F(MountTest, WhatWasMountedForReadingIsRemountedForWriting) {
  mount_it("ro");
  EXPECT_ERRNO(EROFS, mkdir(at("d").c_str(), 0755));
  const std::string again = std::string(FUSE_LIMIT) + " -o remount,";
  const Outcome outcome = run(again + "rw memory " + mnt_);
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_EQ(mount_line().find(" ro,"), std::string::npos) << mount_line();
  EXPECT_EQ(mkdir(at("d").c_str(), 0755), 0);
}

TEST_F(MountTest, AFileIsMadeByOneRequestUnlessOpensAreAnnounced) {
  for (const bool announced : {false, true}) {
    mount_it(announced ? "opens" : "");
    for (int i = 0; i < 10; ++i) write("f" + std::to_string(i), "text");
    const std::string text = run(std::string(LAZYFSCTL) + " stats --json " + mnt_).text;
    for (const std::string expected : {announced ? "\"mknod\":0," : "\"mknod\":10,",
                                       announced ? "\"create\":10," : "\"create\":0,"}) {
      EXPECT_NE(text.find(expected), std::string::npos) << expected << text;
    }
    EXPECT_EQ(text.find("\"release\":0,") != std::string::npos, !announced) << text;
    ASSERT_EQ(umount2(mnt_.c_str(), 0), 0);
  }
}

TEST_F(MountTest, StatisticsCountOperations) {
  mount_it();
  ASSERT_EQ(mkdir(at("a").c_str(), 0755), 0);
  ASSERT_EQ(mkdir(at("b").c_str(), 0755), 0);
  const Outcome stats = run(std::string(LAZYFSCTL) + " stats --json " + mnt_);
  EXPECT_EQ(stats.status, 0);
  EXPECT_NE(stats.text.find("\"mkdir\":2,"), std::string::npos) << stats.text;
  const Outcome list = run(std::string(LAZYFSCTL) + " stats --all " + mnt_);
  EXPECT_NE(list.text.find("operations.mkdir "), std::string::npos) << list.text;
  const Outcome page = run(std::string(LAZYFSCTL) + " stats " + mnt_);
  EXPECT_EQ(page.status, 0) << page.text;  // of a daemon that has no label and no UUID
  EXPECT_NE(page.text.find("\nmkdir "), std::string::npos) << page.text;
  EXPECT_EQ(run(std::string(LAZYFSCTL) + " gc " + mnt_).status, 0);
}

TEST_F(MountTest, SyncReachesTheDaemonThoughTheKernelPassesNoneOn) {
  mount_it();
  EXPECT_EQ(run(std::string(LAZYFSCTL) + " sync " + mnt_).status, 0);
  const Outcome stats = run(std::string(LAZYFSCTL) + " stats --json " + mnt_);
  EXPECT_NE(stats.text.find("\"syncfs\":1"), std::string::npos) << stats.text;
  EXPECT_NE(run(std::string(LAZYFSCTL) + " sync " + top_).status, 0);
}

TEST_F(MountTest, OnlyRootShutsDownAndThenNothingWorks) {
  mount_it();
  ASSERT_EQ(chmod(top_.c_str(), 0755), 0);
  const std::string ctl = LAZYFSCTL;
  const Outcome refused = run("setpriv --reuid=1234 --clear-groups " + ctl + " shutdown " + mnt_);
  EXPECT_NE(refused.status, 0) << refused.text;
  EXPECT_EQ(mkdir(at("a").c_str(), 0755), 0);
  EXPECT_EQ(run(ctl + " shutdown " + mnt_).status, 0);
  EXPECT_ERRNO(EIO, mkdir(at("b").c_str(), 0755));
  EXPECT_EQ(unmount().status, 0);
}

TEST_F(MountTest, ShutDownFlagThatIsNoneIsRefused) {
  mount_it();
  const int fd = open(mnt_.c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_GE(fd, 0);
  std::uint32_t flag = 3;
  EXPECT_ERRNO(EINVAL, ioctl(fd, kShutDownRequest, &flag));
  EXPECT_EQ(mkdir(at("a").c_str(), 0755), 0);
  flag = kShutDownFlushLog;
  EXPECT_EQ(ioctl(fd, kShutDownRequest, &flag), 0);
  EXPECT_ERRNO(EIO, mkdir(at("b").c_str(), 0755));
  close(fd);
}

TEST_F(MountTest, CleaningTakesAShareOfDeadBlocksFromOneToAHundredPercent) {
  mount_it();
  const int fd = open(mnt_.c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_GE(fd, 0);
  const auto estimate = [fd](std::uint32_t dead_percent) {
    CleanPiece piece{.dead_percent = dead_percent};
    return ioctl(fd, kCleanRequest, &piece);
  };
  EXPECT_ERRNO(EINVAL, estimate(0));
  EXPECT_EQ(estimate(1), 0);
  EXPECT_EQ(estimate(100), 0);
  EXPECT_ERRNO(EINVAL, estimate(101));
  CleanPiece unknown{.dead_percent = 20, .what = CleanPiece::kStep + 1};
  EXPECT_ERRNO(EINVAL, ioctl(fd, kCleanRequest, &unknown));
  close(fd);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// What is left: CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE, CAP_SYS_ADMIN.
TEST_F(MountTest, DaemonKeepsNoPrivilegesThatItDoesNotNeed) {
  mount_it();
  const auto pids = daemons();
  ASSERT_EQ(pids.size(), 1u);
  const auto lines_of = [](const std::filesystem::path& file) {
    std::ifstream from(file);
    return std::string(std::istreambuf_iterator<char>(from), {});
  };
  const std::filesystem::path process = "/proc/" + std::to_string(pids.front());
  std::string status;
  // It is confined just after the mount is reported.
  for (int i = 0; i < 5000 && status.find("Seccomp:\t2") == std::string::npos; ++i) {
    usleep(1000);
    status = lines_of(process / "status");
  }
  EXPECT_NE(status.find("Seccomp:\t2"), std::string::npos) << status;
  for (const auto& thread : std::filesystem::directory_iterator(process / "task")) {
    const std::string lines = lines_of(thread.path() / "status");
    for (const char* line : {"NoNewPrivs:\t1", "Seccomp:\t2", "CapEff:\t0000000000280006",
                             "CapPrm:\t0000000000280006", "CapBnd:\t0000000000280006"}) {
      EXPECT_NE(lines.find(line), std::string::npos) << line << " is not in\n" << lines;
    }
  }
  write("f", "it serves");
  EXPECT_EQ(read("f"), "it serves");
}
#endif

TEST_F(MountTest, AskingWhatIsNoMountIsRefused) {
  const Outcome outcome = run(std::string(LAZYFSCTL) + " stats " + top_);
  EXPECT_NE(outcome.status, 0);
  EXPECT_EQ(outcome.text, "lazyfsctl: " + top_ + ": no lazyfs is mounted there\n");
}

}  // namespace
}  // namespace lazyfs::fuse
