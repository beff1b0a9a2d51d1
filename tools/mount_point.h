// An open mount of lazyfs, to which programs send control requests (fuse/requests/control.h).
#pragma once

#include <string>

namespace lazyfs {

// All functions throw std::runtime_error with "what: why". Not thread-safe.
class MountPoint {
 public:
  explicit MountPoint(std::string path);  // a directory on the mount
  ~MountPoint();
  MountPoint(const MountPoint&) = delete;
  MountPoint& operator=(const MountPoint&) = delete;

  // Sends one request. `argument`: what the request `code` takes, or nullptr.
  void request(unsigned long code, void* argument);
  // Makes everything durable: the kernel sends its dirty pages to the daemon, then the daemon
  // syncs.
  void sync();
  // What docs/stats.md describes, as JSON.
  std::string stats();

 private:
  const std::string path_;
  const int fd_;
};

}  // namespace lazyfs
