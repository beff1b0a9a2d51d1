// Requests about the contents of files.
//
// Without the option `opens` the first OPEN, OPENDIR, FLUSH and CREATE are answered with ENOSYS.
// The kernel then opens and closes files without the daemon, keeps its cached pages, makes files by
// MKNOD, and saves four requests a file; fsync reports write-back errors, as other disk filesystems
// do. The volume needs no opens: an inode lives as long as the kernel's lookups.
#include <fcntl.h>
#include <linux/falloc.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "base/buffer_pool.h"
#include "fuse/requests/handlers.h"
#include "fuse/requests/hole_seek.h"
#include "fuse/requests/inode_flags.h"
#include "fuse/requests/old_size.h"
#include "fuse/requests/operations.h"
#include "fuse/requests/set_id.h"
#include "fuse/transport/transport.h"

namespace lazyfs::fuse::handlers {
namespace {

fs::OpenFile* file_of(const fuse_file_info* info) {
  return info ? reinterpret_cast<fs::OpenFile*>(info->fh) : nullptr;
}

void describe_open(fuse_file_info& info, fs::OpenFile* file) {
  info.fh = reinterpret_cast<std::uint64_t>(file);
  info.keep_cache = 1;
}

// True when the writer may not keep set-user-ID and set-group-ID bits. libfuse 3.14 hides this bit
// of the request.
bool write_clears_set_id() {
  const Request* request = current_request();
  const auto* body = request ? request->body<fuse_write_in>() : nullptr;
  return body && (body->write_flags & FUSE_WRITE_KILL_SUIDGID) != 0;
}

// Memory for the data of the READ that this thread is handling. The kernel asks for at most as much
// as a buffer holds.
struct ReadSpace {
  ReadSpace(BufferPool& pool, std::size_t size) {
    const Request* request = current_request();
    if (request && request->reply_space.size() >= size) {
      bytes = request->reply_space.first(size);
    } else {
      loan = pool.lend();
      bytes = loan.bytes().first(std::min(size, loan.bytes().size()));
    }
  }
  BufferPool::Loan loan;
  std::span<std::byte> bytes;
};

// `kind`: a mode of fallocate(2) without FALLOC_FL_KEEP_SIZE.
Result<> change_range(fs::Volume& volume, InodeNo inode, int kind, std::uint64_t offset,
                      std::uint64_t length, fs::RangeFlags flags) {
  switch (kind) {
    case FALLOC_FL_PUNCH_HOLE: return volume.punch(inode, offset, length, flags);
    case FALLOC_FL_ZERO_RANGE: return volume.zero(inode, offset, length, flags);
    default: return fail(Errc::kNotSupported);
  }
}

// With O_DSYNC (part of O_SYNC; the kernel also sets it for RWF_DSYNC and mounts with `sync`) the
// data is durable before the reply. The FSYNC that the kernel sends afterwards finds nothing to do.
// A request of the largest size is a piece of a longer write: only that FSYNC makes it durable,
// because a commit for each piece made a write of 16 MiB take six times as long.
bool must_be_durable(const fuse_file_info& info, std::size_t size) {
  return (info.flags & O_DSYNC) != 0 && size < kMaxWriteBytes;
}

// Perhaps no program is left that gets the error of data that the kernel sends late.
void report_late_error(RequestContext& context, InodeNo inode, Errc error) {
  context.counts.add_late_error();
  log::warn("fuse: inode {}: data that the kernel sent after write(2) was refused: {}", inode.value,
            describe(error));
}

// A notification of invalid pages makes the kernel send the dirty pages, and drop all pages.
SeekableFile seekable(RequestContext& context, InodeNo inode) {
  using Found = Result<std::uint64_t>;
  return {.find_data = [&context, inode](std::uint64_t offset) -> Found {
            return context.volume.find_data(inode, offset);
          },
          .find_hole = [&context, inode](std::uint64_t offset) -> Found {
            return context.volume.find_hole(inode, offset);
          },
          .write_out =
              [&context, inode](std::uint64_t from, std::uint64_t to) {
                fuse_lowlevel_notify_inval_inode(
                    context.session, inode.value, static_cast<off_t>(from),
                    to == kEndOfFile ? 0 : static_cast<off_t>(to - from));
              }};
}

// Replies to a change of a range of contents that has failed, perhaps after a part was made. First
// the file gets its old size back, and the kernel drops its pages of the range, so that the caller
// sees what the volume has. Dropping is for the side thread, because the kernel sends dirty pages
// meanwhile. The kernel has written those past `offset` before such a request.
void reply_failed_change(fuse_req_t req, Errc error, OldSize& old_size, fuse_ino_t ino,
                         off_t offset, off_t length) {
  RequestContext& context = context_of(req);
  old_size.restore(static_cast<std::uint64_t>(offset));
  const bool runs = context.side_thread.run([=, &context] {
    fuse_lowlevel_notify_inval_inode(context.session, ino, offset, length);
    reply_error(req, error);
  });
  if (!runs) reply_error(req, error);
}

}  // namespace

void create(fuse_req_t req, fuse_ino_t parent, const char* name, mode_t mode,
            fuse_file_info* info) {
  RequestContext& context = context_of(req);
  if (!context.settings.announce_opens) {
    fuse_reply_err(req, ENOSYS);
    return;
  }
  const std::uint32_t umask = fuse_req_ctx(req)->umask;
  const auto make = [&](fs::Volume& volume) -> Result<fs::Created> {
    ASSIGN_OR_RETURN(const std::uint32_t rest, masked(volume, inode_of(parent), mode, umask));
    return volume.create(inode_of(parent), name, rest, owner_of(req));
  };
  const auto made = run_timed(context, Operation::create, [&]() -> Result<fs::Created> {
    const auto file = run_guarded(context, Operation::create, make);
    if (!file) return file;
    const auto durable = commit_names(context, {{inode_of(parent), name}}, {});
    if (durable) return file;
    give_back(context, file->attributes.inode, file->file);
    return fail(durable.error());
  });
  if (!made) return reply_error(req, made.error());
  const fuse_entry_param entry = to_entry(made->attributes);
  describe_open(*info, made->file);
  if (fuse_reply_create(req, &entry, info) == 0) return;
  give_back(context, made->attributes.inode, made->file);
}

void open(fuse_req_t req, fuse_ino_t ino, fuse_file_info* info) {
  RequestContext& context = context_of(req);
  if (!context.settings.announce_opens) {
    fuse_reply_err(req, ENOSYS);
    return;
  }
  const auto file =
      call(req, Operation::open, [&](fs::Volume& volume) -> Result<fs::OpenFile*> {
        TRY(check_open(volume, inode_of(ino), info->flags));
        return volume.open(inode_of(ino));
      });
  if (!file) return reply_error(req, file.error());
  describe_open(*info, *file);
  if (fuse_reply_open(req, info) != 0) context.volume.release(*file);
}

void read(fuse_req_t req, fuse_ino_t ino, std::size_t size, off_t offset, fuse_file_info* info) {
  RequestContext& context = context_of(req);
  std::optional<ReadSpace> to;
  const auto got = call(req, Operation::read, [&](fs::Volume& volume) {
    to.emplace(context.read_buffers, size);
    const bool note_access = (info->flags & O_NOATIME) == 0;
    return volume.read(inode_of(ino), static_cast<std::uint64_t>(offset), to->bytes, note_access);
  });
  if (!got && got.error() == Errc::kWouldWait) {
    defer_current_request();
    return fuse_reply_none(req);
  }
  if (!got) return reply_error(req, got.error());
  context.counts.add_read(*got);
  fuse_reply_buf(req, reinterpret_cast<const char*>(to->bytes.data()), *got);
}

void write(fuse_req_t req, fuse_ino_t ino, const char* bytes, std::size_t size, off_t offset,
           fuse_file_info* info) {
  RequestContext& context = context_of(req);
  const bool clear_set_id = write_clears_set_id();
  const bool is_cached = info->writepage != 0 && context.settings.writeback_cache;
  bool mode_changes = false;
  const auto done = call(req, Operation::write, [&](fs::Volume& volume) -> Result<> {
    ASSIGN_OR_RETURN(mode_changes, prepare_set_id(req, volume, inode_of(ino), clear_set_id));
    TRY(volume.write(inode_of(ino), static_cast<std::uint64_t>(offset),
                     std::as_bytes(std::span(bytes, size)),
                     {.clear_set_id = clear_set_id, .keep_times = is_cached}));
    return must_be_durable(*info, size) ? volume.fsync(inode_of(ino), nullptr, true) : ok();
  });
  const bool is_late = !done && info->writepage != 0;
  if (is_late) report_late_error(context, inode_of(ino), done.error());
  if (is_late && is_cached) context.late_errors.note(inode_of(ino), done.error());
  // The kernel does not expect a write to change the mode that it has cached.
  if (mode_changes || is_late) drop_attributes(context, inode_of(ino));
  if (!done) reply_error(req, done.error());
  // A protected file has refused the data: readers must see the file as it is.
  if (is_late && done.error() == Errc::kNotPermitted) {
    drop_pages(context, ino, offset, static_cast<off_t>(size));
  }
  if (!done) return;
  context.counts.add_write(size);
  fuse_reply_write(req, size);
}

void flush(fuse_req_t req, fuse_ino_t, fuse_file_info* info) {
  if (!context_of(req).settings.announce_opens) {
    fuse_reply_err(req, ENOSYS);
    return;
  }
  reply_done(req, call(req, Operation::flush, [&](fs::Volume& volume) -> Result<> {
               return file_of(info) ? volume.flush(file_of(info)) : ok();
             }));
}

void release(fuse_req_t req, fuse_ino_t, fuse_file_info* info) {
  reply_done(req, call(req, Operation::release, [&](fs::Volume& volume) {
               if (file_of(info)) volume.release(file_of(info));
               return ok();
             }));
}

// If there is a late error, the kernel itself answers fsync(2) with it, and sends no request. So an
// FSYNC request means that all late errors have been reported.
void fsync(fuse_req_t req, fuse_ino_t ino, int data_only, fuse_file_info* info) {
  context_of(req).late_errors.drop(inode_of(ino));
  reply_done(req, call(req, Operation::fsync, [&](fs::Volume& volume) {
               return volume.fsync(inode_of(ino), file_of(info), data_only != 0);
             }));
}

// The kernel passes on no other modes than allocating, punching and zeroing, and drops its pages of
// a range that is punched or zeroed. Allocating is refused: an overwritten block always gets a new
// place, so a reservation would not make a later write succeed. glibc's posix_fallocate(3) then
// writes the blocks.
void fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset, off_t length,
               fuse_file_info*) {
  const auto from = static_cast<std::uint64_t>(offset);
  const auto bytes = static_cast<std::uint64_t>(length);
  const fs::RangeFlags flags{.keep_size = (mode & FALLOC_FL_KEEP_SIZE) != 0,
                             .clear_set_id = fuse_req_ctx(req)->uid != 0};
  const int kind = mode & ~FALLOC_FL_KEEP_SIZE;
  OldSize old_size(context_of(req), inode_of(ino));
  bool mode_changes = false;
  const auto done = call(req, Operation::fallocate, [&](fs::Volume& volume) -> Result<> {
    if (kind == 0) return fail(Errc::kNotSupported);
    TRY(old_size.note(volume));
    ASSIGN_OR_RETURN(mode_changes, prepare_set_id(req, volume, inode_of(ino), flags.clear_set_id));
    TRY(change_range(volume, inode_of(ino), kind, from, bytes, flags));
    return commit_change(context_of(req), inode_of(ino));
  });
  if (!done && done.error() != Errc::kNotSupported) {
    return reply_failed_change(req, done.error(), old_size, ino, offset, length);
  }
  if (done && mode_changes) drop_attributes(context_of(req), inode_of(ino));
  reply_done(req, done);
}

