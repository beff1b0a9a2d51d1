#include "fs/namespace/entry_changes.h"

#include <string>

namespace lazyfs::fs {

Result<DentryRecord> EntryChanges::existing(const DirectoryNames& names, std::string_view name) {
  ASSIGN_OR_RETURN(auto entry, names_.find(names, name));
  if (!entry) return fail(Errc::kNotFound);
  return std::move(*entry);
}

void EntryChanges::put_by_cookie(InodeNo directory, const DentryRecord& entry) {
  cookie_puts_.emplace_back(key_of(directory, Kind::kDentrySeq, entry.cookie), encode(entry));
}

Result<> EntryChanges::add(const DirectoryNames& names, InodeRecord& record, std::string_view name,
                           InodeNo inode, std::uint8_t type) {
  DentryRecord entry{inode, record.next_cookie, type, std::string(name)};
  put_by_cookie(names.directory, entry);
  TRY(names_.add(names, std::move(entry)));
  ++record.next_cookie;
  ++record.entries;
  return ok();
}

Result<> EntryChanges::remove(const DirectoryNames& names, InodeRecord& record,
                              std::string_view name) {
  ASSIGN_OR_RETURN(const DentryRecord entry, existing(names, name));
  TRY(names_.remove(names, entry));
  cookie_erases_.push_back(key_of(names.directory, Kind::kDentrySeq, entry.cookie));
  if (record.entries == 0) return fail(Errc::kItemBad);
  --record.entries;
  return ok();
}

Result<> EntryChanges::repoint(const DirectoryNames& names, std::string_view name, InodeNo inode,
                               std::uint8_t type) {
  ASSIGN_OR_RETURN(DentryRecord entry, existing(names, name));
  entry.inode = inode;
  entry.type = type;
  put_by_cookie(names.directory, entry);
  return names_.replace(names, entry);
}

Result<> EntryChanges::rename(const DirectoryNames& names, std::string_view from,
                              std::string_view to) {
  ASSIGN_OR_RETURN(DentryRecord entry, existing(names, from));
  TRY(names_.remove(names, entry));
  entry.name = to;
  put_by_cookie(names.directory, entry);
  return names_.add(names, std::move(entry));
}

void EntryChanges::put_into(meta::Batch& batch) const {
  names_.put_into(batch);
  for (const meta::Key& key : cookie_erases_) batch.erase(key);
  for (const auto& [key, value] : cookie_puts_) batch.put(key, value);
}

}  // namespace lazyfs::fs
