// Directories: names to inodes. Every change of a name is one batch: entry, directory and inode
// change together or not at all.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "fs/inode/inode.h"
#include "fs/item/attributes.h"
#include "fs/item/schema.h"
#include "fs/namespace/inode_numbers.h"
#include "fs/namespace/name_lookup.h"
#include "fs/namespace/rename.h"
#include "meta/store/store.h"

namespace lazyfs::fs {

class EntryChanges;

// Thread-safe.
class Directories {
 public:
  Directories(meta::Store& store, InodeTable& inodes, InodeNumbers& numbers, Clock& clock,
              std::uint64_t volume_seed)
      : store_(store),
        inodes_(inodes),
        inode_numbers_(numbers),
        clock_(clock),
        names_(store, inodes, volume_seed),
        renames_(store, inodes, numbers, names_, clock) {}

  Result<InodeRef> lookup(InodeNo parent, std::string_view name);

  // Adds items of a new inode to the batch that makes it: an inherited access control list, the
  // target of a symlink.
  using AddItems = std::function<void(InodeNo, meta::Batch&)>;
  // Makes a directory or anything else. `record` holds mode, owner, rdev and size.
  Result<InodeRef> make(InodeNo parent, std::string_view name, InodeRecord record,
                        const AddItems& add_items = {});
  // Makes a file that has no name yet. `parent` only decides what the file inherits.
  Result<InodeRef> make_unnamed(InodeNo parent, InodeRecord record, const AddItems& add_items = {});
  Result<InodeRef> link(InodeNo inode, InodeNo parent, std::string_view name);
  Result<> unlink(InodeNo parent, std::string_view name);
  Result<> remove_directory(InodeNo parent, std::string_view name);
  Result<> rename(InodeNo from_parent, std::string_view from_name, InodeNo to_parent,
                  std::string_view to_name, RenameFlags flags) {
    return renames_.rename(from_parent, from_name, to_parent, to_name, flags);
  }
  Result<std::vector<DirectoryEntry>> read(InodeNo directory, std::uint64_t cookie,
                                           std::size_t max_entries);

 private:
  Result<> remove_name(InodeNo parent, std::string_view name, bool directory);
  Result<> remove_locked(Inode& parent, Inode& child, std::string_view name, bool directory,
                         EntryChanges& changes) REQUIRES(parent.mu, child.mu);

  meta::Store& store_;
  InodeTable& inodes_;
  InodeNumbers& inode_numbers_;
  Clock& clock_;
  NameLookup names_;
  Renames renames_;
};

}  // namespace lazyfs::fs
