#include "fuse/requests/convert.h"

namespace lazyfs::fuse {
namespace {

// Programs size their buffers by st_blksize; larger ones make fewer requests.
constexpr blksize_t kPreferredIoBytes = 128 << 10;

timespec to_timespec(Timestamp t) {
  return {.tv_sec = static_cast<time_t>(t.seconds), .tv_nsec = static_cast<long>(t.nanoseconds)};
}

Timestamp to_timestamp(const timespec& t) {
  return {t.tv_sec, static_cast<std::uint32_t>(t.tv_nsec)};
}

}  // namespace

struct stat to_stat(const fs::Attributes& a) {
  struct stat st {};
  st.st_ino = a.inode.value;
  st.st_mode = a.mode;
  st.st_nlink = a.links;
  st.st_uid = a.owner.uid;
  st.st_gid = a.owner.gid;
  st.st_rdev = a.rdev;
  st.st_size = static_cast<off_t>(a.size);
  st.st_blksize = kPreferredIoBytes;
  st.st_blocks = static_cast<blkcnt_t>(a.blocks_512);
  st.st_atim = to_timespec(a.access);
  st.st_mtim = to_timespec(a.modification);
  st.st_ctim = to_timespec(a.change);
  return st;
}

struct statvfs to_statvfs(const fs::SpaceReport& space) {
  struct statvfs to {};
  to.f_bsize = kBlockBytes;
  to.f_frsize = kBlockBytes;
  to.f_blocks = space.total_blocks;
  to.f_bfree = space.free_blocks;
  to.f_bavail = space.available_blocks;
  to.f_files = space.total_files;
  to.f_ffree = space.free_files;
  to.f_favail = space.free_files;
  to.f_namemax = fs::kMaxNameBytes;
  return to;
}

fs::AttributeChange to_change(const struct stat& values, int to_set, bool clear_set_id) {
  fs::AttributeChange change;
  const auto asked = [to_set](int bit) { return (to_set & bit) != 0; };
  if (asked(FUSE_SET_ATTR_MODE)) change.mode = values.st_mode & 07777u;
  if (asked(FUSE_SET_ATTR_UID)) change.uid = values.st_uid;
  if (asked(FUSE_SET_ATTR_GID)) change.gid = values.st_gid;
  if (asked(FUSE_SET_ATTR_SIZE)) change.size = static_cast<std::uint64_t>(values.st_size);
  if (asked(FUSE_SET_ATTR_ATIME)) change.access = to_timestamp(values.st_atim);
  if (asked(FUSE_SET_ATTR_MTIME)) change.modification = to_timestamp(values.st_mtim);
  if (asked(FUSE_SET_ATTR_CTIME)) change.change = to_timestamp(values.st_ctim);
  change.access_now = asked(FUSE_SET_ATTR_ATIME_NOW);
  change.modification_now = asked(FUSE_SET_ATTR_MTIME_NOW);
  change.clear_set_id = clear_set_id;
  return change;
}

}  // namespace lazyfs::fuse
