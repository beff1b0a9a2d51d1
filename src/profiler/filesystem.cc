#include "profiler/filesystem.h"

#include <fcntl.h>

#include <cerrno>

namespace lazyfs::profiler {

std::expected<fuse_entry_param, int> Filesystem::look_up(fuse_ino_t folder, const char* name) {
  Descriptor file(::openat(file_of(folder), name, O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (!file.is_open()) return std::unexpected(errno);
  fuse_entry_param entry{};
  if (::fstatat(file.get(), "", &entry.attr, AT_EMPTY_PATH) != 0) return std::unexpected(errno);
  entry.attr_timeout = entry.entry_timeout = timeout();
  entry.ino = reinterpret_cast<fuse_ino_t>(&inodes_.remember(std::move(file), entry.attr));
  return entry;
}

void Filesystem::forget(fuse_ino_t inode, std::uint64_t lookups) {
  if (inode != FUSE_ROOT_ID) inodes_.forget(*reinterpret_cast<Inode*>(inode), lookups);
}

void reply_status(fuse_req_t request, int status) {
  ::fuse_reply_err(request, status == 0 ? 0 : errno);
}

void reply_entry(fuse_req_t request, int status, fuse_ino_t folder, const char* name) {
  if (status != 0) {
    ::fuse_reply_err(request, errno);
    return;
  }
  Filesystem& filesystem = Filesystem::of(request);
  const auto entry = filesystem.look_up(folder, name);
  if (!entry) {
    ::fuse_reply_err(request, entry.error());
  } else if (::fuse_reply_entry(request, &*entry) == -ENOENT) {
    filesystem.forget(entry->ino, 1);  // the request was interrupted
  }
}

}  // namespace lazyfs::profiler
