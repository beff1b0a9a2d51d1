#include "fs/namespace/name_items.h"

#include <algorithm>

namespace lazyfs::fs {
namespace {

bool has_room(const std::vector<DentryRecord>& entries, const DentryRecord& more) {
  std::size_t bytes = encoded_bytes(more);
  for (const DentryRecord& entry : entries) bytes += encoded_bytes(entry);
  return bytes <= meta::kMaxValueBytes;
}

}  // namespace

Result<NameItems::Item*> NameItems::item_at(InodeNo directory, std::uint64_t offset) {
  const Place place{directory, offset};
  if (const auto found = items_.find(place); found != items_.end()) return &found->second;
  Item item;
  ASSIGN_OR_RETURN(const auto value, read_(key_of(directory, Kind::kDentryName, offset)));
  if (value) {
    ASSIGN_OR_RETURN(item.entries, decode_dentries(*value));
  }
  return &items_.emplace(place, std::move(item)).first->second;
}

template <class Wanted>
Result<std::optional<std::pair<std::uint64_t, NameItems::Entry>>> NameItems::locate(
    const DirectoryNames& names, std::string_view name, Wanted wanted) {
  const std::uint64_t hash = names.hash(name);
  for (std::uint64_t d = 0; d < kMaxChainItems && hash + d >= hash; ++d) {
    ASSIGN_OR_RETURN(Item * item, item_at(names.directory, hash + d));
    if (item->entries.empty()) break;  // N1
    const auto found = std::ranges::find_if(item->entries, wanted);
    if (found != item->entries.end()) return std::pair(hash + d, found);
  }
  return std::nullopt;
}

Result<std::optional<DentryRecord>> NameItems::find(const DirectoryNames& names,
                                                    std::string_view name) {
  ASSIGN_OR_RETURN(const auto found, locate(names, name, [&](const DentryRecord& entry) {
                     return entry.name == name;
                   }));
  return found ? std::optional(*found->second) : std::nullopt;
}

Result<> NameItems::add(const DirectoryNames& names, DentryRecord entry) {
  const std::uint64_t hash = names.hash(entry.name);
  for (std::uint64_t d = 0; d < kMaxChainItems && hash + d >= hash; ++d) {
    ASSIGN_OR_RETURN(Item * item, item_at(names.directory, hash + d));
    if (!has_room(item->entries, entry)) continue;
    item->entries.push_back(std::move(entry));
    item->changed = true;
    return ok();
  }
  return fail(Errc::kNoSpace);
}

Result<> NameItems::remove(const DirectoryNames& names, const DentryRecord& entry) {
  ASSIGN_OR_RETURN(const auto found, locate(names, entry.name, [&](const DentryRecord& other) {
                     return other == entry;
                   }));
  if (!found) return fail(Errc::kNotFound);
  Item& item = items_[{names.directory, found->first}];
  item.entries.erase(found->second);
  item.changed = true;
  return item.entries.empty() ? fill(names, found->first) : ok();
}

Result<> NameItems::replace(const DirectoryNames& names, const DentryRecord& entry) {
  ASSIGN_OR_RETURN(const auto found, locate(names, entry.name, [&](const DentryRecord& other) {
                     return other.name == entry.name;
                   }));
  if (!found) return fail(Errc::kNotFound);
  *found->second = entry;
  items_[{names.directory, found->first}].changed = true;
  return ok();
}

// N1: the search for a name must not end at the item that has become empty. The last name whose
// search passes it moves into it; if that empties another item, the same is done there. The bound
// ends this in a damaged directory.
Result<> NameItems::fill(const DirectoryNames& names, std::uint64_t hole) {
  for (std::uint64_t moves = 0; moves < kMaxChainItems; ++moves) {
    ASSIGN_OR_RETURN(const auto emptied, fill_once(names, hole));
    if (!emptied) return ok();
    hole = *emptied;
  }
  return fail(Errc::kItemBad);
}

// Returns the offset of an item that this has emptied.
Result<std::optional<std::uint64_t>> NameItems::fill_once(const DirectoryNames& names,
                                                          std::uint64_t hole) {
  std::uint64_t from = 0;
  std::optional<Entry> last;
  for (std::uint64_t step = 1; step < kMaxChainItems && hole + step > hole; ++step) {
    ASSIGN_OR_RETURN(Item * item, item_at(names.directory, hole + step));
    if (item->entries.empty()) break;
    for (auto entry = item->entries.begin(); entry != item->entries.end(); ++entry) {
      const std::uint64_t displacement = hole + step - names.hash(entry->name);
      if (displacement < step || displacement >= kMaxChainItems) continue;
      from = hole + step;
      last = entry;
    }
  }
  if (!last) return std::nullopt;
  Item& to = items_[{names.directory, hole}];
  to.entries.push_back(std::move(**last));
  to.changed = true;
  Item& source = items_[{names.directory, from}];
  source.entries.erase(*last);
  source.changed = true;
  return source.entries.empty() ? std::optional(from) : std::nullopt;
}

void NameItems::put_into(meta::Batch& batch) const {
  for (const auto& [place, item] : items_) {
    if (!item.changed) continue;
    const meta::Key key = key_of(place.first, Kind::kDentryName, place.second);
    if (item.entries.empty()) {
      batch.erase(key);
    } else {
      batch.put(key, encode(std::span(item.entries)));
    }
  }
}

}  // namespace lazyfs::fs
