#include "fuse/session/unmount.h"

#include <poll.h>
#include <spawn.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/thread.h"

extern char** environ;

namespace lazyfs::fuse {
namespace {

constexpr int kPatienceMs = 5000;

// For daemons of ordinary users, who may not call umount(2).
bool ask_fusermount(const char* flags, const std::string& mount_point) {
  std::string program = "fusermount3", option = flags, end = "--", where = mount_point;
  std::array<char*, 5> words{program.data(), option.data(), end.data(), where.data(), nullptr};
  pid_t child = 0;
  if (posix_spawnp(&child, "fusermount3", nullptr, nullptr, words.data(), environ) != 0) {
    return false;
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void unmount(MountKeeper& keeper, const std::string& mount_point) {
  const int error = keeper.unmount();
  if (error == 0 || error == ENOTCONN) return;
  if (error == EPERM && ask_fusermount("-u", mount_point)) return;
  log::warn("fuse: {} is in use: detaching it", mount_point);
  detach(keeper, mount_point);
}

}  // namespace

void detach(MountKeeper& keeper, const std::string& mount_point) {
  const int error = keeper.detach();
  if (error == 0 || error == ENOTCONN) return;
  if (error == EPERM && ask_fusermount("-uz", mount_point)) return;
  log::error("fuse: {} cannot be unmounted: {}", mount_point, std::strerror(error));
}

Unmounter::Unmounter(std::string mount_point) : mount_point_(std::move(mount_point)) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  signal_fd_ = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  CHECK(signal_fd_ >= 0);
}

Result<std::unique_ptr<Unmounter>> Unmounter::make(std::shared_ptr<MountKeeper> keeper,
                                                   std::string mount_point) {
  std::unique_ptr<Unmounter> made(new Unmounter(mount_point));
  auto work = [its = std::move(keeper), where = std::move(mount_point), order = made->order_] {
    if (wait_for(*order)) unmount(*its, where);
  };
  ASSIGN_OR_RETURN(made->unmounting_, start_thread(std::move(work)));
  return made;
}

Unmounter::~Unmounter() {
  close(signal_fd_);
  if (!unmounting_.joinable()) return;
  if (has_begun_) {  // may still wait for the keeper
    unmounting_.detach();
    return;
  }
  {
    MutexLock lock(order_->mu);
    order_->end = true;
    order_->changed.notify_all();
  }
  unmounting_.join();
}

// True: the thread shall unmount.
bool Unmounter::wait_for(Order& order) {
  MutexLock lock(order.mu);
  while (!order.unmount && !order.end) order.changed.wait(order.mu);
  return order.unmount;
}

bool Unmounter::wait_for_end(int ended_fd) {
  int patience_ms = -1;
  while (true) {
    pollfd wait[] = {{.fd = ended_fd, .events = POLLIN}, {.fd = signal_fd_, .events = POLLIN}};
    const int got = poll(wait, std::size(wait), patience_ms);
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) {
      log::warn("fuse: {} is still in use; ending nevertheless", mount_point_);
      return false;
    }
    if (wait[0].revents != 0) return true;
    signalfd_siginfo signal{};
    if (read(signal_fd_, &signal, sizeof signal) != sizeof signal) continue;
    log::info("fuse: signal {}: unmounting {}", signal.ssi_signo, mount_point_);
    has_begun_ = true;
    MutexLock lock(order_->mu);
    order_->unmount = true;
    order_->changed.notify_all();
    patience_ms = kPatienceMs;
  }
}

}  // namespace lazyfs::fuse
