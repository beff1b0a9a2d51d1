// One mount: libfuse's session, the transport beneath it, and the end of both.
//
// An unmount ends in one of two ways. A block device's mount (fuseblk) sends DESTROY and lets
// umount(2) wait for the answer: the session takes no more requests, finishes the running ones, and
// answers only when the volume is closed (farewell()). Any other mount ends at once, and umount(2)
// does not wait. Not thread-safe: belongs to the thread that made it.
//
// Where requests come by io_uring, /dev/fuse is read all the same: INIT, FORGET and INTERRUPT come
// there, and all requests if the rings cannot begin.
#pragma once

#include <atomic>
#include <expected>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "fs/volume/volume.h"
#include "fuse/requests/context.h"
#include "fuse/session/mount_keeper.h"
#include "fuse/session/options.h"
#include "fuse/session/unmount.h"
#include "fuse/transport/ring_transport.h"
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
  // serve(). `keeper`: unmounts and remounts the mount point. Error: the reason, as a sentence.
  static std::expected<std::unique_ptr<Session>, std::string> mount(
      fs::Volume& volume, const SessionOptions& options, const MountPlace& place,
      std::shared_ptr<MountKeeper> keeper);
  ~Session();  // unmounts what is still mounted
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Returns when the mount has ended: by umount, or by SIGTERM, SIGINT or SIGHUP. Afterwards no
  // request is running and none will come. REQUIRES: these signals are blocked in all threads.
  void serve();
  // Answers DESTROY, so that a waiting umount(2) returns. REQUIRES: serve() has returned.
  void farewell();

 private:
  Session(fs::Volume& volume, const SessionOptions& options, const MountPlace& place,
          std::shared_ptr<MountKeeper> keeper);

  std::expected<void, std::string> make_threads();
  std::expected<void, std::string> attach();
  void prepare_rings();
  void begin_rings();
  void amend_init(const Request& request, std::span<const iovec> answer);
  ssize_t send(std::span<const iovec> pieces);
  void handle(const Request& request);
  void raise_read_ahead() const;
  void set_ready();
  bool wait_until_ready();
  Json transport_json() const;

  const SessionOptions options_;
  const MountPlace place_;
  const std::shared_ptr<MountKeeper> keeper_;
  RequestContext context_;
  ::fuse_session* session_ = nullptr;
  int fd_ = -1;
  bool mounted_ = false;
  std::atomic<std::uint64_t> destroy_unique_{0};  // of the DESTROY to be answered; 0: none
  std::unique_ptr<Unmounter> unmounter_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<RingTransport> rings_;  // constant once transport_ has started; may be null
  bool rings_agreed_ = false;             // with the kernel, in the answer to INIT
  std::atomic<bool> rings_carry_{false};  // requests; for statistics

  Mutex mu_;  // leaf
  CondVar ready_changed_;
  bool ready_ GUARDED_BY(mu_) = false;
};

}  // namespace lazyfs::fuse
