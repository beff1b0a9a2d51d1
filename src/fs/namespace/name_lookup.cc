#include "fs/namespace/name_lookup.h"

#include "base/log.h"
#include "fs/namespace/inode_items.h"

namespace lazyfs::fs {

Result<> check_name(std::string_view name) {
  if (name.size() > kMaxNameBytes) return fail(Errc::kNameTooLong);
  if (name.empty() || name == "." || name == ".." || name.find('/') != name.npos ||
      name.find('\0') != name.npos) {
    return fail(Errc::kInvalid);
  }
  return ok();
}

Result<InodeRef> NameLookup::directory(InodeNo number) {
  ASSIGN_OR_RETURN(InodeRef inode, inodes_.get(number));
  ReaderLock lock(inode->mu);
  if (!is_directory(inode->record)) return fail(Errc::kNotDirectory);
  return inode;
}

Result<DentryRecord> NameLookup::entry(Inode& directory, std::string_view name) {
  ReaderLock lock(directory.mu);
  NameItems items([this](meta::Key key) { return store_.get(key); });
  ASSIGN_OR_RETURN(auto entry, items.find(names_of(directory), name));
  if (!entry) return fail(Errc::kNotFound);
  return std::move(*entry);
}

// An inode number is never used twice, and an inode is deleted after its last name. So a name that
// still leads to the missing inode is damage. A name that leads to another inode by now was changed
// by another thread, and is looked up again.
Result<NamedInode> NameLookup::find(Inode& directory, std::string_view name) {
  InodeNo missing{};
  for (;;) {
    ASSIGN_OR_RETURN(DentryRecord found, entry(directory, name));
    if (found.inode == missing) break;
    auto inode = inodes_.get(found.inode);
    if (inode) return NamedInode{std::move(found), std::move(*inode)};
    if (inode.error() != Errc::kStale) return fail(inode.error());
    missing = found.inode;
  }
  log::error("directory {}: '{}' leads to no inode", directory.no.value, name);
  return fail(Errc::kItemBad);
}

}  // namespace lazyfs::fs
