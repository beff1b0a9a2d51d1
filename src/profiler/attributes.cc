// Requests about attributes, extended attributes and the filesystem as a whole.
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

#include "profiler/filesystem.h"
#include "profiler/handlers.h"

namespace lazyfs::profiler {

namespace {

void reply_attributes(fuse_req_t req, fuse_ino_t inode) {
  const Filesystem& filesystem = Filesystem::of(req);
  struct stat found {};
  if (::fstatat(filesystem.file_of(inode), "", &found, AT_EMPTY_PATH) != 0) {
    ::fuse_reply_err(req, errno);
    return;
  }
  ::fuse_reply_attr(req, &found, filesystem.timeout());
}

void getattr(fuse_req_t req, fuse_ino_t inode, fuse_file_info*) {
  count(req, {Call::kGetattr});
  reply_attributes(req, inode);
}

// Each of the following does its part of a setattr request; returns 0, or -1 and errno.

int set_owner(int file, const struct stat& wanted, int fields) {
  if (!(fields & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID))) return 0;
  const uid_t user = fields & FUSE_SET_ATTR_UID ? wanted.st_uid : static_cast<uid_t>(-1);
  const gid_t group = fields & FUSE_SET_ATTR_GID ? wanted.st_gid : static_cast<gid_t>(-1);
  return ::fchownat(file, "", user, group, AT_EMPTY_PATH);
}

int set_mode(int file, const struct stat& wanted, int fields) {
  if (!(fields & FUSE_SET_ATTR_MODE)) return 0;
  return ::chmod(DescriptorPath(file).c_str(), wanted.st_mode);
}

int set_size(int file, const struct stat& wanted, int fields, const fuse_file_info* open) {
  if (!(fields & FUSE_SET_ATTR_SIZE)) return 0;
  if (open) return ::ftruncate(static_cast<int>(open->fh), wanted.st_size);
  return ::truncate(DescriptorPath(file).c_str(), wanted.st_size);
}

timespec time_to_set(const timespec& time, bool is_set, bool is_now) {
  if (is_now) return {0, UTIME_NOW};
  return is_set ? time : timespec{0, UTIME_OMIT};
}

int set_times(int file, const struct stat& wanted, int fields) {
  const bool access = fields & FUSE_SET_ATTR_ATIME, change = fields & FUSE_SET_ATTR_MTIME;
  if (!access && !change) return 0;
  const timespec times[] = {
      time_to_set(wanted.st_atim, access, fields & FUSE_SET_ATTR_ATIME_NOW),
      time_to_set(wanted.st_mtim, change, fields & FUSE_SET_ATTR_MTIME_NOW)};
  return ::utimensat(file, "", times, AT_EMPTY_PATH);
}

void count_setattr(fuse_req_t req, int fields) {
  Counts& counts = Filesystem::of(req).counts();
  counts.count({Call::kGetattr});
  if (fields & FUSE_SET_ATTR_MODE) counts.count_more(Call::kChmod);
  if (fields & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID)) counts.count_more(Call::kChown);
  if (fields & FUSE_SET_ATTR_SIZE) counts.count_more(Call::kTruncate);
  if (fields & (FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME)) counts.count_more(Call::kUtime);
}

// The owner first: changing it clears bits of the mode.
void setattr(fuse_req_t req, fuse_ino_t inode, struct stat* wanted, int fields,
             fuse_file_info* open) {
  count_setattr(req, fields);
  const int file = Filesystem::of(req).file_of(inode);
  if (set_owner(file, *wanted, fields) != 0 || set_mode(file, *wanted, fields) != 0 ||
      set_size(file, *wanted, fields, open) != 0 || set_times(file, *wanted, fields) != 0) {
    ::fuse_reply_err(req, errno);
    return;
  }
  reply_attributes(req, inode);
}

// ---- Extended attributes ------------------------------------------------------------------------

// get(buffer, size): as getxattr(2). `size` 0 asks for the length only.
template <class Get>
void reply_attribute_text(fuse_req_t req, std::size_t size, Get get) {
  std::vector<char> text(size);
  const ssize_t length = get(text.data(), size);
  if (length < 0) {
    ::fuse_reply_err(req, errno);
  } else if (size == 0) {
    ::fuse_reply_xattr(req, static_cast<std::size_t>(length));
  } else {
    ::fuse_reply_buf(req, text.data(), static_cast<std::size_t>(length));
  }
}

void getxattr(fuse_req_t req, fuse_ino_t inode, const char* name, std::size_t size) {
  count(req, {Call::kGetxattr});
  const DescriptorPath path(Filesystem::of(req).file_of(inode));
  reply_attribute_text(req, size, [&](char* to, std::size_t length) {
    return ::getxattr(path.c_str(), name, to, length);
  });
}

void listxattr(fuse_req_t req, fuse_ino_t inode, std::size_t size) {
  count(req, {Call::kListxattr});
  const DescriptorPath path(Filesystem::of(req).file_of(inode));
  reply_attribute_text(req, size, [&](char* to, std::size_t length) {
    return ::listxattr(path.c_str(), to, length);
  });
}

void setxattr(fuse_req_t req, fuse_ino_t inode, const char* name, const char* value,
              std::size_t size, int flags) {
  count(req, {Call::kSetxattr});
  const DescriptorPath path(Filesystem::of(req).file_of(inode));
  reply_status(req, ::setxattr(path.c_str(), name, value, size, flags));
}

void removexattr(fuse_req_t req, fuse_ino_t inode, const char* name) {
  count(req, {Call::kRemovexattr});
  const DescriptorPath path(Filesystem::of(req).file_of(inode));
  reply_status(req, ::removexattr(path.c_str(), name));
}

// ---- The filesystem -----------------------------------------------------------------------------

void statfs(fuse_req_t req, fuse_ino_t inode) {
  count(req, {Call::kStatfs});
  struct statvfs found {};
  if (::fstatvfs(Filesystem::of(req).file_of(inode), &found) != 0) {
    ::fuse_reply_err(req, errno);
    return;
  }
  ::fuse_reply_statfs(req, &found);
}

// The inode flags of chattr(1) and project ids. Other ioctls cannot be passed on, because their
// arguments may be pointers.
void ioctl(fuse_req_t req, fuse_ino_t inode, unsigned command, void*, fuse_file_info*, unsigned,
           const void* in, std::size_t in_bytes, std::size_t out_bytes) {
  count(req, {Call::kIoctl});
  std::array<char, sizeof(fsxattr)> argument{};
  const bool is_known = command == FS_IOC_GETFLAGS || command == FS_IOC_SETFLAGS ||
                        command == FS_IOC_FSGETXATTR || command == FS_IOC_FSSETXATTR;
  if (!is_known || in_bytes > argument.size() || out_bytes > argument.size()) {
    ::fuse_reply_err(req, ENOTTY);
    return;
  }
  std::copy_n(static_cast<const char*>(in), in_bytes, argument.begin());
  const DescriptorPath path(Filesystem::of(req).file_of(inode));
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  const int status = file.is_open() ? ::ioctl(file.get(), command, argument.data()) : -1;
  if (status < 0) {
    ::fuse_reply_err(req, errno);
    return;
  }
  ::fuse_reply_ioctl(req, status, argument.data(), out_bytes);
}

}  // namespace

void set_attribute_handlers(fuse_lowlevel_ops& to) {
  to.getattr = getattr;
  to.setattr = setattr;
  to.getxattr = getxattr;
  to.listxattr = listxattr;
  to.setxattr = setxattr;
  to.removexattr = removexattr;
  to.statfs = statfs;
  to.ioctl = ioctl;
}

}  // namespace lazyfs::profiler
