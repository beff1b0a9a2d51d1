// Requests about names: looking them up, making, moving and removing them.

#include "fuse/requests/handlers.h"

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1u
#define RENAME_EXCHANGE 2u
#endif

namespace lazyfs::fuse::handlers {

namespace {

// The kernel looks up "." and ".." to serve file handles of inodes that it has forgotten.
Result<fs::Attributes> look_up(fs::Volume& volume, InodeNo parent, std::string_view name) {
  if (name == ".") return volume.lookup_inode(parent);
  if (name != "..") return volume.lookup(parent, name);
  ASSIGN_OR_RETURN(const InodeNo above, volume.parent_of(parent));
  return volume.lookup_inode(above);
}

}  // namespace

void lookup(fuse_req_t req, fuse_ino_t parent, const char* name) {
  const auto found = call(req, Operation::lookup, [&](fs::Volume& volume) {
    return look_up(volume, inode_of(parent), name);
  });
  if (!found && found.error() == Errc::kNotFound) {  // the kernel caches this, too
    fuse_entry_param nothing{};
    nothing.entry_timeout = kForeverSeconds;
    fuse_reply_entry(req, &nothing);
    return;
  }
  if (found) context_of(req).listing_advice.note_lookup(inode_of(parent));
  reply_entry(req, found);
}

void forget(fuse_req_t req, fuse_ino_t ino, std::uint64_t lookups) {
  context_of(req).late_errors.drop(inode_of(ino));
  ignore_error(call(req, Operation::forget,
                    [&](fs::Volume& volume) {
                      volume.forget(inode_of(ino), lookups);
                      return ok();
                    }),
               "a forget has no answer");
  fuse_reply_none(req);
}

void forget_multi(fuse_req_t req, std::size_t count, fuse_forget_data* forgets) {
  RequestContext& context = context_of(req);
  for (std::size_t i = 0; i < count; ++i) context.late_errors.drop(inode_of(forgets[i].ino));
  const auto forget_one = [&](const fuse_forget_data& one) {
    return run_guarded(context, Operation::forget, [&](fs::Volume& volume) {
      volume.forget(inode_of(one.ino), one.nlookup);
      return ok();
    });
  };
  ignore_error(run_timed(context, Operation::forget,
                         [&] {
                           for (std::size_t i = 0; i < count; ++i) {
                             ignore_error(forget_one(forgets[i]), "the others are forgotten");
                           }
                           return ok();
                         }),
               "a forget has no answer");
  fuse_reply_none(req);
}

void mknod(fuse_req_t req, fuse_ino_t parent, const char* name, mode_t mode, dev_t rdev) {
  const std::uint32_t umask = fuse_req_ctx(req)->umask;
  const auto make = [&](fs::Volume& volume) -> Result<fs::Attributes> {
    ASSIGN_OR_RETURN(const std::uint32_t rest, masked(volume, inode_of(parent), mode, umask));
    return volume.make_node(inode_of(parent), name, rest, rdev, owner_of(req));
  };
  make_name(req, Operation::mknod, {inode_of(parent), name}, make);
}

void mkdir(fuse_req_t req, fuse_ino_t parent, const char* name, mode_t mode) {
  const std::uint32_t umask = fuse_req_ctx(req)->umask;
  const auto make = [&](fs::Volume& volume) -> Result<fs::Attributes> {
    ASSIGN_OR_RETURN(const std::uint32_t rest, masked(volume, inode_of(parent), mode, umask));
    return volume.make_directory(inode_of(parent), name, rest, owner_of(req));
  };
  make_name(req, Operation::mkdir, {inode_of(parent), name}, make);
}

void symlink(fuse_req_t req, const char* target, fuse_ino_t parent, const char* name) {
  const auto make = [&](fs::Volume& volume) {
    return volume.make_symlink(inode_of(parent), name, target, owner_of(req));
  };
  make_name(req, Operation::symlink, {inode_of(parent), name}, make);
}

void readlink(fuse_req_t req, fuse_ino_t ino) {
  const auto target = call(req, Operation::readlink,
                           [&](fs::Volume& volume) { return volume.read_link(inode_of(ino)); });
  if (!target) return reply_error(req, target.error());
  fuse_reply_readlink(req, target->c_str());
}

void link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char* name) {
  const auto make = [&](fs::Volume& volume) {
    return volume.link(inode_of(ino), inode_of(parent), name);
  };
  make_name(req, Operation::link, {inode_of(parent), name}, make);
}

void unlink(fuse_req_t req, fuse_ino_t parent, const char* name) {
  const auto remove = [&](fs::Volume& volume) { return volume.unlink(inode_of(parent), name); };
  change_names(req, Operation::unlink, {{inode_of(parent), name}}, remove);
}

void rmdir(fuse_req_t req, fuse_ino_t parent, const char* name) {
  const auto remove = [&](fs::Volume& volume) {
    return volume.remove_directory(inode_of(parent), name);
  };
  change_names(req, Operation::rmdir, {{inode_of(parent), name}}, remove);
}

namespace {

Result<fs::RenameFlags> rename_flags(fuse_req_t req, unsigned flags) {
  constexpr unsigned kKnown = RENAME_NOREPLACE | RENAME_EXCHANGE | RENAME_WHITEOUT;
  constexpr unsigned kBoth = RENAME_EXCHANGE | RENAME_WHITEOUT;
  if ((flags & ~kKnown) != 0 || (flags & kBoth) == kBoth) return fail(Errc::kInvalid);
  fs::RenameFlags kind{.no_replace = (flags & RENAME_NOREPLACE) != 0,
                       .exchange = (flags & RENAME_EXCHANGE) != 0};
  if ((flags & RENAME_WHITEOUT) != 0) kind.whiteout = owner_of(req);
  return kind;
}

}  // namespace

void rename(fuse_req_t req, fuse_ino_t from_parent, const char* from, fuse_ino_t to_parent,
            const char* to, unsigned flags) {
  const ChangedName old_name{inode_of(from_parent), from}, new_name{inode_of(to_parent), to};
  const auto move = [&](fs::Volume& volume) -> Result<> {
    ASSIGN_OR_RETURN(const fs::RenameFlags kind, rename_flags(req, flags));
    return volume.rename(old_name.parent, from, new_name.parent, to, kind);
  };
  change_names(req, Operation::rename, {old_name, new_name}, move);
}

}  // namespace lazyfs::fuse::handlers
