#include "fsck/directory_entries.h"

#include <algorithm>
#include <utility>

namespace lazyfs::fsck {
namespace {

// A damaged item counts as absent, so that a new item can replace it.
NameItems name_items(Context& c) {
  return NameItems([&c](meta::Key key) -> Result<std::optional<meta::Value>> {
    auto value = c.get(key);
    if (value && !decode_dentries(*value)) value.reset();
    return value;
  });
}

DirectoryNames names_of(Context& c, InodeNo directory) {
  return {directory, c.seed_of_names(c.inode(directory))};
}

// Applies the changes of `items`, and of `batch`.
void apply(Context& c, const Result<>& done, const NameItems& items, meta::Batch batch = {}) {
  if (!done) return c.fail_with(done.error());
  items.put_into(batch);
  c.apply(batch);
}

}  // namespace

std::optional<DentryRecord> find_name(Context& c, const DirectoryNames& names,
                                      std::string_view name) {
  auto found = name_items(c).find(names, name);
  if (!found) c.fail_with(found.error());
  return found ? std::move(*found) : std::nullopt;
}

std::optional<DentryRecord> find_name(Context& c, InodeNo directory, std::string_view name) {
  return find_name(c, names_of(c, directory), name);
}

void put_name(Context& c, const DirectoryNames& names, const DentryRecord& entry) {
  NameItems items = name_items(c);
  const auto added = items.add(names, entry);
  apply(c, added, items);
}

std::uint64_t free_cookie(Context& c, InodeNo directory, std::uint64_t next) {
  const auto last = c.store.last_in(key_of(directory, Kind::kDentrySeq),
                                    key_of(directory, Kind::kDentrySeq, kMaxCookie));
  if (!last) c.fail_with(last.error());
  const std::uint64_t after = last && *last ? (**last).key.offset + 1 : 1;
  return next <= kMaxCookie ? std::max(next, after) : after;
}

void put_entry(Context& c, InodeNo directory, const DentryRecord& entry) {
  const DirectoryNames names = names_of(c, directory);
  NameItems items = name_items(c);
  auto done = items.replace(names, entry);
  if (!done && done.error() == Errc::kNotFound) done = items.add(names, entry);
  meta::Batch batch;
  batch.put(key_of(directory, Kind::kDentrySeq, entry.cookie), encode(entry));
  apply(c, done, items, std::move(batch));
}

void erase_entry(Context& c, InodeNo directory, const DentryRecord& entry) {
  NameItems items = name_items(c);
  auto removed = items.remove(names_of(c, directory), entry);
  if (!removed && removed.error() == Errc::kNotFound) removed = ok();
  meta::Batch batch;
  const meta::Key twin = key_of(directory, Kind::kDentrySeq, entry.cookie);
  const auto value = c.get(twin);
  const auto decoded = value ? decode_dentry(*value) : fail(Errc::kItemBad);
  if (decoded && decoded->name == entry.name) batch.erase(twin);
  apply(c, removed, items, std::move(batch));
}

void add_name(Context& c, InodeNo directory, std::string name, InodeNo inode, std::uint8_t type) {
  const auto record = c.inode(directory);
  if (!record) return;
  const std::uint64_t cookie = free_cookie(c, directory, record->next_cookie);
  put_entry(c, directory, {inode, cookie, type, std::move(name)});
}

}  // namespace lazyfs::fsck
