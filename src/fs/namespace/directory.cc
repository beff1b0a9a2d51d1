#include "fs/namespace/directory.h"

#include <sys/stat.h>

#include "base/log.h"
#include "fs/inode/protection.h"
#include "fs/namespace/entry_changes.h"
#include "fs/namespace/inode_items.h"

namespace lazyfs::fs {
// ---- Looking up ---------------------------------------------------------------------------------

Result<InodeRef> Directories::lookup(InodeNo parent, std::string_view name) {
  TRY(check_name(name));
  ASSIGN_OR_RETURN(const InodeRef directory, names_.directory(parent));
  ASSIGN_OR_RETURN(NamedInode found, names_.find(*directory, name));
  return std::move(found.inode);
}

Result<std::vector<DirectoryEntry>> Directories::read(InodeNo number, std::uint64_t cookie,
                                                      std::size_t max_entries) {
  ASSIGN_OR_RETURN(const InodeRef directory, names_.directory(number));
  std::vector<DirectoryEntry> entries;
  if (cookie == meta::kMaxOffset) return entries;
  ReaderLock lock(directory->mu);
  ASSIGN_OR_RETURN(const auto items,
                   store_.scan(key_of(number, Kind::kDentrySeq, cookie + 1),
                               key_of(number, Kind::kDentrySeq, meta::kMaxOffset), max_entries));
  entries.reserve(items.size());
  for (const meta::Item& item : items) {
    auto entry = decode_dentry(item.value);
    if (!entry) {
      log::error("directory {}: entry with cookie {} is damaged", number.value, item.key.offset);
      return fail(entry.error());
    }
    entries.push_back({std::move(entry->name), entry->inode,
                       static_cast<std::uint32_t>(entry->type) << 12, item.key.offset});
  }
  return entries;
}

// ---- Making -------------------------------------------------------------------------------------

Result<InodeRef> Directories::make(InodeNo parent, std::string_view name, InodeRecord record,
                                   const AddItems& add_items) {
  TRY(check_name(name));
  ASSIGN_OR_RETURN(const InodeRef directory, names_.directory(parent));
  WriterLock lock(directory->mu);
  if (directory->deleted || directory->record.links == 0) return fail(Errc::kNotFound);
  EntryChanges changes(store_);
  const DirectoryNames names = names_.names_of(*directory);
  ASSIGN_OR_RETURN(const auto existing, changes.find(names, name));
  if (existing) return fail(Errc::kExists);
  TRY(check_takes_name(directory->record));

  InodeRecord directory_record = directory->record;
  const Timestamp now = change_time(clock_, {directory.get()});
  record.access = record.modification = record.change = record.birth = now;
  record.links = is_directory(record) ? 2 : 1;
  inherit(record, directory_record);
  if (is_directory(record)) {
    if (directory_record.links >= kMaxLinks) return fail(Errc::kTooManyLinks);
    record.parent = parent;
    ++directory_record.links;
  }
  touch_content(directory_record, now);

  ASSIGN_OR_RETURN(const InodeNo number, inode_numbers_.take());
  TRY(changes.add(names, directory_record, name, number, type_of(record)));
  meta::Batch batch;
  put_new_inode(batch, number, record);
  put_inode(batch, parent, directory_record);
  changes.put_into(batch);
  if (add_items) add_items(number, batch);
  InodeRef inode = inodes_.add(number);
  WriterLock inode_lock(inode->mu);
  TRY(store_.try_apply(batch));
  adopt(*directory, directory_record);
  InodeTable::fill(*inode, record);
  return inode;
}

Result<InodeRef> Directories::make_unnamed(InodeNo parent, InodeRecord record,
                                           const AddItems& add_items) {
  ASSIGN_OR_RETURN(const InodeRef directory, names_.directory(parent));
  ReaderLock lock(directory->mu);
  if (directory->deleted || directory->record.links == 0) return fail(Errc::kNotFound);
  TRY(check_takes_name(directory->record));
  record.access = record.modification = record.change = record.birth = clock_.now();
  record.links = 0;
  inherit(record, directory->record);
  ASSIGN_OR_RETURN(const InodeNo number, inode_numbers_.take());
  meta::Batch batch;
  put_new_inode(batch, number, record);
  put_orphan(batch, number);
  if (add_items) add_items(number, batch);
  InodeRef inode = inodes_.add(number);
  WriterLock inode_lock(inode->mu);
  TRY(store_.try_apply(batch));
  InodeTable::fill(*inode, record);
  return inode;
}

// An inode without a name may get one: the kernel only asks for inodes that never had a name.
Result<InodeRef> Directories::link(InodeNo number, InodeNo parent, std::string_view name) {
  TRY(check_name(name));
  ASSIGN_OR_RETURN(const InodeRef directory, names_.directory(parent));
  ASSIGN_OR_RETURN(InodeRef inode, inodes_.get(number));
  if (inode == directory) return fail(Errc::kNotPermitted);
  InodeLocks locks{directory.get(), inode.get()};
  directory->assert_held();
  inode->assert_held();
  if (is_directory(inode->record)) return fail(Errc::kNotPermitted);
  if (directory->deleted || directory->record.links == 0) return fail(Errc::kNotFound);
  if (inode->deleted) return fail(Errc::kNotFound);
  if (inode->record.links >= kMaxLinks) return fail(Errc::kTooManyLinks);
  EntryChanges changes(store_);
  const DirectoryNames names = names_.names_of(*directory);
  ASSIGN_OR_RETURN(const auto existing, changes.find(names, name));
  if (existing) return fail(Errc::kExists);
  TRY(check_takes_name(directory->record));
  TRY(check_unprotected(inode->record));

  InodeRecord directory_record = directory->record, record = inode->record;
  const Timestamp now = change_time(clock_, {directory.get(), inode.get()});
  touch_content(directory_record, now);
  record.change = now;
  ++record.links;
  TRY(changes.add(names, directory_record, name, number, type_of(record)));
  meta::Batch batch;
  put_inode(batch, number, for_tree(*inode, record));
  put_inode(batch, parent, directory_record);
  if (record.links == 1 && inode->truncate_pending) {  // I7
    put_orphan(batch, number, OrphanRecord::Work::kTruncate);
  } else if (record.links == 1) {
    batch.erase(key_of(kVolumeOwner, Kind::kOrphan, number.value));
  }
  changes.put_into(batch);
  TRY(store_.try_apply(batch));
  adopt(*directory, directory_record);
  inode->record = record;
  return inode;
}

// ---- Removing -----------------------------------------------------------------------------------

Result<> Directories::unlink(InodeNo parent, std::string_view name) {
  return remove_name(parent, name, false);
}

Result<> Directories::remove_directory(InodeNo parent, std::string_view name) {
  return remove_name(parent, name, true);
}

Result<> Directories::remove_name(InodeNo parent, std::string_view name, bool directory) {
  TRY(check_name(name));
  ASSIGN_OR_RETURN(const InodeRef from, names_.directory(parent));
  for (;;) {  // each further turn follows a change of the name by another thread
    ASSIGN_OR_RETURN(const auto named, names_.find(*from, name));
    const auto& [entry, child] = named;
    if (child == from) return fail(Errc::kItemBad);
    InodeLocks locks{from.get(), child.get()};
    from->assert_held();
    child->assert_held();
    EntryChanges changes(store_);
    ASSIGN_OR_RETURN(const auto still, changes.find(names_.names_of(*from), name));
    if (!still) return fail(Errc::kNotFound);
    if (still->inode == entry.inode) {
      return remove_locked(*from, *child, name, directory, changes);
    }
  }
}

Result<> Directories::remove_locked(Inode& parent, Inode& child, std::string_view name,
                                    bool directory, EntryChanges& changes) {
  TRY(check_gives_up_name(parent.record, child.record));
  if (directory && !is_directory(child.record)) return fail(Errc::kNotDirectory);
  if (!directory && is_directory(child.record)) return fail(Errc::kIsDirectory);
  if (directory && child.record.entries > 0) return fail(Errc::kNotEmpty);

  InodeRecord parent_record = parent.record, child_record = child.record;
  const Timestamp now = change_time(clock_, {&parent, &child});
  touch_content(parent_record, now);
  child_record.change = now;
  if (directory) {
    child_record.links = 0;
    --parent_record.links;
  } else {
    if (child_record.links == 0) return fail(Errc::kItemBad);
    --child_record.links;
  }
  TRY(changes.remove(names_.names_of(parent), parent_record, name));
  meta::Batch batch;
  changes.put_into(batch);
  put_inode(batch, parent.no, parent_record);
  put_inode(batch, child.no, for_tree(child, child_record));
  if (child_record.links == 0) put_orphan(batch, child.no);
  TRY(store_.try_apply(batch, meta::Reserve::kDelete));
  adopt(parent, parent_record);
  child.record = child_record;
  return ok();
}

}  // namespace lazyfs::fs
