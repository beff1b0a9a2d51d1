// The keeper of a mount that nobody serves. The kernel tells by the descriptor of /dev/fuse whether
// the connection has ended.
#include "fuse/session/mount_keeper.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "base/thread.h"
#include "fuse/session/mount_table.h"
#include "test/support/test_folder.h"

namespace lazyfs::fuse {
namespace {

// As a breakpoint that no debugger has set.
void raise_trap() {
#if defined(__x86_64__)
  asm volatile("int3");
#else
  raise(SIGTRAP);
#endif
}

class MountKeeperTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root may mount";
    fuse_ = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (fuse_ < 0) GTEST_SKIP() << "no /dev/fuse";
    close(fuse_);
    std::filesystem::create_directory(mount_point_);
    mount_it();
    prctl(PR_SET_CHILD_SUBREAPER, 1);  // the keeper becomes this process's child
  }
  void TearDown() override {
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    if (is_mounted()) umount2(mount_point_.c_str(), MNT_DETACH);
    if (fuse_ >= 0) close(fuse_);
  }
  void mount_it() {
    fuse_ = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    ASSERT_GE(fuse_, 0);
    const std::string options =
        "fd=" + std::to_string(fuse_) + ",rootmode=40000,user_id=0,group_id=0";
    ASSERT_EQ(mount("keeper-test", mount_point_.c_str(), "fuse", 0, options.c_str()), 0);
  }
  // Of this process; they were stopped.
  static void continue_children() {
    std::ifstream children("/proc/self/task/" + std::to_string(getpid()) + "/children");
    for (pid_t child = 0; children >> child;) kill(child, SIGCONT);
  }
  KeeperPlan plan() const {
    return {mount_point_, "", "", {"/bin/sh", "-c", "touch " + restarted_}};
  }
  // A process that has a keeper and ends by `work`. Returns when the keeper has ended, too.
  template <typename Work>
  void run_daemon(Work work) {
    if (const pid_t daemon = fork(); daemon == 0) {
      MountKeeper keeper(plan());
      keeper.note_mount();
      work(keeper);
      raise(SIGKILL);
    }
    while (wait(nullptr) > 0) {
    }
  }
  bool is_mounted() const { return mount_at(mount_point_).has_value(); }
  bool is_connected(int timeout_ms = 0) const {
    pollfd wait{.fd = fuse_, .events = 0, .revents = 0};
    return poll(&wait, 1, timeout_ms) == 0;
  }
  bool was_restarted() const { return std::filesystem::exists(restarted_); }

  static constexpr const char* kConnections = "/sys/fs/fuse/connections";
  const TestFolder folder_;
  const std::string mount_point_ = (folder_ / "mnt").string(),
                    restarted_ = (folder_ / "restarted").string();
  int fuse_ = -1;
};

TEST_F(MountKeeperTest, EndsTheConnectionOfAKilledDaemonAndMountsAgain) {
  run_daemon([](MountKeeper&) {});
  EXPECT_FALSE(is_connected());
  EXPECT_TRUE(was_restarted());
}

// The killed daemon has a thread that waits for the kernel, and the kernel for the daemon.
TEST_F(MountKeeperTest, EndsTheConnectionOfAKilledDaemonWhoseMountIsDetached) {
  const bool was_controlled = mount_at(kConnections).has_value();
  const int hold = open(mount_point_.c_str(), O_PATH | O_CLOEXEC);
  const pid_t daemon = fork();
  if (daemon == 0) {
    MountKeeper keeper(plan());
    keeper.note_mount();
    umount2(mount_point_.c_str(), MNT_DETACH);
    std::thread([] { pause(); }).detach();
    syscall(SYS_exit, 0);  // this thread only
  }
  constexpr int kLongMs = 60'000;
  EXPECT_FALSE(is_connected(kLongMs));
  kill(daemon, SIGKILL);
  while (wait(nullptr) > 0) {
  }
  close(hold);
  if (!was_controlled) umount2(kConnections, 0);  // the keeper has mounted it
  EXPECT_FALSE(was_restarted()) << "though somebody has unmounted it";
}

