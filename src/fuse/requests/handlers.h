// The request handlers, one for each request as libfuse calls them, and their helpers. A handler
// asks the volume through call(), then replies. Invariant: no lock is held over a reply.
#pragma once

#ifndef FUSE_USE_VERSION
#define FUSE_USE_VERSION 314
#endif
#include <fuse_lowlevel.h>

#include <array>
#include <chrono>
#include <exception>
#include <initializer_list>
#include <new>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "base/result.h"
#include "fuse/requests/convert.h"
#include "fuse/requests/context.h"

namespace lazyfs::fuse {

// The kernel's requests alone change the volume, so what the kernel has cached stays true; it drops
// by itself what its own requests change.
inline constexpr double kForeverSeconds = 86400;

inline RequestContext& context_of(fuse_req_t req) {
  return *static_cast<RequestContext*>(fuse_req_userdata(req));
}
inline InodeNo inode_of(fuse_ino_t ino) { return InodeNo{ino}; }
inline fs::Owner owner_of(fuse_req_t req) {
  const fuse_ctx* context = fuse_req_ctx(req);
  return {context->uid, context->gid};
}

// The mode of a new file: its directory's default access control list takes the umask's place.
inline Result<std::uint32_t> masked(fs::Volume& volume, InodeNo parent, std::uint32_t mode,
                                    std::uint32_t umask) {
  if ((umask & mode) == 0) return mode;
  ASSIGN_OR_RETURN(const bool inherits, volume.has_default_acl(parent));
  return inherits ? mode : mode & ~umask;
}

// Runs `body(volume)`, which returns a Result, and again if the volume was read-only and a remount
// changes that. Lets no exception pass.
template <class F>
auto run_guarded(RequestContext& context, Operation operation, F&& body) noexcept
    -> decltype(body(context.volume)) {
  try {
    auto outcome = body(context.volume);
    if (outcome || outcome.error() != Errc::kReadOnly) return outcome;
    context.settings.catch_up();
    return body(context.volume);
  } catch (const std::bad_alloc&) {
    return fail(Errc::kNoMemory);
  } catch (const std::exception& e) {
    log::error("fuse: {} ended with an exception: {}", name_of(operation), e.what());
    return fail(Errc::kInternal);
  }
}

// Runs `body()`, and counts the operation and its time, unless it has to be begun again.
template <class F>
auto run_timed(RequestContext& context, Operation operation, F&& body) noexcept
    -> decltype(body()) {
  const auto begun = std::chrono::steady_clock::now();
  auto outcome = body();
  if (outcome || outcome.error() != Errc::kWouldWait) {
    context.counts.add(operation, std::chrono::steady_clock::now() - begun);
  }
  return outcome;
}

// As run_guarded(), timed.
template <class F>
auto call(RequestContext& context, Operation operation, F&& body) noexcept
    -> decltype(body(context.volume)) {
  return run_timed(context, operation, [&] {
    return run_guarded(context, operation, std::forward<F>(body));
  });
}

template <class F>
auto call(fuse_req_t req, Operation operation, F&& body) noexcept
    -> decltype(body(context_of(req).volume)) {
  return call(context_of(req), operation, std::forward<F>(body));
}

// reply.cc: replies, and what must be durable before them.

// A name that a request has made, moved or removed.
struct ChangedName {
  InodeNo parent;
  std::string_view name;
};
using ChangedNames = std::initializer_list<ChangedName>;  // at most two
// Inodes whose link counts a request changes; InodeNo{}: none.
using LinkedInodes = std::array<InodeNo, 2>;

// Returns the inodes that have the names before a change, if the change is to be committed.
LinkedInodes linked_inodes(RequestContext& context, fs::Volume& volume, ChangedNames names);
// Commits a change of names if the mount has `dirsync` or `sync`. After an error the volume has the
// change all the same. So the kernel is made to read the attributes of these inodes again, and to
// look these names up again once it has the reply.
Result<> commit_names(RequestContext& context, ChangedNames names, const LinkedInodes& inodes);
// The same after a request that has made a name. If the commit fails, the lookup is given back.
Result<fs::Attributes> commit_new_name(RequestContext& context, ChangedName name,
                                       const Result<fs::Attributes>& made);
// Makes a change of `inode` durable if the mount has `sync`.
Result<> commit_change(RequestContext& context, InodeNo inode);

void reply_error(fuse_req_t req, Errc error);
void reply_done(fuse_req_t req, const Result<>& result);
void reply_attributes(fuse_req_t req, const Result<fs::Attributes>& result);
// Makes the kernel drop the attributes of an inode. Before it looks the inode up, the kernel waits
// for the end of an eviction, and eviction waits for data and times that are being written back.
// REQUIRES: the caller is no request during which the kernel may evict the inode. (The kernel holds
// an inode during requests about the inode, and writes data and times back before it drops its last
// reference.)
void drop_attributes(RequestContext& context, InodeNo inode);
// Makes the kernel drop its pages of a range, and its attributes. The side thread waits for that,
// because the kernel sends dirty pages first. Called after the reply. `length` 0: to the end.
void drop_pages(RequestContext& context, fuse_ino_t ino, off_t offset, off_t length);
// Gives a lookup back that the kernel does not get, and a file that the kernel does not open.
void give_back(RequestContext& context, InodeNo inode, fs::OpenFile* file = nullptr) noexcept;
// Gives the lookup back when the request was interrupted meanwhile.
void reply_entry(fuse_req_t req, const Result<fs::Attributes>& result);
// As call() with `change(volume)`, or with `make(volume)`, which gives an inode a name. Then each
// commits the change, which is part of the operation's time, and replies. A commit that has failed
// does not begin the change again.
template <class F>
void change_names(fuse_req_t req, Operation operation, ChangedNames names, F&& change) {
  RequestContext& context = context_of(req);
  reply_done(req, run_timed(context, operation, [&] {
               LinkedInodes inodes{};
               const auto done = run_guarded(context, operation, [&](fs::Volume& volume) {
                 inodes = linked_inodes(context, volume, names);
                 return change(volume);
               });
               return done ? commit_names(context, names, inodes) : done;
             }));
}
template <class F>
void make_name(fuse_req_t req, Operation operation, ChangedName name, F&& make) {
  RequestContext& context = context_of(req);
  reply_entry(req, run_timed(context, operation, [&] {
                return commit_new_name(context, name, run_guarded(context, operation, make));
              }));
}
fuse_entry_param to_entry(const fs::Attributes& attributes);

namespace handlers {

// names.cc
void lookup(fuse_req_t req, fuse_ino_t parent, const char* name);
void forget(fuse_req_t req, fuse_ino_t ino, std::uint64_t lookups);
void forget_multi(fuse_req_t req, std::size_t count, fuse_forget_data* forgets);
void mknod(fuse_req_t req, fuse_ino_t parent, const char* name, mode_t mode, dev_t rdev);
void mkdir(fuse_req_t req, fuse_ino_t parent, const char* name, mode_t mode);
void symlink(fuse_req_t req, const char* target, fuse_ino_t parent, const char* name);
void readlink(fuse_req_t req, fuse_ino_t ino);
void link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char* name);
void unlink(fuse_req_t req, fuse_ino_t parent, const char* name);
void rmdir(fuse_req_t req, fuse_ino_t parent, const char* name);
void rename(fuse_req_t req, fuse_ino_t from_parent, const char* from, fuse_ino_t to_parent,
            const char* to, unsigned flags);

// attributes.cc
void getattr(fuse_req_t req, fuse_ino_t ino, fuse_file_info* file);
void setattr(fuse_req_t req, fuse_ino_t ino, struct stat* values, int to_set, fuse_file_info* file);
void statfs(fuse_req_t req, fuse_ino_t ino);
void setxattr(fuse_req_t req, fuse_ino_t ino, const char* name, const char* value, std::size_t size,
              int flags);
void getxattr(fuse_req_t req, fuse_ino_t ino, const char* name, std::size_t size);
void listxattr(fuse_req_t req, fuse_ino_t ino, std::size_t size);
void removexattr(fuse_req_t req, fuse_ino_t ino, const char* name);

// files.cc
void create(fuse_req_t req, fuse_ino_t parent, const char* name, mode_t mode, fuse_file_info* file);
void open(fuse_req_t req, fuse_ino_t ino, fuse_file_info* file);
void read(fuse_req_t req, fuse_ino_t ino, std::size_t size, off_t offset, fuse_file_info* file);
void write(fuse_req_t req, fuse_ino_t ino, const char* bytes, std::size_t size, off_t offset,
           fuse_file_info* file);
void flush(fuse_req_t req, fuse_ino_t ino, fuse_file_info* file);
void release(fuse_req_t req, fuse_ino_t ino, fuse_file_info* file);
void fsync(fuse_req_t req, fuse_ino_t ino, int data_only, fuse_file_info* file);
void fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset, off_t length,
               fuse_file_info* file);
void copy_file_range(fuse_req_t req, fuse_ino_t from, off_t from_offset, fuse_file_info* from_file,
                     fuse_ino_t to, off_t to_offset, fuse_file_info* to_file, std::size_t length,
                     int flags);
void lseek(fuse_req_t req, fuse_ino_t ino, off_t offset, int whence, fuse_file_info* file);

// directories.cc
void opendir(fuse_req_t req, fuse_ino_t ino, fuse_file_info* file);
void releasedir(fuse_req_t req, fuse_ino_t ino, fuse_file_info* file);
void readdir(fuse_req_t req, fuse_ino_t ino, std::size_t size, off_t offset, fuse_file_info* file);
void readdirplus(fuse_req_t req, fuse_ino_t ino, std::size_t size, off_t offset,
                 fuse_file_info* file);
void fsyncdir(fuse_req_t req, fuse_ino_t ino, int data_only, fuse_file_info* file);

// ioctl.cc
void ioctl(fuse_req_t req, fuse_ino_t ino, unsigned command, void* argument, fuse_file_info* file,
           unsigned flags, const void* in, std::size_t in_size, std::size_t out_size);

}  // namespace handlers
}  // namespace lazyfs::fuse
