#include "fuse/session/confine.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <fstream>
#include <string>
#include <thread>

namespace lazyfs::fuse {
namespace {

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

// The filter stays with the process that has it, so it is tried in a child.
class ConfineTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root's daemons are confined";
  }

  // What `call` leaves in errno in a child; 0 when it succeeds.
  template <class Call>
  static int in_child(const Call& call) {
    const pid_t child = fork();
    if (child == 0) {
      errno = 0;
      _exit(call() < 0 ? errno : 0);
    }
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status)) << status;
    return WEXITSTATUS(status);
  }
  // The same of a confined child.
  template <class Call>
  static int tried(const Call& call) {
    return in_child([&] {
      confine();
      errno = 0;
      return call();
    });
  }
  template <class... Arguments>
  static int tried_call(long number, Arguments... arguments) {
    return tried([&] { return syscall(number, arguments...); });
  }
};

// The sets of this process, as /proc/self/status lists them.
std::uint64_t capabilities(const std::string& set) {
  std::ifstream status("/proc/self/status");
  for (std::string name, value; status >> name && std::getline(status, value);) {
    if (name == set + ":") return std::stoull(value, nullptr, 16);
  }
  return ~std::uint64_t{0};
}

TEST_F(ConfineTest, FourCapabilitiesAtMostRemainInEachSet) {
  std::uint64_t kept = 0;
  for (const int capability :
       {CAP_SYS_ADMIN, CAP_SYS_PTRACE, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH}) {
    kept |= std::uint64_t{1} << capability;
  }
  const auto surplus = [kept] {
    drop_capabilities();
    std::uint64_t all = capabilities("CapInh");
    for (const char* set : {"CapPrm", "CapEff", "CapBnd"}) all |= capabilities(set);
    errno = E2BIG;
    return (all & ~kept) == 0 ? 0 : -1;
  };
  EXPECT_EQ(in_child(surplus), 0);
}

TEST_F(ConfineTest, OtherProcessesGetNoSignal) {
  const pid_t other = getpid();
  siginfo_t info{};
  info.si_code = SI_QUEUE;
  EXPECT_EQ(tried_call(SYS_kill, other, 0), EPERM);
  EXPECT_EQ(tried_call(SYS_tkill, other, 0), EPERM);
  EXPECT_EQ(tried_call(SYS_tgkill, other, other, 0), EPERM);
  EXPECT_EQ(tried_call(SYS_rt_sigqueueinfo, other, 0, &info), EPERM);
  EXPECT_EQ(tried_call(SYS_pidfd_send_signal, -1, 0, nullptr, 0), EPERM);
  EXPECT_EQ(tried([] { return syscall(SYS_tgkill, getpid(), gettid(), 0); }), 0);
}

TEST_F(ConfineTest, ModesAndMountsCannotBeChanged) {
  EXPECT_EQ(tried_call(SYS_fchmodat, AT_FDCWD, "/", 0755), EPERM);
  EXPECT_EQ(tried_call(SYS_setxattr, "/none", "system.posix_acl_access", "", 0, 0), EPERM);
  EXPECT_EQ(tried_call(SYS_fsetxattr, -1, "system.posix_acl_access", "", 0, 0), EPERM);
  EXPECT_EQ(tried_call(SYS_mount_setattr, -1, "", 0, nullptr, 0), EPERM);
  EXPECT_EQ(tried_call(SYS_umount2, "/none", 0), EPERM);
}

TEST_F(ConfineTest, CallsThatAreNewerThanTheFilterAreUnknown) {
  constexpr long kFchmodat2 = 452;
  EXPECT_EQ(tried_call(kFchmodat2, AT_FDCWD, "/none", 0755, 0), ENOSYS);
}

TEST_F(ConfineTest, CallsThatServingNeedsWork) {
  EXPECT_EQ(tried([] { return open("/dev/null", O_RDONLY | O_CLOEXEC); }), 0);
  EXPECT_EQ(tried([] { return open("/dev/null", O_RDWR | O_CLOEXEC); }), EACCES);
  EXPECT_EQ(tried([] { return socket(AF_UNIX, SOCK_DGRAM, 0); }), 0);
  EXPECT_EQ(tried([] { return socket(AF_INET, SOCK_DGRAM, 0); }), EPERM);
  EXPECT_EQ(tried([] {
              int result = -1;
              std::thread([&] { result = 0; }).join();
              return result;
            }),
            0);
}

#endif

}  // namespace
}  // namespace lazyfs::fuse
