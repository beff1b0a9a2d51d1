#include "fuse/requests/inode_flags.h"

#include <fcntl.h>
#include <linux/fs.h>

#include <array>
#include <cstring>

namespace lazyfs::fuse {
namespace {

struct FlagNames {
  std::uint32_t flag = 0, linux_flag = 0, xflag = 0;
};
constexpr std::array kFlagNames{
    FlagNames{fs::kImmutable, FS_IMMUTABLE_FL, FS_XFLAG_IMMUTABLE},
    FlagNames{fs::kAppendOnly, FS_APPEND_FL, FS_XFLAG_APPEND},
    FlagNames{fs::kNoDump, FS_NODUMP_FL, FS_XFLAG_NODUMP},
    FlagNames{fs::kNoAccessTime, FS_NOATIME_FL, FS_XFLAG_NOATIME},
};

// Bits of `from` as `to` names them; nullopt if a bit has no name there.
std::optional<std::uint32_t> translate(std::uint32_t flags, std::uint32_t FlagNames::*from,
                                       std::uint32_t FlagNames::*to) {
  std::uint32_t translated = 0;
  for (const FlagNames& names : kFlagNames) {
    if ((flags & names.*from) == 0) continue;
    translated |= names.*to;
    flags &= ~(names.*from);
  }
  return flags == 0 ? std::optional(translated) : std::nullopt;
}

void send_flags(fuse_req_t req, fuse_ino_t ino, std::size_t out_size) {
  std::uint32_t answer = 0;
  const auto got = call(req, Operation::ioctl, [&](fs::Volume& volume) {
    return volume.get_attributes(inode_of(ino));
  });
  if (!got) return reply_error(req, got.error());
  if (out_size < sizeof answer) return reply_error(req, Errc::kInvalid);
  answer = to_linux_flags(got->flags);
  fuse_reply_ioctl(req, 0, &answer, sizeof answer);
}

void send_xflags(fuse_req_t req, fuse_ino_t ino, std::size_t out_size) {
  fsxattr answer{};
  const auto got = call(req, Operation::ioctl, [&](fs::Volume& volume) {
    return volume.get_attributes(inode_of(ino));
  });
  if (!got) return reply_error(req, got.error());
  if (out_size < sizeof answer) return reply_error(req, Errc::kInvalid);
  answer.fsx_xflags = to_xflags(got->flags);
  fuse_reply_ioctl(req, 0, &answer, sizeof answer);
}

// The data of the file in the kernel's cache was written before the flags change, so it is written
// back first. Afterwards the kernel forgets the attributes, so that its next write asks again
// whether the file has capabilities (see getxattr()).
Result<> change_flags(RequestContext& context, InodeNo inode, std::uint32_t flags) {
  if ((flags & (fs::kImmutable | fs::kAppendOnly)) != 0) {
    fuse_lowlevel_notify_inval_inode(context.session, inode.value, 0, 0);
  }
  TRY(context.volume.set_attributes(inode, {.flags = flags}));
  drop_attributes(context, inode);
  return commit_change(context, inode);
}

// On the side thread, because the kernel sends its dirty pages meanwhile.
void set_flags(fuse_req_t req, fuse_ino_t ino, std::optional<std::uint32_t> flags) {
  if (!flags) return reply_error(req, Errc::kNotSupported);
  RequestContext& context = context_of(req);
  const bool runs = context.side_thread.run([req, &context, ino, flags] {
    const auto done = call(context, Operation::ioctl, [&](fs::Volume&) {
      return change_flags(context, inode_of(ino), *flags);
    });
    if (!done) return reply_error(req, done.error());
    fuse_reply_ioctl(req, 0, nullptr, 0);
  });
  if (!runs) fuse_reply_err(req, ENOTCONN);
}

void set_flags(fuse_req_t req, fuse_ino_t ino, const void* in, std::size_t in_size) {
  std::uint32_t flags = 0;
  if (in_size < sizeof flags) return reply_error(req, Errc::kInvalid);
  std::memcpy(&flags, in, sizeof flags);
  set_flags(req, ino, from_linux_flags(flags));
}

// Projects and hints for extents do not exist here.
void set_xflags(fuse_req_t req, fuse_ino_t ino, const void* in, std::size_t in_size) {
  fsxattr values{};
  if (in_size < sizeof values) return reply_error(req, Errc::kInvalid);
  std::memcpy(&values, in, sizeof values);
  const bool has_others =
      values.fsx_projid != 0 || values.fsx_extsize != 0 || values.fsx_cowextsize != 0;
  set_flags(req, ino, has_others ? std::nullopt : from_xflags(values.fsx_xflags));
}

}  // namespace

std::uint32_t to_linux_flags(std::uint32_t flags) {
  return translate(flags, &FlagNames::flag, &FlagNames::linux_flag).value_or(0);
}
std::optional<std::uint32_t> from_linux_flags(std::uint32_t linux_flags) {
  return translate(linux_flags, &FlagNames::linux_flag, &FlagNames::flag);
}
std::uint32_t to_xflags(std::uint32_t flags) {
  return translate(flags, &FlagNames::flag, &FlagNames::xflag).value_or(0);
}
std::optional<std::uint32_t> from_xflags(std::uint32_t xflags) {
  return translate(xflags, &FlagNames::xflag, &FlagNames::flag);
}

bool answer_flags_request(fuse_req_t req, fuse_ino_t ino, unsigned command, const void* in,
                          std::size_t in_size, std::size_t out_size) {
  if (!context_of(req).kernel_checks_flags) return false;
  switch (command) {
    case FS_IOC_GETFLAGS: send_flags(req, ino, out_size); return true;
    case FS_IOC_SETFLAGS: set_flags(req, ino, in, in_size); return true;
    case FS_IOC_FSGETXATTR: send_xflags(req, ino, out_size); return true;
    case FS_IOC_FSSETXATTR: set_xflags(req, ino, in, in_size); return true;
    default: return false;
  }
}

Result<> check_open(fs::Volume& volume, InodeNo inode, int open_flags) {
  if ((open_flags & O_ACCMODE) == O_RDONLY) return ok();
  ASSIGN_OR_RETURN(const fs::Attributes now, volume.get_attributes(inode));
  const bool appends = (open_flags & O_APPEND) != 0;
  const std::uint32_t forbidding = appends ? fs::kImmutable : fs::kImmutable | fs::kAppendOnly;
  return (now.flags & forbidding) == 0 ? ok() : fail(Errc::kNotPermitted);
}

}  // namespace lazyfs::fuse
