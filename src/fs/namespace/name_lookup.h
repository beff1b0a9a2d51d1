// Finds directories, and the inodes that their names lead to.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "fs/inode/inode.h"
#include "fs/item/schema.h"
#include "fs/namespace/name_items.h"
#include "meta/store/store.h"

namespace lazyfs::fs {

// Errors: kNameTooLong; kInvalid (the name is empty, ".", "..", or has a slash or a zero byte).
Result<> check_name(std::string_view name);

struct NamedInode {
  DentryRecord entry;
  InodeRef inode;
};

// Thread-safe. Takes the locks of inodes, one at a time.
class NameLookup {
 public:
  // `volume_seed`: of the names of directories without a seed of their own.
  NameLookup(meta::Store& store, InodeTable& inodes, std::uint64_t volume_seed)
      : store_(store), inodes_(inodes), volume_seed_(volume_seed) {}

  // kNotDirectory: the inode is no directory.
  Result<InodeRef> directory(InodeNo number);
  // Returns the name's entry and its inode. Another thread may change the name before this returns.
  // kNotFound when there is no such name; kItemBad when the name leads to an inode that does not
  // exist.
  Result<NamedInode> find(Inode& directory, std::string_view name);

  DirectoryNames names_of(const Inode& directory) const REQUIRES_SHARED(directory.mu) {
    return {directory.no, name_seed_of(directory.record, volume_seed_)};
  }

 private:
  Result<DentryRecord> entry(Inode& directory, std::string_view name);

  meta::Store& store_;
  InodeTable& inodes_;
  const std::uint64_t volume_seed_;
};

}  // namespace lazyfs::fs