// Another volume may be mounted there while the first one's daemon still closes its volume. The
// kernel gives the new mount the numbers of the old one.
TEST_F(MountKeeperTest, ADaemonThatDiesAfterItsMountLeavesTheNextMountAlone) {
  run_daemon([](MountKeeper& keeper) { keeper.note_end(); });
  EXPECT_TRUE(is_connected());
  EXPECT_TRUE(is_mounted());
  EXPECT_FALSE(was_restarted());
}

// The daemon's other threads may notice the end of the connection before the daemon dies.
TEST_F(MountKeeperTest, MountsAgainAfterACrashAlthoughTheDaemonHasSeenTheConnectionEnd) {
  run_daemon([this](MountKeeper& keeper) {
    keeper.watch_crashes();
    pid_t child = fork();  // the handler of its signal reports a crash, and the daemon lives
    if (child == 0) raise(SIGABRT);
    while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
    constexpr int kLongMs = 60'000;
    if (is_connected(kLongMs)) _exit(1);
    keeper.note_end();
    keeper.remember("atime");  // returns when the keeper has read the note
  });
  EXPECT_TRUE(was_restarted());
}

// Not only a fault of an instruction, which comes again, must end the daemon.
TEST_F(MountKeeperTest, ATrapEndsTheDaemon) {
  int status = 0;
  const pid_t daemon = fork();
  if (daemon == 0) {
    MountKeeper keeper(plan());
    keeper.note_mount();
    keeper.watch_crashes();
    raise_trap();
    _exit(0);
  }
  EXPECT_EQ(waitpid(daemon, &status, 0), daemon);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTRAP) << status;
  while (wait(nullptr) > 0) {
  }
  EXPECT_TRUE(was_restarted());
}

// Without this a sanitizer's handlers would exit instead.
void let_faults_kill() {
  for (const int signal : {SIGSEGV, SIGBUS}) std::signal(signal, SIG_DFL);
}

TEST_F(MountKeeperTest, AMemoryErrorThatNothingHasMetEndsTheDaemon) {
  int status = 0;
  const pid_t daemon = fork();
  if (daemon == 0) {
    let_faults_kill();
    MountKeeper keeper(plan());
    keeper.note_mount();
    keeper.watch_crashes();
    siginfo_t info{};
    info.si_signo = SIGBUS;
    info.si_code = BUS_MCEERR_AO;
    syscall(SYS_rt_sigqueueinfo, getpid(), SIGBUS, &info);
    _exit(0);
  }
  EXPECT_EQ(waitpid(daemon, &status, 0), daemon);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS) << status;
  while (wait(nullptr) > 0) {
  }
  EXPECT_TRUE(was_restarted());
}

[[gnu::noinline]] int overflow(volatile char* above) {
  volatile char more[1024];
  more[0] = above ? *above : char{0};
  return more[0] != 0 ? 0 : overflow(more) + more[0];
}

// A core is dumped before the daemon's threads end. This process keeps /dev/fuse open, so that only
// the keeper ends the connection.
TEST_F(MountKeeperTest, TheConnectionEndsBeforeADaemonThatCrashes) {
  const std::array<void (*)(), 3> crashes{[] { std::abort(); }, [] { raise(SIGSEGV); },
                                          [] {
                                            start_thread([] { overflow(nullptr); })->join();
                                          }};
  constexpr std::size_t kRounds = 15;
  for (std::size_t round = 0; round < kRounds; ++round) {
    const pid_t daemon = fork();
    if (daemon == 0) {
      let_faults_kill();
      const rlimit none{};
      setrlimit(RLIMIT_CORE, &none);
      MountKeeper keeper({mount_point_, "", ""});
      keeper.note_mount();
      keeper.watch_crashes();
      crashes[round % crashes.size()]();
    }
    int status = 0;
    waitpid(daemon, &status, 0);
    EXPECT_FALSE(is_connected()) << "round " << round;
    EXPECT_TRUE(WIFSIGNALED(status)) << status;
    while (wait(nullptr) > 0) {
    }
    umount2(mount_point_.c_str(), MNT_DETACH);
    close(fuse_);
    mount_it();
  }
}

