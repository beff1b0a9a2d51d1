// A loop device over a file, for tests that need a block device. Root only.
#pragma once

#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <string>

namespace lazyfs::edi {

// Detached by the kernel when the last user closes it; this is one of them.
class LoopDevice {
 public:
  explicit LoopDevice(const std::string& file) {
    const int file_fd = ::open(file.c_str(), O_RDWR | O_CLOEXEC);
    const int control = ::open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    if (file_fd >= 0 && control >= 0) attach(file_fd, control);
    if (control >= 0) ::close(control);
    if (file_fd >= 0) ::close(file_fd);
  }
  ~LoopDevice() {
    if (fd_ >= 0) ::close(fd_);
  }
  LoopDevice(const LoopDevice&) = delete;
  LoopDevice& operator=(const LoopDevice&) = delete;

  bool works() const { return fd_ >= 0; }
  const std::string& path() const { return path_; }

 private:
  // Somebody else may take the free device between the question and the answer.
  void attach(int file_fd, int control) {
    for (int attempt = 0; attempt < 10 && fd_ < 0; ++attempt) {
      const int number = ::ioctl(control, LOOP_CTL_GET_FREE);
      if (number < 0) return;
      path_ = "/dev/loop" + std::to_string(number);
      const int fd = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
      if (fd < 0) return;
      loop_config config{};
      config.fd = static_cast<unsigned>(file_fd);
      config.info.lo_flags = LO_FLAGS_AUTOCLEAR;
      if (::ioctl(fd, LOOP_CONFIGURE, &config) == 0) {
        fd_ = fd;
      } else {
        ::close(fd);
      }
    }
  }

  int fd_ = -1;
  std::string path_;
};

}  // namespace lazyfs::edi