// The kernel has written its dirty pages of both ranges, and drops its pages of the target
// afterwards.
void copy_file_range(fuse_req_t req, fuse_ino_t from, off_t from_offset, fuse_file_info*,
                     fuse_ino_t to, off_t to_offset, fuse_file_info*, std::size_t length, int) {
  const bool clear_set_id = fuse_req_ctx(req)->uid != 0;
  OldSize old_size(context_of(req), inode_of(to));
  bool mode_changes = false;
  const auto copy = [&](fs::Volume& volume) -> Result<std::uint64_t> {
    TRY(old_size.note(volume));
    ASSIGN_OR_RETURN(mode_changes, prepare_set_id(req, volume, inode_of(to), clear_set_id));
    ASSIGN_OR_RETURN(
        const std::uint64_t bytes,
        volume.copy_range(inode_of(from), static_cast<std::uint64_t>(from_offset), inode_of(to),
                          static_cast<std::uint64_t>(to_offset), length, clear_set_id));
    TRY(commit_change(context_of(req), inode_of(to)));
    return bytes;
  };
  const auto copied = call(req, Operation::copy_file_range, copy);
  if (!copied) {
    return reply_failed_change(req, copied.error(), old_size, to, to_offset,
                               static_cast<off_t>(length));
  }
  if (mode_changes) drop_attributes(context_of(req), inode_of(to));
  fuse_reply_write(req, *copied);
}

