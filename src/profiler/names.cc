// Requests that look up, make, rename and remove names.
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <span>

#include "profiler/caller.h"
#include "profiler/filesystem.h"
#include "profiler/handlers.h"

namespace lazyfs::profiler {

namespace {

void lookup(fuse_req_t req, fuse_ino_t folder, const char* name) {
  count(req, {Call::kGetattr});
  Filesystem& filesystem = Filesystem::of(req);
  const auto entry = filesystem.look_up(folder, name);
  if (!entry && entry.error() == ENOENT && !filesystem.settings().is_classic) {
    fuse_entry_param missing{};  // the kernel remembers that the name does not exist
    missing.entry_timeout = filesystem.timeout();
    ::fuse_reply_entry(req, &missing);
  } else if (!entry) {
    ::fuse_reply_err(req, entry.error());
  } else if (::fuse_reply_entry(req, &*entry) == -ENOENT) {
    filesystem.forget(entry->ino, 1);
  }
}

void forget(fuse_req_t req, fuse_ino_t inode, std::uint64_t lookups) {
  Filesystem::of(req).forget(inode, lookups);
  ::fuse_reply_none(req);
}

void forget_multi(fuse_req_t req, std::size_t length, fuse_forget_data* forgets) {
  for (const fuse_forget_data& each : std::span(forgets, length)) {
    Filesystem::of(req).forget(each.ino, each.nlookup);
  }
  ::fuse_reply_none(req);
}

// Makes a name as the caller, then replies with its entry. make(folder): 0, or -1 and errno.
template <class Make>
void make_name(fuse_req_t req, fuse_ino_t folder, const char* name, Make make) {
  int status;
  {
    const Caller caller(req);
    status = make(Filesystem::of(req).file_of(folder));
  }
  reply_entry(req, status, folder, name);
}

void mknod(fuse_req_t req, fuse_ino_t folder, const char* name, mode_t mode, dev_t device) {
  count(req, {Call::kMknod, Call::kGetattr});
  make_name(req, folder, name, [&](int in) { return ::mknodat(in, name, mode, device); });
}

void mkdir(fuse_req_t req, fuse_ino_t folder, const char* name, mode_t mode) {
  count(req, {Call::kMkdir, Call::kGetattr});
  make_name(req, folder, name, [&](int in) { return ::mkdirat(in, name, mode); });
}

void symlink(fuse_req_t req, const char* target, fuse_ino_t folder, const char* name) {
  count(req, {Call::kSymlink, Call::kGetattr});
  make_name(req, folder, name, [&](int in) { return ::symlinkat(target, in, name); });
}

void link(fuse_req_t req, fuse_ino_t inode, fuse_ino_t folder, const char* name) {
  count(req, {Call::kLink, Call::kGetattr});
  const Filesystem& filesystem = Filesystem::of(req);
  const DescriptorPath from(filesystem.file_of(inode));
  const int status = ::linkat(AT_FDCWD, from.c_str(), filesystem.file_of(folder), name,
                              AT_SYMLINK_FOLLOW);
  reply_entry(req, status, folder, name);
}

void unlink(fuse_req_t req, fuse_ino_t folder, const char* name) {
  count(req, {Call::kUnlink});
  reply_status(req, ::unlinkat(Filesystem::of(req).file_of(folder), name, 0));
}

void rmdir(fuse_req_t req, fuse_ino_t folder, const char* name) {
  count(req, {Call::kRmdir});
  reply_status(req, ::unlinkat(Filesystem::of(req).file_of(folder), name, AT_REMOVEDIR));
}

void rename(fuse_req_t req, fuse_ino_t from, const char* from_name, fuse_ino_t to,
            const char* to_name, unsigned flags) {
  count(req, {Call::kRename});
  const Filesystem& filesystem = Filesystem::of(req);
  reply_status(req, ::renameat2(filesystem.file_of(from), from_name, filesystem.file_of(to),
                                to_name, flags));
}

void readlink(fuse_req_t req, fuse_ino_t inode) {
  count(req, {Call::kReadlink});
  std::array<char, PATH_MAX> target;
  const auto length =
      ::readlinkat(Filesystem::of(req).file_of(inode), "", target.data(), target.size() - 1);
  if (length < 0) {
    ::fuse_reply_err(req, errno);
    return;
  }
  target[static_cast<std::size_t>(length)] = '\0';
  ::fuse_reply_readlink(req, target.data());
}

}  // namespace

void set_name_handlers(fuse_lowlevel_ops& to) {
  to.lookup = lookup;
  to.forget = forget;
  to.forget_multi = forget_multi;
  to.mknod = mknod;
  to.mkdir = mkdir;
  to.symlink = symlink;
  to.link = link;
  to.unlink = unlink;
  to.rmdir = rmdir;
  to.rename = rename;
  to.readlink = readlink;
}

}  // namespace lazyfs::profiler
