#include "tools/mount_point.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "fuse/requests/control.h"
#include "tools/volume_commands.h"

namespace lazyfs {

MountPoint::MountPoint(std::string path)
    : path_(std::move(path)), fd_(open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECTORY)) {
  if (fd_ < 0) fail_with(path_, std::strerror(errno));
}

MountPoint::~MountPoint() { close(fd_); }

void MountPoint::request(unsigned long code, void* argument) {
  if (ioctl(fd_, code, argument) == 0) return;
  if (errno == ENOTTY) fail_with(path_, "no lazyfs is mounted there");
  if (errno == EPERM) {
    fail_with(path_, "only root may do that, or, for gc and scrub, the owner of the mount");
  }
  fail_with(path_, std::strerror(errno));
}

void MountPoint::sync() {
  // If a program is killed while the kernel sends an inode's times for it, the next syncfs(2)
  // returns EINTR, although it has done its work.
  int result = 0;
  do {
    result = syncfs(fd_);
  } while (result != 0 && errno == EINTR);
  if (result != 0) fail_with(path_, std::strerror(errno));
  request(fuse::kSyncRequest, nullptr);
}

std::string MountPoint::stats() {
  std::string text;
  fuse::StatsPiece piece;
  do {
    piece.offset = static_cast<std::uint32_t>(text.size());
    request(fuse::kStatsRequest, &piece);
    if (piece.length > sizeof piece.text) fail_with(path_, "the daemon's answer is damaged");
    text.append(piece.text, piece.length);
  } while (piece.length > 0 && text.size() < piece.total);
  return text;
}

}  // namespace lazyfs
