// Renaming: moves an entry, replaces another one by it, or exchanges two.
#pragma once

#include <optional>
#include <string_view>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "fs/inode/inode.h"
#include "fs/namespace/inode_numbers.h"
#include "fs/namespace/name_lookup.h"
#include "fs/item/attributes.h"
#include "meta/store/store.h"

namespace lazyfs::fs {

class EntryChanges;

// Thread-safe. Errors of rename(): those of check_name(), kNotFound, kExists (no_replace),
// kNotDirectory, kIsDirectory, kNotEmpty, kCrossDirectoryLoop, kTooManyLinks, kNotPermitted
// (protection.h), kItemBad, and those of Store::try_apply().
class Renames {
 public:
  Renames(meta::Store& store, InodeTable& inodes, InodeNumbers& numbers, NameLookup& names,
          Clock& clock)
      : store_(store), inodes_(inodes), inode_numbers_(numbers), names_(names), clock_(clock) {}

  Result<> rename(InodeNo from_parent, std::string_view from_name, InodeNo to_parent,
                  std::string_view to_name, RenameFlags flags) EXCLUDES(move_mu_);

 private:
  struct Move;  // the inodes and entries of one rename

  Result<> check_no_loop(InodeNo moved, InodeNo new_parent) REQUIRES(move_mu_);
  // False when the names have changed since they were looked up.
  Result<bool> try_rename(Move& move, RenameFlags flags) EXCLUDES(move_mu_);
  Result<bool> change_names(Move& move, RenameFlags flags);
  // REQUIRES: the locks of all inodes of `move`.
  Result<> move_entry(Move& move, EntryChanges& changes);
  Result<> rename_locked(Move& move, EntryChanges& changes, const std::optional<Owner>& whiteout);
  Result<> add_whiteout(Move& move, Owner owner, Timestamp now, EntryChanges& changes,
                        meta::Batch& batch);
  Result<> exchange_locked(Move& move, EntryChanges& changes);

  meta::Store& store_;
  InodeTable& inodes_;
  InodeNumbers& inode_numbers_;
  NameLookup& names_;
  Clock& clock_;
  Mutex move_mu_;  // held while a directory changes its parent: two such moves could make a loop
};

}  // namespace lazyfs::fs
