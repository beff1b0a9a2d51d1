// Mounts the memory volume for real, through the daemon and the kernel.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "enable_uring.h"

namespace lazyfs::fuse {

struct Outcome {
  int status = -1;
  std::string text;  // both output streams
};

inline Outcome run(const std::string& command) {
  Outcome outcome;
  FILE* pipe = popen(("{ " + command + "; } 2>&1").c_str(), "re");
  char buffer[4096];
  while (pipe && fgets(buffer, sizeof buffer, pipe)) outcome.text += buffer;
  if (pipe) outcome.status = WEXITSTATUS(pclose(pipe));
  return outcome;
}

class MountTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0 || access("/dev/fuse", R_OK | W_OK) != 0) {
      GTEST_SKIP() << "mounting needs root and /dev/fuse";
    }
    if (by_io_uring() && !EnableUring::is_possible()) GTEST_SKIP() << "no FUSE over io_uring";
    char name[] = "/tmp/lazyfs-mount-test-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    top_ = name;
    mnt_ = top_ + "/mnt";
    std::filesystem::create_directory(mnt_);
  }
  void TearDown() override {
    if (top_.empty()) return;
    if (mounted()) umount2(mnt_.c_str(), MNT_DETACH);
    for (const std::string& loop : loops_) run("losetup -d " + loop);
    std::filesystem::remove_all(top_);
  }

  Outcome mount(const std::string& options = "", const std::string& source = "memory") {
    std::optional<EnableUring> enable;
    if (by_io_uring()) enable.emplace();
    const std::string all = std::string(by_io_uring() ? "transport=io_uring" : "transport=read") +
                            (options.empty() ? "" : "," + options);
    return run(std::string(FUSE_LIMIT) + " --keep-contents -o " + all + " " + source + " " + mnt_);
  }
  // The usual beginning of a test.
  void mount_it(const std::string& options = "") {
    const Outcome outcome = mount(options);
    ASSERT_EQ(outcome.status, 0) << outcome.text;
  }
  static bool by_io_uring() {
    const char* const transport = std::getenv("LAZYFS_TEST_TRANSPORT");
    return transport && std::string(transport) == "io_uring";
  }
  Outcome unmount() { return run("umount " + mnt_); }

  std::string mount_line() const {
    std::ifstream mounts("/proc/mounts");
    for (std::string line; std::getline(mounts, line);) {
      if (line.find(" " + mnt_ + " ") != std::string::npos) return line;
    }
    return "";
  }
  bool mounted() const { return !mount_line().empty(); }
  std::vector<pid_t> daemons() const { return processes(false); }
  std::vector<pid_t> keepers() const { return processes(true); }
  // Whose command lines name our mount point: daemons, or the processes that keep it for them.
  std::vector<pid_t> processes(bool keepers) const {
    std::vector<pid_t> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string name = entry.path().filename();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      std::ostringstream words;  // stays empty when the process ends meanwhile
      words << std::ifstream(entry.path() / "cmdline").rdbuf();
      const std::string line = words.str();
      std::string called;
      std::getline(std::ifstream(entry.path() / "comm"), called);
      if (line.find("fuse_limit") != std::string::npos && line.find(mnt_) != std::string::npos &&
          (called == "lazyfs-keeper") == keepers) {
        found.push_back(std::stoi(name));
      }
    }
    return found;
  }
  void wait_until_no_daemon() const {
    while (!daemons().empty() || !keepers().empty()) usleep(1000);
  }
  std::string loop_device() {
    run("truncate -s 16M " + top_ + "/image");
    std::string loop = run("losetup -f --show " + top_ + "/image").text;
    if (!loop.empty() && loop.back() == '\n') loop.pop_back();
    run("blockdev --setrw " + loop);  // Linux keeps the last user's write protection
    loops_.push_back(loop);
    return loop;
  }

  std::string at(const std::string& name) const { return mnt_ + "/" + name; }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(at(name), std::ios::binary) << text;
  }
  std::string read(const std::string& name) const {
    std::ifstream file(at(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  struct stat status_of(const std::string& name) const {
    struct stat st {};
    EXPECT_EQ(lstat(at(name).c_str(), &st), 0) << name << ": " << strerror(errno);
    return st;
  }

  std::string top_, mnt_;
  std::vector<std::string> loops_;
};

// The call fails, and with this error.
#define EXPECT_ERRNO(error, call)       \
  do {                                  \
    errno = 0;                          \
    EXPECT_EQ((call), -1) << #call;     \
    EXPECT_EQ(errno, (error)) << #call; \
  } while (false)

}  // namespace lazyfs::fuse
