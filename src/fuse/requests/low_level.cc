#include "fuse/requests/low_level.h"

#include <linux/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>

#include "base/log.h"
#include "fuse/requests/handlers.h"

namespace lazyfs::fuse {
namespace {

// The head of an answer to STATX; a struct statx follows.
struct StatxOut {
  std::uint64_t attr_valid = 0;
  std::uint32_t attr_valid_nsec = 0;
  std::uint32_t flags = 0;
  std::uint64_t spare[2] = {};
  struct statx stat {};
};
static_assert(sizeof(StatxOut) == 32 + 256);

constexpr auto kForever = static_cast<std::uint64_t>(kForeverSeconds);

// False: the request was interrupted.
template <class... Parts>
bool answer(RequestContext& context, std::uint64_t unique, const Parts&... parts) {
  fuse_out_header header{};
  header.len = static_cast<std::uint32_t>(sizeof header + (sizeof parts + ... + 0));
  header.unique = unique;
  const std::array pieces{iovec{&header, sizeof header},
                          iovec{const_cast<Parts*>(&parts), sizeof parts}...};
  if (context.send(pieces) >= 0) return true;
  log::debug("fuse: request {} was interrupted", unique);
  return false;
}

fuse_attr to_fuse_attr(const fs::Attributes& a) {
  const struct stat st = to_stat(a);
  fuse_attr to{};
  to.ino = st.st_ino;
  to.size = static_cast<std::uint64_t>(st.st_size);
  to.blocks = static_cast<std::uint64_t>(st.st_blocks);
  to.atime = static_cast<std::uint64_t>(st.st_atim.tv_sec);
  to.mtime = static_cast<std::uint64_t>(st.st_mtim.tv_sec);
  to.ctime = static_cast<std::uint64_t>(st.st_ctim.tv_sec);
  to.atimensec = static_cast<std::uint32_t>(st.st_atim.tv_nsec);
  to.mtimensec = static_cast<std::uint32_t>(st.st_mtim.tv_nsec);
  to.ctimensec = static_cast<std::uint32_t>(st.st_ctim.tv_nsec);
  to.mode = st.st_mode;
  to.nlink = static_cast<std::uint32_t>(st.st_nlink);
  to.uid = st.st_uid;
  to.gid = st.st_gid;
  to.rdev = static_cast<std::uint32_t>(st.st_rdev);
  to.blksize = static_cast<std::uint32_t>(st.st_blksize);
  return to;
}

statx_timestamp to_statx_time(Timestamp t) {
  return {.tv_sec = t.seconds, .tv_nsec = t.nanoseconds, .__reserved = 0};
}

struct statx to_statx(const fs::Attributes& a) {
  const struct stat st = to_stat(a);
  struct statx to {};
  to.stx_mask = STATX_BASIC_STATS | STATX_BTIME;
  to.stx_blksize = static_cast<std::uint32_t>(st.st_blksize);
  to.stx_nlink = static_cast<std::uint32_t>(st.st_nlink);
  to.stx_uid = st.st_uid;
  to.stx_gid = st.st_gid;
  to.stx_mode = static_cast<std::uint16_t>(st.st_mode);
  to.stx_ino = st.st_ino;
  to.stx_size = static_cast<std::uint64_t>(st.st_size);
  to.stx_blocks = static_cast<std::uint64_t>(st.st_blocks);
  to.stx_atime = to_statx_time(a.access);
  to.stx_btime = to_statx_time(a.birth);
  to.stx_ctime = to_statx_time(a.change);
  to.stx_mtime = to_statx_time(a.modification);
  to.stx_rdev_major = major(st.st_rdev);
  to.stx_rdev_minor = minor(st.st_rdev);
  return to;
}

void statx_inode(RequestContext& context, const Request& request) {
  const fuse_in_header& header = request.header();
  const auto attributes = call(context, Operation::statx, [&](fs::Volume& volume) {
    return volume.get_attributes(InodeNo{header.nodeid});
  });
  if (!attributes) return answer_error(context, header.unique, to_errno(attributes.error()));
  StatxOut out;
  out.attr_valid = kForever;
  out.stat = to_statx(*attributes);
  answer(context, header.unique, out);
}

// Makes a file for O_TMPFILE and opens it, as CREATE does.
void make_unnamed(RequestContext& context, const Request& request) {
  const fuse_in_header& header = request.header();
  const auto* asked = request.body<fuse_create_in>();
  if (!asked) return answer_error(context, header.unique, EINVAL);
  const InodeNo parent{header.nodeid};
  const auto make = [&](fs::Volume& volume) -> Result<fs::Created> {
    ASSIGN_OR_RETURN(const std::uint32_t mode, masked(volume, parent, asked->mode, asked->umask));
    return volume.create_unnamed(parent, mode, {header.uid, header.gid});
  };
  const auto made = call(context, Operation::tmpfile, make);
  if (!made) return answer_error(context, header.unique, to_errno(made.error()));
  fuse_entry_out entry{};
  entry.nodeid = made->attributes.inode.value;
  entry.generation = made->attributes.generation;
  entry.entry_valid = entry.attr_valid = kForever;
  entry.attr = to_fuse_attr(made->attributes);
  fuse_open_out open{};
  open.open_flags = FOPEN_KEEP_CACHE;
  const bool keeps_file = context.settings.announce_opens;
  if (keeps_file) open.fh = reinterpret_cast<std::uint64_t>(made->file);
  const bool taken = answer(context, header.unique, entry, open);
  if (!taken) return give_back(context, made->attributes.inode, made->file);
  if (!keeps_file) context.volume.release(made->file);
}

void sync_all(RequestContext& context, const Request& request) {
  const auto synced =
      call(context, Operation::syncfs, [](fs::Volume& volume) { return volume.sync(); });
  answer_error(context, request.header().unique, synced ? 0 : to_errno(synced.error()));
}

}  // namespace

void answer_error(RequestContext& context, std::uint64_t unique, int error) {
  fuse_out_header header{.len = sizeof(fuse_out_header), .error = -error, .unique = unique};
  const iovec piece{&header, sizeof header};
  if (context.send({&piece, 1}) < 0) log::debug("fuse: request {} was interrupted", unique);
}

bool answer_low_level(RequestContext& context, const Request& request) {
  switch (request.header().opcode) {
    case FUSE_SYNCFS: sync_all(context, request); return true;
    case FUSE_TMPFILE: make_unnamed(context, request); return true;
    case kStatxOpcode: statx_inode(context, request); return true;
    default: return false;
  }
}

}  // namespace lazyfs::fuse
