#include "fuse/requests/handlers.h"

namespace lazyfs::fuse {
namespace {

// Makes the kernel look the name up again, and read the attributes and the entries of its directory
// again. In the kernel a request about a name holds the directory's lock until it has the reply, so
// this waits for the reply.
Result<> drop_name(RequestContext& context, const ChangedName& changed) {
  const bool runs = context.name_thread.run([&context, parent = changed.parent.value,
                                             name = std::string(changed.name)] {
    fuse_lowlevel_notify_inval_entry(context.session, parent, name.data(), name.size());
    fuse_lowlevel_notify_inval_inode(context.session, parent, 0, 0);
  });
  return runs ? ok() : fail(Errc::kNoMemory);
}

// Without memory for this the kernel keeps what it knows of the names.
void drop_names(RequestContext& context, ChangedNames names) {
  const auto dropped = run_guarded(context, Operation::fsyncdir, [&](fs::Volume&) -> Result<> {
    for (const ChangedName& changed : names) TRY(drop_name(context, changed));
    return ok();
  });
  if (!dropped) log::warn("fuse: the kernel may show names that were changed as they were before");
}

}  // namespace

LinkedInodes linked_inodes(RequestContext& context, fs::Volume& volume, ChangedNames names) {
  LinkedInodes inodes{};
  if (context.sync.load() == SyncChoice::kNone) return inodes;
  auto inode = inodes.begin();
  for (const ChangedName& named : names) {
    const auto found = volume.lookup(named.parent, named.name);
    if (!found) continue;
    volume.forget(found->inode, 1);
    *inode++ = found->inode;
  }
  return inodes;
}

Result<> commit_names(RequestContext& context, ChangedNames names, const LinkedInodes& inodes) {
  if (context.sync.load() == SyncChoice::kNone) return ok();
  const auto durable = run_guarded(context, Operation::fsyncdir, [&](fs::Volume& volume) {
    return volume.fsync_directory(names.begin()->parent);
  });
  if (durable) return durable;
  for (const InodeNo inode : inodes) {
    if (inode != InodeNo{}) drop_attributes(context, inode);
  }
  drop_names(context, names);
  return durable;
}

Result<fs::Attributes> commit_new_name(RequestContext& context, ChangedName name,
                                       const Result<fs::Attributes>& made) {
  if (!made) return made;
  const auto durable = commit_names(context, {name}, {made->inode});
  if (durable) return made;
  give_back(context, made->inode);
  return fail(durable.error());
}

Result<> commit_change(RequestContext& context, InodeNo inode) {
  if (context.sync.load() != SyncChoice::kAll) return ok();
  return context.volume.fsync(inode, nullptr, false);
}

void reply_error(fuse_req_t req, Errc error) {
  log::trace("fuse: {}", name_of(error));
  fuse_reply_err(req, to_errno(error));
}

void reply_done(fuse_req_t req, const Result<>& result) {
  if (!result) return reply_error(req, result.error());
  fuse_reply_err(req, 0);
}

void drop_attributes(RequestContext& context, InodeNo inode) {
  fuse_lowlevel_notify_inval_inode(context.session, inode.value, -1, 0);
}

void drop_pages(RequestContext& context, fuse_ino_t ino, off_t offset, off_t length) {
  context.side_thread.run([=, &context] {
    fuse_lowlevel_notify_inval_inode(context.session, ino, offset, length);
  });
}

void reply_attributes(fuse_req_t req, const Result<fs::Attributes>& result) {
  if (!result) return reply_error(req, result.error());
  const struct stat st = to_stat(*result);
  fuse_reply_attr(req, &st, kForeverSeconds);
}

void give_back(RequestContext& context, InodeNo inode, fs::OpenFile* file) noexcept {
  const auto given_back = run_guarded(context, Operation::forget, [&](fs::Volume& volume) {
    if (file) volume.release(file);
    volume.forget(inode, 1);
    return ok();
  });
  ignore_error(given_back, "the inode stays in memory until the unmount");
}

fuse_entry_param to_entry(const fs::Attributes& attributes) {
  fuse_entry_param entry{};
  entry.ino = attributes.inode.value;
  entry.generation = attributes.generation;
  entry.attr = to_stat(attributes);
  entry.attr_timeout = kForeverSeconds;
  entry.entry_timeout = kForeverSeconds;
  return entry;
}

void reply_entry(fuse_req_t req, const Result<fs::Attributes>& result) {
  if (!result) return reply_error(req, result.error());
  RequestContext& context = context_of(req);
  const fuse_entry_param entry = to_entry(*result);
  if (fuse_reply_entry(req, &entry) != 0) give_back(context, result->inode);
}

}  // namespace lazyfs::fuse
