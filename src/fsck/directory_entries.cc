#include "fsck/directory_entries.h"

#include <algorithm>

namespace lazyfs::fsck {
namespace {

meta::Key name_key(Context& c, InodeNo directory, std::string_view name) {
  return key_of(directory, Kind::kDentryName, name_hash(name, c.name_seed));
}

std::vector<DentryRecord> entries_at(Context& c, meta::Key key) {
  const auto value = c.get(key);
  if (!value) return {};
  auto entries = decode_dentries(*value);
  return entries ? std::move(*entries) : std::vector<DentryRecord>{};
}

}  // namespace

std::optional<DentryRecord> find_name(Context& c, InodeNo directory, std::string_view name) {
  for (DentryRecord& entry : entries_at(c, name_key(c, directory, name))) {
    if (entry.name == name) return std::move(entry);
  }
  return std::nullopt;
}

std::uint64_t free_cookie(Context& c, InodeNo directory, std::uint64_t next) {
  const auto last = c.store.last_in(key_of(directory, Kind::kDentrySeq),
                                    key_of(directory, Kind::kDentrySeq, kMaxCookie));
  if (!last) c.fail_with(last.error());
  const std::uint64_t after = last && *last ? (**last).key.offset + 1 : 1;
  return next <= kMaxCookie ? std::max(next, after) : after;
}

void put_entry(Context& c, InodeNo directory, const DentryRecord& entry) {
  const meta::Key key = name_key(c, directory, entry.name);
  std::vector<DentryRecord> entries = entries_at(c, key);
  std::erase_if(entries, [&](const DentryRecord& other) { return other.name == entry.name; });
  entries.push_back(entry);
  meta::Batch batch;
  batch.put(key, encode(entries));
  batch.put(key_of(directory, Kind::kDentrySeq, entry.cookie), encode(entry));
  c.apply(batch);
}

void erase_entry(Context& c, InodeNo directory, const DentryRecord& entry) {
  const meta::Key key = name_key(c, directory, entry.name);
  std::vector<DentryRecord> entries = entries_at(c, key);
  std::erase(entries, entry);
  meta::Batch batch;
  if (entries.empty()) {
    batch.erase(key);
  } else {
    batch.put(key, encode(entries));
  }
  const meta::Key twin = key_of(directory, Kind::kDentrySeq, entry.cookie);
  const auto value = c.get(twin);
  const auto decoded = value ? decode_dentry(*value) : fail(Errc::kItemBad);
  if (decoded && decoded->name == entry.name) batch.erase(twin);
  c.apply(batch);
}

void add_name(Context& c, InodeNo directory, std::string name, InodeNo inode, std::uint8_t type) {
  auto record = c.inode(directory);
  if (!record) return;
  const std::uint64_t cookie = free_cookie(c, directory, record->next_cookie);
  record->next_cookie = cookie + 1;
  c.put_inode(directory, *record);
  put_entry(c, directory, {inode, cookie, type, std::move(name)});
}

}  // namespace lazyfs::fsck
