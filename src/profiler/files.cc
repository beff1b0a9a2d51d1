// Requests about the contents of files. fuse_file_info::fh is the file's descriptor.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "profiler/caller.h"
#include "profiler/filesystem.h"
#include "profiler/handlers.h"

namespace lazyfs::profiler {

namespace {

int descriptor_of(const fuse_file_info* open) { return static_cast<int>(open->fh); }

// The flags with which a file of the backing directory is opened. O_DIRECT is removed: the kernel
// aligns a program's direct I/O, but not the buffers of this process. With the write cache the
// kernel also reads files that a program only writes, and handles O_APPEND itself.
int backing_flags(const Filesystem& filesystem, int flags) {
  flags &= ~(O_NOFOLLOW | O_DIRECT);
  if (!filesystem.has_write_cache()) return flags;
  if ((flags & O_ACCMODE) == O_WRONLY) flags = (flags & ~O_ACCMODE) | O_RDWR;
  return flags & ~O_APPEND;
}

void set_caching(const Filesystem& filesystem, fuse_file_info* open) {
  open->keep_cache = filesystem.settings().is_classic ? 0 : 1;
}

void open(fuse_req_t req, fuse_ino_t inode, fuse_file_info* info) {
  count(req, {Call::kOpen});
  const Filesystem& filesystem = Filesystem::of(req);
  const DescriptorPath path(filesystem.file_of(inode));
  Descriptor file(::open(path.c_str(), backing_flags(filesystem, info->flags) | O_CLOEXEC));
  if (!file.is_open()) {
    ::fuse_reply_err(req, errno);
    return;
  }
  set_caching(filesystem, info);
  info->fh = static_cast<std::uint64_t>(file.get());
  if (::fuse_reply_open(req, info) != -ENOENT) file.release();
}

void create(fuse_req_t req, fuse_ino_t folder, const char* name, mode_t mode,
            fuse_file_info* info) {
  count(req, {Call::kCreate, Call::kGetattr});
  Filesystem& filesystem = Filesystem::of(req);
  Descriptor file = [&] {
    const Caller caller(req);
    return Descriptor(::openat(filesystem.file_of(folder), name,
                               backing_flags(filesystem, info->flags) | O_CREAT | O_CLOEXEC,
                               mode));
  }();
  if (!file.is_open()) {
    ::fuse_reply_err(req, errno);
    return;
  }
  const auto entry = filesystem.look_up(folder, name);
  if (!entry) {
    ::fuse_reply_err(req, entry.error());
    return;
  }
  set_caching(filesystem, info);
  info->fh = static_cast<std::uint64_t>(file.get());
  if (::fuse_reply_create(req, &*entry, info) == -ENOENT) {
    filesystem.forget(entry->ino, 1);
    return;
  }
  file.release();
}

void read(fuse_req_t req, fuse_ino_t, std::size_t size, off_t offset, fuse_file_info* info) {
  count(req, {Call::kRead});
  thread_local std::vector<char> buffer;
  if (buffer.size() < size) buffer.resize(size);
  const ssize_t length = ::pread(descriptor_of(info), buffer.data(), size, offset);
  if (length < 0) {
    ::fuse_reply_err(req, errno);
    return;
  }
  Filesystem::of(req).counts().count_read(static_cast<std::uint64_t>(length));
  ::fuse_reply_buf(req, buffer.data(), static_cast<std::size_t>(length));
}

void write(fuse_req_t req, fuse_ino_t, const char* bytes, std::size_t size, off_t offset,
           fuse_file_info* info) {
  count(req, {Call::kWrite});
  const ssize_t length = ::pwrite(descriptor_of(info), bytes, size, offset);
  if (length < 0) {
    ::fuse_reply_err(req, errno);
    return;
  }
  Filesystem::of(req).counts().count_write(static_cast<std::uint64_t>(length));
  ::fuse_reply_write(req, static_cast<std::size_t>(length));
}

// A program has closed one of its descriptors of an open file. Some filesystems report errors of
// earlier writes then.
void flush(fuse_req_t req, fuse_ino_t, fuse_file_info* info) {
  count(req, {Call::kFlush});
  const int copy = ::dup(descriptor_of(info));
  reply_status(req, copy < 0 ? -1 : ::close(copy));
}

void release(fuse_req_t req, fuse_ino_t, fuse_file_info* info) {
  count(req, {Call::kRelease});
  ::close(descriptor_of(info));
  ::fuse_reply_err(req, 0);
}

void fsync(fuse_req_t req, fuse_ino_t, int data_only, fuse_file_info* info) {
  count(req, {Call::kFsync});
  reply_status(req, data_only ? ::fdatasync(descriptor_of(info)) : ::fsync(descriptor_of(info)));
}

void fallocate(fuse_req_t req, fuse_ino_t, int mode, off_t offset, off_t length,
               fuse_file_info* info) {
  count(req, {Call::kFallocate});
  reply_status(req, ::fallocate(descriptor_of(info), mode, offset, length));
}

void copy_file_range(fuse_req_t req, fuse_ino_t, off_t from_offset, fuse_file_info* from,
                     fuse_ino_t, off_t to_offset, fuse_file_info* to, std::size_t length,
                     int flags) {
  count(req, {Call::kCopyFileRange});
  const ssize_t copied =
      ::copy_file_range(descriptor_of(from), &from_offset, descriptor_of(to), &to_offset, length,
                        static_cast<unsigned>(flags));
  if (copied < 0) {
    ::fuse_reply_err(req, errno);
    return;
  }
  ::fuse_reply_write(req, static_cast<std::size_t>(copied));
}

}  // namespace

void set_file_handlers(fuse_lowlevel_ops& to) {
  to.open = open;
  to.create = create;
  to.read = read;
  to.write = write;
  to.flush = flush;
  to.release = release;
  to.fsync = fsync;
  to.fallocate = fallocate;
  to.copy_file_range = copy_file_range;
}

}  // namespace lazyfs::profiler
