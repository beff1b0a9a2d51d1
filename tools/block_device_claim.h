// Keeps a block device from being mounted, and from being claimed by another program, during a run.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace lazyfs {

// Holds nothing if the path is no block device: opening an image file locks it. A holder opens the
// device without a claim (Backing::Claim::kNone): the kernel refuses a second claim of the process.
class BlockDeviceClaim {
 public:
  explicit BlockDeviceClaim(const std::string& path) {
    struct stat st {};
    const bool is_block_device = stat(path.c_str(), &st) == 0 && S_ISBLK(st.st_mode);
    if (is_block_device) fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_EXCL);
    is_busy_ = is_block_device && fd_ < 0 && errno == EBUSY;
  }
  ~BlockDeviceClaim() {
    if (fd_ >= 0) close(fd_);
  }
  BlockDeviceClaim(const BlockDeviceClaim&) = delete;
  BlockDeviceClaim& operator=(const BlockDeviceClaim&) = delete;
  bool is_busy() const { return is_busy_; }
  bool is_held() const { return fd_ >= 0; }

 private:
  bool is_busy_ = false;
  int fd_ = -1;
};

}  // namespace lazyfs
