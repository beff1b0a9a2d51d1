// Directories: names to inodes. Every change of a name is one batch: entry, directory and inode
// change together or not at all.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "fs/inode/inode.h"
#include "fs/namespace/inode_numbers.h"
#include "fs/item/attributes.h"
#include "fs/item/schema.h"
#include "meta/store/store.h"

namespace lazyfs::fs {

// Changes of entries that belong to one batch. It keeps the name items that it has looked at, so
// that two changes which meet in one item see each other, and each is read once. The directories'
// exclusive locks must be held.
class EntryChanges {
 public:
  EntryChanges(meta::Store& store, std::uint64_t seed) : store_(store), seed_(seed) {}

  // The entry as it is now.
  Result<std::optional<DentryRecord>> find(InodeNo directory, std::string_view name);
  // Adds an entry with the directory's next cookie and counts it in `record`.
  Result<> add(InodeNo directory, InodeRecord& record, std::string_view name, InodeNo inode,
               std::uint8_t type);
  Result<> remove(InodeNo directory, InodeRecord& record, std::string_view name);
  // The entry stays (place and cookie) and names another inode.
  Result<> repoint(InodeNo directory, std::string_view name, InodeNo inode, std::uint8_t type);
  // The entry stays (place and cookie) and has another name, which must be free.
  Result<> rename(InodeNo directory, std::string_view from, std::string_view to);
  void put_into(meta::Batch& batch) const;

 private:
  struct Bucket {
    InodeNo directory;
    std::uint64_t hash;
    std::vector<DentryRecord> entries;
  };
  Result<Bucket*> bucket_of(InodeNo directory, std::string_view name);

  meta::Store& store_;
  const std::uint64_t seed_;
  std::vector<Bucket> buckets_;  // a handful
  std::vector<std::pair<meta::Key, std::vector<std::byte>>> seq_puts_;
  std::vector<meta::Key> seq_erases_;
};

// Thread-safe.
class Directories {
 public:
  Directories(meta::Store& store, InodeTable& inodes, InodeNumbers& numbers, Clock& clock,
              std::uint64_t seed)
      : store_(store), inodes_(inodes), numbers_(numbers), clock_(clock), seed_(seed) {}

  Result<InodeRef> lookup(InodeNo parent, std::string_view name);

  // What else a new inode of some type brings into its batch.
  using Extras = std::function<void(InodeNo, meta::Batch&)>;
  // Makes a directory or anything else. `record` holds mode, owner, rdev and size.
  Result<InodeRef> make(InodeNo parent, std::string_view name, InodeRecord record,
                        const Extras& extras = {});
  // A file that has no name yet; `parent` only says what it inherits.
  Result<InodeRef> make_unnamed(InodeNo parent, InodeRecord record, const Extras& extras = {});
  Result<InodeRef> link(InodeNo inode, InodeNo parent, std::string_view name);
  Result<> unlink(InodeNo parent, std::string_view name);
  Result<> remove_directory(InodeNo parent, std::string_view name);
  Result<> rename(InodeNo from_parent, std::string_view from_name, InodeNo to_parent,
                  std::string_view to_name, RenameFlags flags);
  Result<std::vector<DirectoryEntry>> read(InodeNo directory, std::uint64_t cookie,
                                           std::size_t max_entries);

 private:
  struct Move;  // the inodes and entries of one rename
  struct Named {
    DentryRecord entry;
    InodeRef inode;
  };

  Result<std::optional<DentryRecord>> find(InodeNo directory, std::string_view name);
  Result<InodeRef> get_directory(InodeNo number);
  // kNotFound when there is no such name.
  Result<DentryRecord> find_existing(Inode& directory, std::string_view name);
  // As find_existing(). kItemBad when the name leads to an inode that does not exist.
  Result<Named> find_named(Inode& directory, std::string_view name);
  Result<> remove_name(InodeNo parent, std::string_view name, bool directory);
  Result<> remove_locked(Inode& parent, Inode& child, std::string_view name, bool directory,
                         EntryChanges& changes);
  Result<> check_no_loop(InodeNo moved, InodeNo new_parent);
  Result<bool> try_rename(Move& move, RenameFlags flags);
  static Result<> move_entry(Move& move, EntryChanges& changes);
  Result<> rename_locked(Move& move, EntryChanges& changes);
  Result<> exchange_locked(Move& move, EntryChanges& changes);

  meta::Store& store_;
  InodeTable& inodes_;
  InodeNumbers& numbers_;
  Clock& clock_;
  const std::uint64_t seed_;
  Mutex move_mu_;  // held while a directory changes its parent: two such moves could make a loop
};

Result<> check_name(std::string_view name);

}  // namespace lazyfs::fs
