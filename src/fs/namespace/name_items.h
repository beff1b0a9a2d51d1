// The kDentryName items of directories, and how names with equal or neighbouring hashes share them.
// Both a mounted volume and a repair change names through this.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "fs/item/schema.h"
#include "meta/tree/batch.h"

namespace lazyfs::fs {

// A directory and the seed of its name hashes.
struct DirectoryNames {
  InodeNo directory;
  std::uint64_t seed = 0;  // of its name hashes: name_seed_of()

  std::uint64_t hash(std::string_view name) const { return name_hash(name, seed); }
};

// Reads and changes name items. Keeps the items that it has read, so that several changes of one
// item see each other. Not thread-safe; the directories' locks must be held.
//
// Invariants of the items, which each change keeps:
//   N1  a name with hash h stands in the item at an offset h + d, and the items at h, h + 1, ...,
//       h + d all exist: the search for a name ends at the first item that does not exist
//   N2  d < kMaxChainItems
//   N3  an item holds at least one entry
class NameItems {
 public:
  using Read = std::function<Result<std::optional<meta::Value>>(meta::Key)>;

  explicit NameItems(Read read) : read_(std::move(read)) {}

  Result<std::optional<DentryRecord>> find(const DirectoryNames& names, std::string_view name);
  // REQUIRES: no entry has that name. kNoSpace: kMaxChainItems items are full.
  Result<> add(const DirectoryNames& names, DentryRecord entry);
  // kNotFound when there is no entry equal to this one.
  Result<> remove(const DirectoryNames& names, const DentryRecord& entry);
  // Gives the entry of that name another inode and type. kNotFound when there is none.
  Result<> replace(const DirectoryNames& names, const DentryRecord& entry);
  void put_into(meta::Batch& batch) const;

 private:
  using Place = std::pair<InodeNo, std::uint64_t>;  // directory and offset
  struct Item {
    std::vector<DentryRecord> entries;  // none: the item does not exist
    bool changed = false;
  };
  using Entry = std::vector<DentryRecord>::iterator;

  Result<Item*> item_at(InodeNo directory, std::uint64_t offset);
  // Walks the items from `name`'s hash on. `wanted(entry)` says whether it is the one.
  template <class Wanted>
  Result<std::optional<std::pair<std::uint64_t, Entry>>> locate(const DirectoryNames& names,
                                                                std::string_view name,
                                                                Wanted wanted);
  Result<> fill(const DirectoryNames& names, std::uint64_t hole);
  Result<std::optional<std::uint64_t>> fill_once(const DirectoryNames& names, std::uint64_t hole);

  const Read read_;
  std::map<Place, Item> items_;
};

}  // namespace lazyfs::fs
