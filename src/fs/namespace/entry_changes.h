// Changes of directory entries that belong to one batch.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "fs/item/schema.h"
#include "fs/namespace/name_items.h"
#include "meta/store/store.h"

namespace lazyfs::fs {

// Each entry stands in two items, by its name (NameItems) and by its cookie; both change together.
// Not thread-safe. REQUIRES: the exclusive locks of the directories.
class EntryChanges {
 public:
  explicit EntryChanges(meta::Store& store)
      : names_([&store](meta::Key key) { return store.get(key); }) {}

  // The entry as it is now.
  Result<std::optional<DentryRecord>> find(const DirectoryNames& names, std::string_view name) {
    return names_.find(names, name);
  }
  // Adds an entry with the directory's next cookie and counts it in `record`. REQUIRES: no entry
  // has that name.
  Result<> add(const DirectoryNames& names, InodeRecord& record, std::string_view name,
               InodeNo inode, std::uint8_t type);
  Result<> remove(const DirectoryNames& names, InodeRecord& record, std::string_view name);
  // The entry keeps its place and its cookie, and names another inode.
  Result<> repoint(const DirectoryNames& names, std::string_view name, InodeNo inode,
                   std::uint8_t type);
  // The entry keeps its cookie and gets another name. REQUIRES: no entry has the name `to`.
  Result<> rename(const DirectoryNames& names, std::string_view from, std::string_view to);
  void put_into(meta::Batch& batch) const;

 private:
  Result<DentryRecord> existing(const DirectoryNames& names, std::string_view name);
  void put_by_cookie(InodeNo directory, const DentryRecord& entry);

  NameItems names_;
  std::vector<std::pair<meta::Key, std::vector<std::byte>>> cookie_puts_;
  std::vector<meta::Key> cookie_erases_;
};

}  // namespace lazyfs::fs
