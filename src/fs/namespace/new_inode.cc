#include "fs/namespace/new_inode.h"

#include <sys/stat.h>

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "fs/namespace/acl.h"

namespace lazyfs::fs {

Result<Directories::AddItems> inherit_acl(InodeTable& inodes, Xattrs& xattrs, InodeNo parent,
                                          InodeRecord& record) {
  ASSIGN_OR_RETURN(const InodeRef directory, inodes.get(parent));
  std::string inherited;
  {
    ReaderLock lock(directory->mu);
    if (directory->record.xattrs == 0) return Directories::AddItems{};
    auto value = xattrs.get_locked(*directory, kDefaultAcl);
    if (!value && value.error() == Errc::kNoAttribute) return Directories::AddItems{};
    if (!value) return fail(value.error());
    inherited = std::move(*value);
  }
  ASSIGN_OR_RETURN(Acl acl, decode_acl(inherited));
  acl = inherited_acl(std::move(acl), record.mode);
  record.mode = mode_with(record.mode, acl);
  std::vector<std::pair<std::string_view, std::string>> lists;
  if (!is_minimal(acl)) lists.emplace_back(kAccessAcl, encode(acl));
  if (S_ISDIR(record.mode)) lists.emplace_back(kDefaultAcl, std::move(inherited));
  record.xattrs = static_cast<std::uint32_t>(lists.size());
  return [acls = std::move(lists)](InodeNo inode, meta::Batch& batch) {
    std::uint64_t id = 0;
    for (const auto& [name, value] : acls) put_xattr(batch, inode, ++id, name, value);
  };
}

Directories::AddItems symlink_target(std::string_view target) {
  return [target](InodeNo inode, meta::Batch& batch) {
    std::string_view rest = target;
    for (std::uint64_t piece = 0; !rest.empty(); ++piece) {
      const auto part = rest.substr(0, meta::kMaxValueBytes);
      batch.put(key_of(inode, Kind::kSymlink, piece), std::as_bytes(std::span(part)));
      rest.remove_prefix(part.size());
    }
  };
}

Result<std::string> read_symlink(meta::Store& store, const Inode& inode) {
  ReaderLock lock(inode.mu);
  if (!S_ISLNK(inode.record.mode)) return fail(Errc::kInvalid);
  ASSIGN_OR_RETURN(
      const auto items,
      store.scan(key_of(inode.no, Kind::kSymlink),
                 key_of(inode.no, Kind::kSymlink, meta::kMaxOffset), kMaxSymlinkBytes));
  std::string target;
  for (const meta::Item& item : items) {
    // Pieces are full but for the last; what a repair takes for damage is not read either.
    const bool is_next = target.size() % meta::kMaxValueBytes == 0 &&
                         target.size() / meta::kMaxValueBytes == item.key.offset;
    if (!is_next) return fail(Errc::kItemBad);
    target.append(reinterpret_cast<const char*>(item.value.data()), item.value.size());
  }
  if (target.size() != inode.record.size) return fail(Errc::kItemBad);
  return target;
}

}  // namespace lazyfs::fs
