// Linux' switch for FUSE over io_uring, for tests that mount.
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace lazyfs::fuse {

// While this exists, the kernel offers new mounts to send requests by io_uring. A mount keeps what
// it was offered. Tests that run at the same time wait for each other.
class EnableUring {
 public:
  EnableUring() : lock_(open("/run/lazyfs-test-uring.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    flock(lock_, LOCK_EX);
    std::ifstream(kParameter) >> before_;
    std::ofstream(kParameter) << "Y" << std::flush;
  }
  ~EnableUring() {
    std::ofstream(kParameter) << before_ << std::flush;
    close(lock_);
  }
  EnableUring(const EnableUring&) = delete;
  EnableUring& operator=(const EnableUring&) = delete;

  static bool is_possible() { return geteuid() == 0 && access(kParameter, W_OK) == 0; }

 private:
  static constexpr const char* kParameter = "/sys/module/fuse/parameters/enable_uring";
  const int lock_;
  std::string before_;
};

}  // namespace lazyfs::fuse
