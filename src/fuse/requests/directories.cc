// Requests that read directories. No state is kept between them: an offset is enough (cookie.h). So
// telldir, seekdir, and removing entries while reading work.
#include <fcntl.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "fuse/requests/cookie.h"
#include "fuse/requests/handlers.h"
#include "fuse/transport/transport.h"

namespace lazyfs::fuse::handlers {
namespace {

// The reply to one readdir or readdirplus, filled entry by entry. Invariant: with `plus` the buffer
// holds a lookup of each inode in looked_up_.
class EntryBuffer {
 public:
  EntryBuffer(fuse_req_t req, std::size_t size, bool plus)
      : req_(req), bytes_(std::make_unique_for_overwrite<char[]>(size)), size_(size), plus_(plus) {
    if (plus) looked_up_.reserve(size / needed("1"));  // enough: no lookup is lost without memory
  }

  // False when the entry does not fit. `with_attributes`: if the kernel asks for them.
  bool put(fs::Volume& volume, const std::string& name, InodeNo inode, mode_t type,
           std::uint64_t offset, bool with_attributes) {
    if (needed(name) > size_ - used_) return false;
    fuse_entry_param entry{};
    entry.attr.st_ino = inode.value;
    entry.attr.st_mode = type;
    if (plus_ && with_attributes) {
      const auto attributes = volume.lookup_inode(inode);
      if (attributes) {
        entry = to_entry(*attributes);
        looked_up_.push_back(inode);
      } else if (attributes.error() == Errc::kStale || attributes.error() == Errc::kNotFound) {
        return true;  // the entry was removed meanwhile
      }               // else the name is listed, and looking it up gives the error
    }
    add(name, entry, offset);
    ++entries_;
    return true;
  }

  // About as many entries as may fit, with short names.
  std::size_t room() const { return (size_ - used_) / needed("a-short-name") + 1; }
  bool empty() const { return used_ == 0; }
  std::uint64_t entries() const { return entries_; }

  void reply() {
    RequestContext& context = context_of(req_);
    if (fuse_reply_buf(req_, bytes_.get(), used_) == 0) return;
    for (const InodeNo inode : looked_up_) give_back(context, inode);
  }

 private:
  std::size_t needed(const std::string& name) const {
    return plus_ ? fuse_add_direntry_plus(req_, nullptr, 0, name.c_str(), nullptr, 0)
                 : fuse_add_direntry(req_, nullptr, 0, name.c_str(), nullptr, 0);
  }
  void add(const std::string& name, const fuse_entry_param& entry, std::uint64_t offset) {
    char* const to = bytes_.get() + used_;
    const std::size_t room = size_ - used_;
    const auto next = static_cast<off_t>(offset);
    used_ += plus_ ? fuse_add_direntry_plus(req_, to, room, name.c_str(), &entry, next)
                   : fuse_add_direntry(req_, to, room, name.c_str(), &entry.attr, next);
  }

