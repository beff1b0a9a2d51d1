#include "fuse/session/read_only_remounter.h"

#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/log.h"
#include "base/thread.h"
#include "fuse/session/mount_table.h"

namespace lazyfs::fuse {
namespace {

constexpr auto kTryAgainAfter = std::chrono::seconds(1);

}  // namespace

Result<> ReadOnlyRemounter::start() {
  ASSIGN_OR_RETURN(thread_, start_thread([this] { run(); }));
  return ok();
}

void ReadOnlyRemounter::note_mount() {
  MutexLock lock(mu_);
  mounted_ = true;
  changed_.notify_all();
}

ReadOnlyRemounter::~ReadOnlyRemounter() {
  {
    MutexLock lock(mu_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void ReadOnlyRemounter::ask() {
  MutexLock lock(mu_);
  asked_ = true;
  changed_.notify_all();
}

ReadOnlyRemounter::Outcome ReadOnlyRemounter::remount() const {
  const auto mount = mount_at(mount_point_);
  if (!mount) return Outcome::kDone;  // unmounted
  const int error = keeper_->remount_read_only(mount->flags);
  if (error == 0) {
    log::warn("{} is mounted read-only now", mount_point_);
    return Outcome::kDone;
  }
  if (error == EBUSY) return Outcome::kLater;
  if (error == ENOTCONN) return Outcome::kDone;  // unmounted, or covered
  log::warn("{} cannot be remounted read-only, but nothing is written any more: {}", mount_point_,
            std::strerror(error));
  return Outcome::kDone;
}

void ReadOnlyRemounter::run() {
  {
    MutexLock lock(mu_);
    while (!(asked_ && mounted_) && !stopping_) changed_.wait(mu_);
    if (!asked_ || !mounted_) return;
  }
  if (!report_()) return;
  for (bool first = true;; first = false) {
    {
      MutexLock lock(mu_);
      if (stopping_) return;
    }
    if (remount() == Outcome::kDone) return;
    if (first) {
      log::warn("{} is shown as read-only as soon as no file is open for writing", mount_point_);
    }
    MutexLock lock(mu_);
    if (!stopping_) changed_.wait_for(mu_, kTryAgainAfter);
  }
}

}  // namespace lazyfs::fuse
