// Requests about attributes, ordinary and extended, and about the whole filesystem's space.
#include <sys/stat.h>
#include <sys/xattr.h>

#include "fs/namespace/acl.h"
#include "fuse/requests/caller.h"
#include "fuse/requests/handlers.h"
#include "fuse/requests/old_size.h"
#include "fuse/requests/set_id.h"
#include "fuse/transport/transport.h"

namespace lazyfs::fuse::handlers {
namespace {

// True for a change of the owner or group, and for a truncation whose caller may not keep
// set-user-ID and set-group-ID bits. libfuse 3.14 hides this bit of the request.
bool change_clears_set_id() {
  const Request* request = current_request();
  const auto* body = request ? request->body<fuse_setattr_in>() : nullptr;
  return body && (body->valid & FATTR_KILL_SUIDGID) != 0;
}

// Answers a request whose `size` is 0 with the length alone, as getxattr(2) wants it.
void reply_sized(fuse_req_t req, const Result<std::string>& value, std::size_t size) {
  if (!value) return reply_error(req, value.error());
  if (size == 0) {
    fuse_reply_xattr(req, value->size());
  } else if (value->size() > size) {
    reply_error(req, Errc::kBufferTooSmall);
  } else {
    fuse_reply_buf(req, value->data(), value->size());
  }
}

// Accepts names of the three namespaces that store any value, and access control lists.
Result<> check_namespace(std::string_view name) {
  if (name == fs::kAccessAcl || name == fs::kDefaultAcl) return ok();
  for (const std::string_view space : {"user.", "trusted.", "security."}) {
    if (!name.starts_with(space)) continue;
    if (name == space) return fail(Errc::kInvalid);
    return ok();
  }
  return fail(Errc::kNotSupported);
}

constexpr std::string_view kCapabilities = "security.capability";

Result<bool> is_immutable(fs::Volume& volume, InodeNo inode) {
  ASSIGN_OR_RETURN(const fs::Attributes now, volume.get_attributes(inode));
  return (now.flags & fs::kImmutable) != 0;
}

}  // namespace

// With a descriptor the kernel asks before a write(2) through its write-back cache; stat and fstat
// ask without.
void getattr(fuse_req_t req, fuse_ino_t ino, fuse_file_info* info) {
  using Found = Result<fs::Attributes>;
  reply_attributes(req, call(req, Operation::getattr, [&](fs::Volume& volume) -> Found {
                     const auto late =
                         info ? context_of(req).late_errors.take(inode_of(ino)) : std::nullopt;
                     return late ? fail(*late) : volume.get_attributes(inode_of(ino));
                   }));
}

namespace {

Result<fs::Attributes> change_and_commit(fuse_req_t req, fs::Volume& volume, InodeNo inode,
                                         const fs::AttributeChange& change) {
  TRY(prepare_set_id(req, volume, inode, change.clear_set_id));
  ASSIGN_OR_RETURN(const fs::Attributes now, volume.set_attributes(inode, change));
  TRY(commit_change(context_of(req), inode));
  return now;
}

}  // namespace

void setattr(fuse_req_t req, fuse_ino_t ino, struct stat* values, int to_set, fuse_file_info*) {
  const auto change = to_change(*values, to_set, change_clears_set_id());
  RequestContext& context = context_of(req);
  OldSize old_size(context, inode_of(ino));
  using Changed = Result<fs::Attributes>;
  const auto changed = call(req, Operation::setattr, [&](fs::Volume& volume) -> Changed {
    if (change.size) TRY(old_size.note(volume));
    return change_and_commit(req, volume, inode_of(ino), change);
  });
  if (!changed) old_size.restore(0);  // the kernel sends no data during a truncation
  // A part may have changed: the kernel must drop the attributes that it has cached.
  if (!changed) drop_attributes(context, inode_of(ino));
  reply_attributes(req, changed);
  if (!changed && change.size) drop_pages(context, ino, static_cast<off_t>(*change.size), 0);
}

void statfs(fuse_req_t req, fuse_ino_t) {
  const auto space =
      call(req, Operation::statfs, [](fs::Volume& volume) { return volume.space(); });
  if (!space) return reply_error(req, space.error());
  const struct statvfs values = to_statvfs(*space);
  fuse_reply_statfs(req, &values);
}

void setxattr(fuse_req_t req, fuse_ino_t ino, const char* name, const char* value, std::size_t size,
              int flags) {
  using Mode = fs::XattrMode;
  const bool create = (flags & XATTR_CREATE) != 0, replace = (flags & XATTR_REPLACE) != 0;
  const Mode mode = create && replace ? Mode::kNever
                    : create          ? Mode::kCreate
                    : replace         ? Mode::kReplace
                                      : Mode::kAny;
  reply_done(req, call(req, Operation::setxattr, [&](fs::Volume& volume) -> Result<> {
               TRY(check_namespace(name));
               TRY(volume.set_xattr(inode_of(ino), name, std::string_view(value, size), mode));
               if (name == fs::kAccessAcl) {
                 TRY(drop_foreign_set_group_id(req, volume, inode_of(ino)));
               }
               return commit_change(context_of(req), inode_of(ino));
             }));
}

// Before the kernel changes a file's contents in its cache, it asks for the length of the file's
// capabilities, and has them removed if there are any. An immutable file answers that it has some:
// their removal is refused, and so the change. No program sees the answer: for a program the kernel
// asks a second time, for the capabilities themselves.
void getxattr(fuse_req_t req, fuse_ino_t ino, const char* raw_name, std::size_t size) {
  const std::string_view name = raw_name;
  reply_sized(req,
              call(req, Operation::getxattr,
                   [&](fs::Volume& volume) -> Result<std::string> {
                     TRY(check_namespace(name));
                     const bool asks_writer = size == 0 && name == kCapabilities;
                     ASSIGN_OR_RETURN(const bool refuses,
                                      asks_writer ? is_immutable(volume, inode_of(ino)) : false);
                     if (refuses) return std::string(1, '\0');
                     return volume.get_xattr(inode_of(ino), name);
                   }),
              size);
}

// Names of attributes that only root may read are listed to root only; the kernel does not filter
// them.
void listxattr(fuse_req_t req, fuse_ino_t ino, std::size_t size) {
  const auto joined =
      call(req, Operation::listxattr, [&](fs::Volume& volume) -> Result<std::string> {
        ASSIGN_OR_RETURN(const auto names, volume.list_xattrs(inode_of(ino)));
        std::string text;
        for (const std::string& name : names) {
          if (!name.starts_with("trusted.") || is_from_root(req)) text.append(name).push_back('\0');
        }
        return text;
      });
  reply_sized(req, joined, size);
}

void removexattr(fuse_req_t req, fuse_ino_t ino, const char* name) {
  reply_done(req, call(req, Operation::removexattr, [&](fs::Volume& volume) -> Result<> {
               TRY(check_namespace(name));
               TRY(volume.remove_xattr(inode_of(ino), name));
               return commit_change(context_of(req), inode_of(ino));
             }));
}

}  // namespace lazyfs::fuse::handlers
