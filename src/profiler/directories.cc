// Requests that list directories. fuse_file_info::fh is the directory's stream, which the kernel
// uses for one request at a time: it locks the position of an open directory.
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "profiler/filesystem.h"
#include "profiler/handlers.h"

namespace lazyfs::profiler {

namespace {

DIR* stream_of(const fuse_file_info* open) { return reinterpret_cast<DIR*>(open->fh); }

void opendir(fuse_req_t req, fuse_ino_t inode, fuse_file_info* info) {
  count(req, {Call::kOpendir});
  Descriptor folder(::openat(Filesystem::of(req).file_of(inode), ".",
                             O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  DIR* const stream = folder.is_open() ? ::fdopendir(folder.get()) : nullptr;
  if (!stream) {
    ::fuse_reply_err(req, errno);
    return;
  }
  folder.release();
  info->fh = reinterpret_cast<std::uint64_t>(stream);
  if (::fuse_reply_open(req, info) == -ENOENT) ::closedir(stream);
}

bool is_dot(const char* name) {
  return std::strcmp(name, ".") == 0 || std::strcmp(name, "..") == 0;
}

// Fills a reply with as many entries as it has room for.
class Listing {
 public:
  Listing(fuse_req_t req, fuse_ino_t folder, std::size_t size)
      : req_(req), folder_(folder), text_(size) {}

  // Returns false when the entry has no room.
  bool add(const dirent& entry) {
    struct stat attributes {};
    attributes.st_ino = entry.d_ino;
    attributes.st_mode = static_cast<mode_t>(DTTOIF(entry.d_type));
    return advance(::fuse_add_direntry(req_, at(), room(), entry.d_name, &attributes,
                                       entry.d_off));
  }

  // Adds the entry with its attributes, and counts a lookup, as the kernel does. An entry that can
  // not be looked up is listed without attributes.
  bool add_with_attributes(const dirent& entry) {
    fuse_entry_param found{};
    found.attr.st_ino = entry.d_ino;
    found.attr.st_mode = static_cast<mode_t>(DTTOIF(entry.d_type));
    if (!is_dot(entry.d_name)) {
      found = Filesystem::of(req_).look_up(folder_, entry.d_name).value_or(found);
    }
    if (advance(::fuse_add_direntry_plus(req_, at(), room(), entry.d_name, &found, entry.d_off))) {
      return true;
    }
    if (found.ino != 0) Filesystem::of(req_).forget(found.ino, 1);
    return false;
  }

  void reply() { ::fuse_reply_buf(req_, text_.data(), used_); }
  bool is_empty() const { return used_ == 0; }

 private:
  char* at() { return text_.data() + used_; }
  std::size_t room() const { return text_.size() - used_; }
  bool advance(std::size_t needed) {
    if (needed > room()) return false;
    used_ += needed;
    return true;
  }

  const fuse_req_t req_;
  const fuse_ino_t folder_;
  std::vector<char> text_;
  std::size_t used_ = 0;
};

void list(fuse_req_t req, fuse_ino_t folder, std::size_t size, off_t offset,
          const fuse_file_info* info, bool (Listing::*add)(const dirent&)) {
  count(req, {Call::kReaddir});
  DIR* const stream = stream_of(info);
  ::seekdir(stream, offset);
  Listing listing(req, folder, size);
  while (true) {
    errno = 0;
    const dirent* const entry = ::readdir(stream);
    if (!entry && errno != 0 && listing.is_empty()) {
      ::fuse_reply_err(req, errno);
      return;
    }
    if (!entry || !(listing.*add)(*entry)) break;
  }
  listing.reply();
}

void readdir(fuse_req_t req, fuse_ino_t folder, std::size_t size, off_t offset,
             fuse_file_info* info) {
  list(req, folder, size, offset, info, &Listing::add);
}

void readdirplus(fuse_req_t req, fuse_ino_t folder, std::size_t size, off_t offset,
                 fuse_file_info* info) {
  list(req, folder, size, offset, info, &Listing::add_with_attributes);
}

void releasedir(fuse_req_t req, fuse_ino_t, fuse_file_info* info) {
  count(req, {Call::kReleasedir});
  ::closedir(stream_of(info));
  ::fuse_reply_err(req, 0);
}

void fsyncdir(fuse_req_t req, fuse_ino_t, int data_only, fuse_file_info* info) {
  count(req, {Call::kFsyncdir});
  const int folder = ::dirfd(stream_of(info));
  reply_status(req, data_only ? ::fdatasync(folder) : ::fsync(folder));
}

}  // namespace

void set_directory_handlers(fuse_lowlevel_ops& to) {
  to.opendir = opendir;
  to.readdir = readdir;
  to.readdirplus = readdirplus;
  to.releasedir = releasedir;
  to.fsyncdir = fsyncdir;
}

}  // namespace lazyfs::profiler