// The keeper hangs, or has been killed.
TEST_F(MountKeeperTest, ACrashDoesNotDependOnTheKeeper) {
  for (const int signal : {SIGSTOP, SIGKILL}) {
    pid_t keeper_process = 0;
    int status = 0;
    const pid_t daemon = fork();
    if (daemon == 0) {
      MountKeeper keeper({mount_point_, "", ""});
      keeper.watch_crashes();
      std::ifstream children("/proc/self/task/" + std::to_string(getpid()) + "/children");
      children >> keeper_process;
      if (kill(keeper_process, signal) != 0) _exit(1);
      raise(SIGABRT);
    }
    EXPECT_EQ(waitpid(daemon, &status, 0), daemon);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT) << status;
    if (signal == SIGSTOP) continue_children();
    while (wait(nullptr) > 0) {
    }
  }
}

// The kernel gives the next mount the short number of the old one.
TEST_F(MountKeeperTest, AMountThatTakesThePlaceAtOnceIsLeftAlone) {
  run_daemon([this](MountKeeper&) {
    close(fuse_);
    umount2(mount_point_.c_str(), MNT_DETACH);
    if (::mount("tmpfs", mount_point_.c_str(), "tmpfs", 0, nullptr) != 0) _exit(1);
    if (::mount(nullptr, mount_point_.c_str(), nullptr, MS_REMOUNT, nullptr) != 0) _exit(1);
  });
  EXPECT_FALSE(was_restarted());
  ASSERT_TRUE(is_mounted());
  MountKeeper keeper(plan());
  keeper.note_mount();
  umount2(mount_point_.c_str(), MNT_DETACH);
  ASSERT_EQ(::mount("tmpfs", mount_point_.c_str(), "tmpfs", 0, nullptr), 0);
  EXPECT_EQ(keeper.unmount(), ENOTCONN);
  EXPECT_TRUE(is_mounted());
}

TEST_F(MountKeeperTest, AMountThatReplacesADetachedOneIsLeftAlone) {
  MountKeeper keeper(plan());
  keeper.note_mount();
  const int hold = open(mount_point_.c_str(), O_PATH | O_CLOEXEC);
  ASSERT_EQ(umount2(mount_point_.c_str(), MNT_DETACH), 0);
  EXPECT_EQ(keeper.unmount(), ENOTCONN);
  ASSERT_EQ(mount("tmpfs", mount_point_.c_str(), "tmpfs", 0, nullptr), 0);
  EXPECT_EQ(keeper.unmount(), ENOTCONN);
  EXPECT_EQ(keeper.detach(), ENOTCONN);
  EXPECT_EQ(keeper.remount_read_only(0), ENOTCONN);
  const auto mount = mount_at(mount_point_);
  close(hold);
  ASSERT_TRUE(mount);
  EXPECT_EQ(mount->filesystem_flags & MS_RDONLY, 0u);
}

TEST_F(MountKeeperTest, NobodyCanHaveTheNextMountUnmountedOrMadeReadOnly) {
  MountKeeper keeper(plan());
  keeper.note_mount();
  keeper.note_end();
  EXPECT_EQ(keeper.unmount(), ENOTCONN);
  EXPECT_EQ(keeper.detach(), ENOTCONN);
  EXPECT_EQ(keeper.remount_read_only(0), ENOTCONN);
  const auto mount = mount_at(mount_point_);
  ASSERT_TRUE(mount);
  EXPECT_EQ(mount->filesystem_flags & MS_RDONLY, 0u);
}

}  // namespace
}  // namespace lazyfs::fuse
