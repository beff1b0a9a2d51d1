#include "profiler/handlers.h"

#include "profiler/filesystem.h"

namespace lazyfs::profiler {

namespace {

constexpr unsigned kWriteBytesMax = 1 << 20, kClassicWriteBytesMax = 128 << 10;

// Never: FUSE_CAP_HANDLE_KILLPRIV. The kernel clears the set-user-ID bit of a file that is written,
// because the daemon's writes, which are root's, do not. Nor FUSE_CAP_ASYNC_DIO: after asynchronous
// direct writes, cached reads return the old data.
constexpr unsigned kClassicFeatures = FUSE_CAP_ASYNC_READ;
constexpr unsigned kFeatures = FUSE_CAP_ASYNC_READ | FUSE_CAP_PARALLEL_DIROPS |
                               FUSE_CAP_ATOMIC_O_TRUNC | FUSE_CAP_IOCTL_DIR |
                               FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO |
                               FUSE_CAP_CACHE_SYMLINKS | FUSE_CAP_POSIX_ACL | FUSE_CAP_DONT_MASK;

void init(void* user_data, fuse_conn_info* connection) {
  auto& filesystem = *static_cast<Filesystem*>(user_data);
  const bool is_classic = filesystem.settings().is_classic;
  unsigned features = is_classic ? kClassicFeatures : kFeatures;
  // Only root can read a file whose owner may only write it.
  if (!is_classic && ::geteuid() == 0) features |= FUSE_CAP_WRITEBACK_CACHE;
  connection->want = features & connection->capable;
  connection->max_write = is_classic ? kClassicWriteBytesMax : kWriteBytesMax;
  connection->time_gran = 1;
  filesystem.set_write_cache(connection->want & FUSE_CAP_WRITEBACK_CACHE);
}

}  // namespace

fuse_lowlevel_ops handlers(bool is_classic) {
  fuse_lowlevel_ops all{};
  all.init = init;
  set_name_handlers(all);
  set_attribute_handlers(all);
  set_file_handlers(all);
  set_directory_handlers(all);
  if (is_classic) {
    all.create = nullptr;  // the kernel sends mknod and open instead
    all.readdirplus = nullptr;
    all.fallocate = nullptr;
    all.copy_file_range = nullptr;
    all.ioctl = nullptr;
  }
  return all;
}

}  // namespace lazyfs::profiler