void lseek(fuse_req_t req, fuse_ino_t ino, off_t offset, int whence, fuse_file_info*) {
  RequestContext& context = context_of(req);
  const InodeNo inode = inode_of(ino);
  const auto from = static_cast<std::uint64_t>(offset);
  if (whence != SEEK_DATA && whence != SEEK_HOLE) return reply_error(req, Errc::kInvalid);
  const auto data = call(context, Operation::lseek,
                         [&](fs::Volume& volume) { return volume.find_data(inode, from); });
  if (!data && data.error() == Errc::kNotSupported) {
    fuse_reply_err(req, ENOSYS);  // the kernel then takes the whole file for data
    return;
  }
  if (whence == SEEK_DATA && data == from) {
    fuse_reply_lseek(req, offset);
    return;
  }
  const bool runs = context.side_thread.run([req, &context, inode, from, whence] {
    const auto found = run_guarded(context, Operation::lseek, [&](fs::Volume&) {
      const SeekableFile file = seekable(context, inode);
      return whence == SEEK_DATA ? seek_data(file, from) : seek_hole(file, from);
    });
    if (!found) return reply_error(req, found.error());
    fuse_reply_lseek(req, static_cast<off_t>(*found));
  });
  if (!runs) fuse_reply_err(req, ENOTCONN);
}

}  // namespace lazyfs::fuse::handlers
