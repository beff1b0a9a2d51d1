// One mount: libfuse's session, the transport beneath it, and the end of both.
//
// An unmount ends in one of two ways. A block device's mount (fuseblk) sends DESTROY and lets
// umount(2) wait for the answer; we take no more requests, finish the running ones, and answer only
// once the volume is closed: farewell(). Any other mount just ends, and umount(2) does not wait.
// Not thread-safe: belongs to the thread that made it.
#pragma once

#include <atomic>
#include <expected>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "fs/volume/volume.h"
#include "fuse/requests/face.h"
#include "fuse/session/mount_keeper.h"
#include "fuse/session/options.h"
#include "fuse/transport/transport.h"

namespace lazyfs::fuse {

struct MountPlace {
  std::string source;       // absolute path of the device or image, shown in /proc/mounts
  std::string mount_point;  // absolute
  bool block_device = false;
};

class Session {
 public:
  // Mounts and serves: when this returns, the mount is usable. `volume` must outlive the session's
  // serve(); `keeper` keeps the mount point. Error: the reason, as a sentence.
  static std::expected<std::unique_ptr<Session>, std::string> mount(
      fs::Volume& volume, const SessionOptions& options, const MountPlace& place,
      std::shared_ptr<MountKeeper> keeper);
  ~Session();  // leaves no mount behind
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Until the mount has gone, by umount or because SIGTERM, SIGINT or SIGHUP (which the caller has
  // blocked in all threads) asked for it. Afterwards no request is running and none will come.
  void serve();
  // Lets an umount(2) that waits return. Requires that serve() has returned.
  void farewell();

 private:
  Session(fs::Volume& volume, const SessionOptions& options, const MountPlace& place,
          std::shared_ptr<MountKeeper> keeper);

  std::expected<void, std::string> attach();
  void handle(const Request& request);
  void raise_read_ahead() const;
  void set_ready();
  bool wait_until_ready();
  std::string transport_json() const;

  const MountPlace place_;
  const std::shared_ptr<MountKeeper> keeper_;
  Face face_;
  ::fuse_session* session_ = nullptr;
  int fd_ = -1;
  bool mounted_ = false;
  std::atomic<std::uint64_t> destroy_unique_{0};  // the DESTROY that waits for its answer; 0: none
  std::unique_ptr<Transport> transport_;

  Mutex mu_;  // leaf
  CondVar ready_changed_;
  bool ready_ GUARDED_BY(mu_) = false;
};

}  // namespace lazyfs::fuse