  const fuse_req_t req_;
  const std::unique_ptr<char[]> bytes_;
  const std::size_t size_;
  std::size_t used_ = 0;
  std::uint64_t entries_ = 0;
  const bool plus_;
  std::vector<InodeNo> looked_up_;
};

// Puts "." and "..", those at or after `offset`. False: the buffer is full.
Result<bool> put_dots(fs::Volume& volume, EntryBuffer& buffer, InodeNo directory,
                      std::uint64_t offset) {
  if (offset < kAfterDot && !buffer.put(volume, ".", directory, S_IFDIR, kAfterDot, false)) {
    return false;
  }
  if (offset >= kAfterDotDot) return true;
  ASSIGN_OR_RETURN(const InodeNo parent, volume.parent_of(directory));
  return buffer.put(volume, "..", parent, S_IFDIR, kAfterDotDot, false);
}

// False for a directory opened with O_NOATIME. libfuse 3.14 hides the flags of READDIR.
bool notes_access() {
  const Request* request = current_request();
  const auto* body = request ? request->body<fuse_read_in>() : nullptr;
  return !body || (body->flags & O_NOATIME) == 0;
}

using Attributes = ListingAdvice::Attributes;

Result<> fill(fs::Volume& volume, EntryBuffer& buffer, InodeNo directory, std::uint64_t offset,
              Attributes attributes) {
  ASSIGN_OR_RETURN(const bool has_room, put_dots(volume, buffer, directory, offset));
  if (!has_room) return ok();
  std::uint64_t cookie = cookie_of_offset(std::max(offset, kAfterDotDot));
  const bool note_access = notes_access();
  while (true) {
    const std::size_t asked = buffer.room();
    ASSIGN_OR_RETURN(const auto entries,
                     volume.read_directory(directory, cookie, asked, note_access));
    for (const fs::DirectoryEntry& entry : entries) {
      if (!buffer.put(volume, entry.name, entry.inode, entry.mode, offset_of_cookie(entry.cookie),
                      ListingAdvice::gives(attributes, entry.cookie))) {
        return ok();
      }
      cookie = entry.cookie;
    }
    if (entries.size() < asked) return ok();
  }
}

// Called after a listing of names only. Otherwise the kernel would list the directory from its own
// memory, and the next program would not get the attributes that it may want.
void drop_listing(RequestContext& context, fuse_ino_t directory) {
  context.side_thread.run([&context, directory] {
    fuse_lowlevel_notify_inval_inode(context.session, directory, 0, 0);
  });
}

void read_entries(fuse_req_t req, Operation operation, fuse_ino_t ino, std::size_t size,
                  off_t offset, bool plus) {
  RequestContext& context = context_of(req);
  const InodeNo directory = inode_of(ino);
  const Attributes attributes =
      plus ? context.listing_advice.begin_reply(directory, offset == 0) : Attributes::kNone;
  std::optional<EntryBuffer> buffer;
  const auto done = call(req, operation, [&](fs::Volume& volume) {
    buffer.emplace(req, size, plus);
    return fill(volume, *buffer, directory, static_cast<std::uint64_t>(offset), attributes);
  });
  if (!done && (!buffer || buffer->empty())) return reply_error(req, done.error());
  if (plus) context.listing_advice.add(directory, buffer->entries());
  const bool ends_names = plus && attributes == Attributes::kNone && buffer->empty();
  buffer->reply();  // the entries read before an error; the next request meets the error again
  if (ends_names) drop_listing(context, ino);
}

}  // namespace

void opendir(fuse_req_t req, fuse_ino_t, fuse_file_info* info) {
  if (!context_of(req).settings.announce_opens) {
    fuse_reply_err(req, ENOSYS);
    return;
  }
  context_of(req).counts.add(Operation::opendir, {});
  info->fh = 0;
  info->keep_cache = 1;
  info->cache_readdir = 1;  // until the directory changes
  fuse_reply_open(req, info);
}

void releasedir(fuse_req_t req, fuse_ino_t, fuse_file_info*) {
  context_of(req).counts.add(Operation::releasedir, {});
  fuse_reply_err(req, 0);
}

void readdir(fuse_req_t req, fuse_ino_t ino, std::size_t size, off_t offset, fuse_file_info*) {
  read_entries(req, Operation::readdir, ino, size, offset, false);
}

void readdirplus(fuse_req_t req, fuse_ino_t ino, std::size_t size, off_t offset, fuse_file_info*) {
  read_entries(req, Operation::readdirplus, ino, size, offset, true);
}

void fsyncdir(fuse_req_t req, fuse_ino_t ino, int, fuse_file_info*) {
  reply_done(req, call(req, Operation::fsyncdir,
                       [&](fs::Volume& volume) { return volume.fsync_directory(inode_of(ino)); }));
}

}  // namespace lazyfs::fuse::handlers
