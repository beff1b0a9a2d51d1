// A loop device over its own sparse file, for tests that need a real block device. The destructor
// detaches the device and removes the file. If the test dies, the kernel detaches the device.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

namespace lazyfs {

// Returns LAZYFS_TEST_DIR, or else TMPDIR, or else /tmp.
inline std::string test_directory() {
  for (const char* name : {"LAZYFS_TEST_DIR", "TMPDIR"}) {
    if (const char* value = std::getenv(name); value && *value) return value;
  }
  return "/tmp";
}

class LoopDevice {
 public:
  // Returns null if this machine has no loop device for the test. The running test fails then if it
  // has the right to one, root with /dev/loop-control, so that a skipped test hides no fault. The
  // device has sectors of `sector_bytes`. With `direct` the loop driver bypasses
  // the page cache. The file is in `folder`.
  static std::unique_ptr<LoopDevice> make(std::uint64_t size_bytes, bool direct = false,
                                          std::uint32_t sector_bytes = 512,
                                          const std::string& folder = test_directory()) {
    std::string file = folder + "/lazyfs-loop-XXXXXX";
    const int backing = mkostemp(file.data(), O_CLOEXEC);
    if (backing < 0) return nullptr;
    std::unique_ptr<LoopDevice> device;
    if (ftruncate(backing, static_cast<off_t>(size_bytes)) == 0) {
      device = attach(backing, direct, sector_bytes);
    }
    unlink(file.c_str());  // the loop device keeps it alive
    if (device) {
      device->file_ = backing;
    } else {
      close(backing);
      if (geteuid() == 0 && access("/dev/loop-control", F_OK) == 0) {
        ADD_FAILURE() << "root cannot set up a loop device, although /dev/loop-control exists";
      }
    }
    return device;
  }

  // Sets or clears the device's write protection. Returns false on an error.
  bool protect(bool protection) {
    const int value = protection ? 1 : 0;
    return ioctl(fd_, BLKROSET, &value) == 0;
  }

  // What the file takes on its file system.
  std::uint64_t allocated_bytes() const {
    struct stat st {};
    return fstat(file_, &st) == 0 ? static_cast<std::uint64_t>(st.st_blocks) * 512 : 0;
  }
  // Truncates the file: reads past its end then fail.
  bool cut_file(std::uint64_t size_bytes) {
    return ftruncate(file_, static_cast<off_t>(size_bytes)) == 0;
  }

  ~LoopDevice() {
    protect(false);
    if (file_ >= 0) close(file_);
    ioctl(fd_, LOOP_CLR_FD, 0);  // if the device is busy, LO_FLAGS_AUTOCLEAR detaches it at close
    close(fd_);
  }
  LoopDevice(const LoopDevice&) = delete;
  LoopDevice& operator=(const LoopDevice&) = delete;

  const std::string& path() const { return path_; }

 private:
  LoopDevice(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}

  static std::unique_ptr<LoopDevice> attach(int backing, bool direct, std::uint32_t sector_bytes) {
    const int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    if (control < 0) return nullptr;
    std::unique_ptr<LoopDevice> device;
    // Another process may take or remove the free device before this one opens or sets it up. While
    // it sets it up, the device still counts as free.
    for (int attempt = 0; !device && attempt < 100; ++attempt) {
      if (attempt > 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      const int number = ioctl(control, LOOP_CTL_GET_FREE);
      if (number < 0) break;
      const std::string path = "/dev/loop" + std::to_string(number);
      const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
      if (fd < 0) continue;
      loop_config config{};
      config.fd = static_cast<std::uint32_t>(backing);
      config.block_size = sector_bytes;
      config.info.lo_flags = LO_FLAGS_AUTOCLEAR | (direct ? std::uint32_t{LO_FLAGS_DIRECT_IO} : 0u);
      if (ioctl(fd, LOOP_CONFIGURE, &config) == 0) {
        device.reset(new LoopDevice(fd, path));
        device->protect(false);  // Linux keeps the write protection of the device's previous user
      } else {
        close(fd);
      }
    }
    close(control);
    return device;
  }

  const int fd_;
  int file_ = -1;
  const std::string path_;
};

}  // namespace lazyfs
