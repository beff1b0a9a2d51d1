#include "fuse/requests/operations.h"

#include "fuse/requests/handlers.h"

namespace lazyfs::fuse {
namespace {

// Requests that no caller waits for, such as read-ahead and write-back. Fewer than workers, so that
// writes that wait for memory or space leave some workers to other requests.
constexpr unsigned kMaxBackground = 24;
constexpr unsigned kCongestionThreshold = 18;
// Of FUSE's protocol, first in Linux 5.14. (5.13 has the checks too, and the protocol of 5.12.)
constexpr unsigned kMinorOfFlagChecks = 34;

// Asks the kernel for useful features, as far as it has them.
void init(void* user_data, fuse_conn_info* connection) {
  RequestContext& context = *static_cast<RequestContext*>(user_data);
  RequestSettings& settings = context.settings;
  unsigned want = FUSE_CAP_ASYNC_READ | FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_READDIRPLUS |
                  FUSE_CAP_IOCTL_DIR | FUSE_CAP_CACHE_SYMLINKS | FUSE_CAP_EXPLICIT_INVAL_DATA |
                  FUSE_CAP_EXPORT_SUPPORT | FUSE_CAP_POSIX_ACL | FUSE_CAP_DONT_MASK;
  if (settings.writeback_cache) want |= FUSE_CAP_WRITEBACK_CACHE;
  const unsigned no_opens = FUSE_CAP_NO_OPEN_SUPPORT | FUSE_CAP_NO_OPENDIR_SUPPORT;
  if ((connection->capable & no_opens) != no_opens) settings.announce_opens = true;
  if (!settings.announce_opens) want |= no_opens;
  // Not wanted: ASYNC_DIO. After an asynchronous direct write the kernel drops no cached page of
  // the range, so that readers could see old data for ever, and sends no FSYNC for O_DSYNC.
  // Not wanted, though libfuse would: READDIRPLUS_AUTO (lookups after a readdir without them cost
  // more than they save), AUTO_INVAL_DATA (no other writer exists), ATOMIC_O_TRUNC (needs opens).
  connection->want = want & connection->capable;
  context.kernel_checks_flags = connection->proto_minor >= kMinorOfFlagChecks;
  connection->max_background = kMaxBackground;
  connection->congestion_threshold = kCongestionThreshold;
  connection->time_gran = 1;
}

fuse_lowlevel_ops make_operations() {
  fuse_lowlevel_ops ops{};
  ops.init = init;
  ops.lookup = handlers::lookup;
  ops.forget = handlers::forget;
  ops.forget_multi = handlers::forget_multi;
  ops.mknod = handlers::mknod;
  ops.mkdir = handlers::mkdir;
  ops.symlink = handlers::symlink;
  ops.readlink = handlers::readlink;
  ops.link = handlers::link;
  ops.unlink = handlers::unlink;
  ops.rmdir = handlers::rmdir;
  ops.rename = handlers::rename;
  ops.getattr = handlers::getattr;
  ops.setattr = handlers::setattr;
  ops.statfs = handlers::statfs;
  ops.setxattr = handlers::setxattr;
  ops.getxattr = handlers::getxattr;
  ops.listxattr = handlers::listxattr;
  ops.removexattr = handlers::removexattr;
  ops.create = handlers::create;
  ops.open = handlers::open;
  ops.read = handlers::read;
  ops.write = handlers::write;
  ops.flush = handlers::flush;
  ops.release = handlers::release;
  ops.fsync = handlers::fsync;
  ops.opendir = handlers::opendir;
  ops.releasedir = handlers::releasedir;
  ops.readdir = handlers::readdir;
  ops.readdirplus = handlers::readdirplus;
  ops.fsyncdir = handlers::fsyncdir;
  ops.ioctl = handlers::ioctl;
  ops.fallocate = handlers::fallocate;
  ops.lseek = handlers::lseek;
  ops.copy_file_range = handlers::copy_file_range;
  return ops;
}

}  // namespace

const fuse_lowlevel_ops& operations() {
  static const fuse_lowlevel_ops table = make_operations();
  return table;
}

}  // namespace lazyfs::fuse
