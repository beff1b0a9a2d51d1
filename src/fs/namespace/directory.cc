#include "fs/namespace/directory.h"

#include <sys/stat.h>

#include <algorithm>
#include <bit>

#include "base/log.h"

namespace lazyfs::fs {
namespace {

bool is_directory(const InodeRecord& record) { return S_ISDIR(record.mode); }
std::uint8_t type_of(const InodeRecord& record) {
  return static_cast<std::uint8_t>((record.mode & S_IFMT) >> 12);
}

void put_inode(meta::Batch& batch, InodeNo inode, const InodeRecord& record) {
  batch.put(key_of(inode, Kind::kInode), encode(record));
}

void put_orphan(meta::Batch& batch, InodeNo inode,
                OrphanRecord::Work work = OrphanRecord::Work::kDelete) {
  batch.put(key_of(kVolumeOwner, Kind::kOrphan, inode.value), encode(OrphanRecord{work}));
}

void touch_content(InodeRecord& record, Timestamp now) {
  record.modification = now;
  record.change = now;
}

// A set-group-ID directory passes on its group.
void inherit_group(InodeRecord& record, const InodeRecord& directory) {
  if ((directory.mode & S_ISGID) == 0) return;
  record.owner.gid = directory.owner.gid;
  if (is_directory(record)) record.mode |= S_ISGID;
}

// After a batch with this record was applied, memory and tree agree.
void adopt(Inode& inode, const InodeRecord& record) REQUIRES(inode.mu) {
  inode.record = record;
  inode.record_dirty = false;
}

}  // namespace

Result<> check_name(std::string_view name) {
  if (name.size() > kMaxNameBytes) return fail(Errc::kNameTooLong);
  if (name.empty() || name == "." || name == ".." || name.find('/') != name.npos ||
      name.find('\0') != name.npos) {
    return fail(Errc::kInvalid);
  }
  return ok();
}

// ---- EntryChanges -------------------------------------------------------------------------------

Result<EntryChanges::Bucket*> EntryChanges::bucket_of(InodeNo directory, std::string_view name) {
  const std::uint64_t hash = name_hash(name, seed_);
  for (Bucket& bucket : buckets_) {
    if (bucket.directory == directory && bucket.hash == hash) return &bucket;
  }
  Bucket bucket{directory, hash, {}};
  ASSIGN_OR_RETURN(const auto value, store_.get(key_of(directory, Kind::kDentryName, hash)));
  if (value) {
    ASSIGN_OR_RETURN(bucket.entries, decode_dentries(*value));
  }
  buckets_.reserve(4);  // pointers to buckets stay valid: one batch touches at most four
  buckets_.push_back(std::move(bucket));
  return &buckets_.back();
}

Result<std::optional<DentryRecord>> EntryChanges::find(InodeNo directory, std::string_view name) {
  ASSIGN_OR_RETURN(const Bucket* bucket, bucket_of(directory, name));
  const auto found = std::ranges::find(bucket->entries, name, &DentryRecord::name);
  if (found == bucket->entries.end()) return std::nullopt;
  return *found;
}

Result<> EntryChanges::add(InodeNo directory, InodeRecord& record, std::string_view name,
                           InodeNo inode, std::uint8_t type) {
  ASSIGN_OR_RETURN(Bucket * bucket, bucket_of(directory, name));
  bucket->entries.push_back({inode, record.next_cookie, type, std::string(name)});
  if (encode(std::span(bucket->entries)).size() > meta::kMaxValueBytes) {
    return fail(Errc::kNoSpace);  // more names with one 64-bit hash than an item holds
  }
  seq_puts_.emplace_back(key_of(directory, Kind::kDentrySeq, record.next_cookie),
                         encode(bucket->entries.back()));
  ++record.next_cookie;
  ++record.entries;
  return ok();
}

Result<> EntryChanges::remove(InodeNo directory, InodeRecord& record, std::string_view name) {
  ASSIGN_OR_RETURN(Bucket * bucket, bucket_of(directory, name));
  const auto found = std::ranges::find(bucket->entries, name, &DentryRecord::name);
  if (found == bucket->entries.end()) return fail(Errc::kNotFound);
  seq_erases_.push_back(key_of(directory, Kind::kDentrySeq, found->cookie));
  bucket->entries.erase(found);
  if (record.entries == 0) return fail(Errc::kItemBad);
  --record.entries;
  return ok();
}

Result<> EntryChanges::repoint(InodeNo directory, std::string_view name, InodeNo inode,
                               std::uint8_t type) {
  ASSIGN_OR_RETURN(Bucket * bucket, bucket_of(directory, name));
  const auto found = std::ranges::find(bucket->entries, name, &DentryRecord::name);
  if (found == bucket->entries.end()) return fail(Errc::kNotFound);
  found->inode = inode;
  found->type = type;
  seq_puts_.emplace_back(key_of(directory, Kind::kDentrySeq, found->cookie), encode(*found));
  return ok();
}

Result<> EntryChanges::rename(InodeNo directory, std::string_view from, std::string_view to) {
  ASSIGN_OR_RETURN(Bucket * source, bucket_of(directory, from));
  ASSIGN_OR_RETURN(Bucket * target, bucket_of(directory, to));
  const auto found = std::ranges::find(source->entries, from, &DentryRecord::name);
  if (found == source->entries.end()) return fail(Errc::kNotFound);
  DentryRecord entry = std::move(*found);
  source->entries.erase(found);
  entry.name = to;
  seq_puts_.emplace_back(key_of(directory, Kind::kDentrySeq, entry.cookie), encode(entry));
  target->entries.push_back(std::move(entry));
  if (encode(std::span(target->entries)).size() > meta::kMaxValueBytes) {
    return fail(Errc::kNoSpace);  // as in add()
  }
  return ok();
}

void EntryChanges::put_into(meta::Batch& batch) const {
  for (const Bucket& bucket : buckets_) {
    const meta::Key key = key_of(bucket.directory, Kind::kDentryName, bucket.hash);
    if (bucket.entries.empty()) {
      batch.erase(key);
    } else {
      batch.put(key, encode(std::span(bucket.entries)));
    }
  }
  for (const meta::Key& key : seq_erases_) batch.erase(key);
  for (const auto& [key, value] : seq_puts_) batch.put(key, value);
}

// ---- Looking up ---------------------------------------------------------------------------------

Result<std::optional<DentryRecord>> Directories::find(InodeNo directory, std::string_view name) {
  ASSIGN_OR_RETURN(const auto value,
                   store_.get(key_of(directory, Kind::kDentryName, name_hash(name, seed_))));
  if (!value) return std::nullopt;
  ASSIGN_OR_RETURN(auto entries, decode_dentries(*value));
  const auto found = std::ranges::find(entries, name, &DentryRecord::name);
  if (found == entries.end()) return std::nullopt;
  return std::move(*found);
}

Result<InodeRef> Directories::get_directory(InodeNo number) {
  ASSIGN_OR_RETURN(InodeRef inode, inodes_.get(number));
  ReaderLock lock(inode->mu);
  if (!is_directory(inode->record)) return fail(Errc::kNotDirectory);
  return inode;
}

Result<DentryRecord> Directories::find_existing(Inode& directory, std::string_view name) {
  ReaderLock lock(directory.mu);
  ASSIGN_OR_RETURN(auto entry, find(directory.no, name));
  if (!entry) return fail(Errc::kNotFound);
  return std::move(*entry);
}

// An inode number is never used twice, and an inode is deleted after its last name. So a name that
// still leads to the missing inode is damage. A name that leads to another inode by now was changed
// by another thread, and is looked up again.
Result<Directories::Named> Directories::find_named(Inode& directory, std::string_view name) {
  InodeNo missing{};
  for (;;) {
    ASSIGN_OR_RETURN(DentryRecord entry, find_existing(directory, name));
    if (entry.inode == missing) break;
    auto inode = inodes_.get(entry.inode);
    if (inode) return Named{std::move(entry), std::move(*inode)};
    if (inode.error() != Errc::kStale) return fail(inode.error());
    missing = entry.inode;
  }
  log::error("directory {}: '{}' leads to no inode", directory.no.value, name);
  return fail(Errc::kItemBad);
}

Result<InodeRef> Directories::lookup(InodeNo parent, std::string_view name) {
  TRY(check_name(name));
  ASSIGN_OR_RETURN(const InodeRef directory, get_directory(parent));
  ASSIGN_OR_RETURN(Named found, find_named(*directory, name));
  return std::move(found.inode);
}

Result<std::vector<DirectoryEntry>> Directories::read(InodeNo number, std::uint64_t cookie,
                                                      std::size_t max_entries) {
  ASSIGN_OR_RETURN(const InodeRef directory, get_directory(number));
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
                                   const Extras& extras) {
  TRY(check_name(name));
  ASSIGN_OR_RETURN(const InodeRef directory, get_directory(parent));
  WriterLock lock(directory->mu);
  if (directory->deleted || directory->record.links == 0) return fail(Errc::kNotFound);
  EntryChanges changes(store_, seed_);
  ASSIGN_OR_RETURN(const auto existing, changes.find(parent, name));
  if (existing) return fail(Errc::kExists);

  InodeRecord directory_record = directory->record;
  const Timestamp now = clock_.now();
  record.access = record.modification = record.change = record.birth = now;
  record.links = is_directory(record) ? 2 : 1;
  inherit_group(record, directory_record);
  if (is_directory(record)) {
    if (directory_record.links >= kMaxLinks) return fail(Errc::kTooManyLinks);
    record.parent = parent;
    ++directory_record.links;
  }
  touch_content(directory_record, now);

  ASSIGN_OR_RETURN(const InodeNo number, numbers_.take());
  TRY(changes.add(parent, directory_record, name, number, type_of(record)));
  meta::Batch batch;
  put_inode(batch, number, record);
  put_inode(batch, parent, directory_record);
  changes.put_into(batch);
  if (extras) extras(number, batch);
  TRY(store_.apply(batch));
  adopt(*directory, directory_record);
  return inodes_.insert(number, record);
}

Result<InodeRef> Directories::make_unnamed(InodeNo parent, InodeRecord record,
                                           const Extras& extras) {
  ASSIGN_OR_RETURN(const InodeRef directory, get_directory(parent));
  ReaderLock lock(directory->mu);
  if (directory->deleted || directory->record.links == 0) return fail(Errc::kNotFound);
  record.access = record.modification = record.change = record.birth = clock_.now();
  record.links = 0;
  inherit_group(record, directory->record);
  ASSIGN_OR_RETURN(const InodeNo number, numbers_.take());
  meta::Batch batch;
  put_inode(batch, number, record);
  put_orphan(batch, number);
  if (extras) extras(number, batch);
  TRY(store_.apply(batch));
  return inodes_.insert(number, record);
}

// An inode without a name may get one: the kernel lets only those through that never had one.
Result<InodeRef> Directories::link(InodeNo number, InodeNo parent, std::string_view name) {
  TRY(check_name(name));
  ASSIGN_OR_RETURN(const InodeRef directory, get_directory(parent));
  ASSIGN_OR_RETURN(InodeRef inode, inodes_.get(number));
  if (inode == directory) return fail(Errc::kNotPermitted);
  InodeLocks locks{directory.get(), inode.get()};
  if (is_directory(inode->record)) return fail(Errc::kNotPermitted);
  if (directory->deleted || directory->record.links == 0) return fail(Errc::kNotFound);
  if (inode->deleted) return fail(Errc::kNotFound);
  if (inode->record.links >= kMaxLinks) return fail(Errc::kTooManyLinks);
  EntryChanges changes(store_, seed_);
  ASSIGN_OR_RETURN(const auto existing, changes.find(parent, name));
  if (existing) return fail(Errc::kExists);

  InodeRecord directory_record = directory->record, record = inode->record;
  const Timestamp now = clock_.now();
  touch_content(directory_record, now);
  record.change = now;
  ++record.links;
  TRY(changes.add(parent, directory_record, name, number, type_of(record)));
  meta::Batch batch;
  put_inode(batch, number, for_tree(*inode, record));
  put_inode(batch, parent, directory_record);
  if (record.links == 1 && inode->truncate_pending) {  // I7
    put_orphan(batch, number, OrphanRecord::Work::kTruncate);
  } else if (record.links == 1) {
    batch.erase(key_of(kVolumeOwner, Kind::kOrphan, number.value));
  }
  changes.put_into(batch);
  TRY(store_.apply(batch));
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
  ASSIGN_OR_RETURN(const InodeRef from, get_directory(parent));
  for (;;) {  // each further turn follows a change of the name by another thread
    ASSIGN_OR_RETURN(const auto named, find_named(*from, name));
    const auto& [entry, child] = named;
    if (child == from) return fail(Errc::kItemBad);
    InodeLocks locks{from.get(), child.get()};
    EntryChanges changes(store_, seed_);
    ASSIGN_OR_RETURN(const auto still, changes.find(parent, name));
    if (!still) return fail(Errc::kNotFound);
    if (still->inode == entry.inode) {
      return remove_locked(*from, *child, name, directory, changes);
    }
  }
}

Result<> Directories::remove_locked(Inode& parent, Inode& child, std::string_view name,
                                    bool directory, EntryChanges& changes) {
  if (directory && !is_directory(child.record)) return fail(Errc::kNotDirectory);
  if (!directory && is_directory(child.record)) return fail(Errc::kIsDirectory);
  if (directory && child.record.entries > 0) return fail(Errc::kNotEmpty);

  InodeRecord parent_record = parent.record, child_record = child.record;
  const Timestamp now = clock_.now();
  touch_content(parent_record, now);
  child_record.change = now;
  if (directory) {
    child_record.links = 0;
    --parent_record.links;
  } else {
    if (child_record.links == 0) return fail(Errc::kItemBad);
    --child_record.links;
  }
  TRY(changes.remove(parent.no, parent_record, name));
  meta::Batch batch;
  changes.put_into(batch);
  put_inode(batch, parent.no, parent_record);
  put_inode(batch, child.no, for_tree(child, child_record));
  if (child_record.links == 0) put_orphan(batch, child.no);
  TRY(store_.apply(batch, meta::Reserve::kDelete));
  adopt(parent, parent_record);
  child.record = child_record;
  return ok();
}

// ---- Renaming -----------------------------------------------------------------------------------

struct Directories::Move {
  InodeRef from, to;  // the two directories; may be one
  std::string_view from_name, to_name;
  DentryRecord moved;                  // the entry that moves
  std::optional<DentryRecord> target;  // what has the new name
  InodeRef child, victim;              // their inodes; victim may be null

  // Working copies; to_record is unused when both directories are one.
  InodeRecord from_record, to_record, child_record, victim_record;
  InodeRecord& to_record_ref() { return from == to ? from_record : to_record; }
};

// Walks up from `new_parent`: meeting `moved` means that it would become its own ancestor. In a
// damaged volume the parents may run in a circle. `mark` is the directory met after 1, 2, 4, 8, ...
// steps: a walk in a circle meets it again (Brent).
Result<> Directories::check_no_loop(InodeNo moved, InodeNo new_parent) {
  InodeNo at = new_parent, mark{};
  for (std::uint64_t steps = 1; at != kRootInode; ++steps) {
    if (at == moved) return fail(Errc::kCrossDirectoryLoop);
    if (at == mark) {
      log::error("directory {}: its parents lead back to it, not to the root", at.value);
      return fail(Errc::kItemBad);
    }
    if (std::has_single_bit(steps)) mark = at;
    ASSIGN_OR_RETURN(const InodeRef inode, inodes_.get(at));
    ReaderLock lock(inode->mu);
    at = inode->record.parent;
  }
  return ok();
}

Result<> Directories::rename(InodeNo from_parent, std::string_view from_name, InodeNo to_parent,
                             std::string_view to_name, RenameFlags flags) {
  TRY(check_name(from_name));
  TRY(check_name(to_name));
  Move move;
  move.from_name = from_name;
  move.to_name = to_name;
  ASSIGN_OR_RETURN(move.from, get_directory(from_parent));
  ASSIGN_OR_RETURN(move.to, get_directory(to_parent));
  for (;;) {  // each further turn follows a change of one of the names by another thread
    ASSIGN_OR_RETURN(Named moved, find_named(*move.from, from_name));
    move.moved = std::move(moved.entry);
    move.child = std::move(moved.inode);
    auto target = find_named(*move.to, to_name);
    if (!target && target.error() != Errc::kNotFound) return fail(target.error());
    move.target = target ? std::optional(std::move(target->entry)) : std::nullopt;
    move.victim = target ? std::move(target->inode) : InodeRef();
    ASSIGN_OR_RETURN(const bool done, try_rename(move, flags));
    if (done) return ok();
  }
}

// False when the names have changed since they were looked up.
Result<bool> Directories::try_rename(Move& move, RenameFlags flags) {
  const bool moves_directory =
      move.moved.type == (S_IFDIR >> 12) || (move.target && move.target->type == (S_IFDIR >> 12));
  std::optional<MutexLock> one_move;
  if (moves_directory && !(move.from == move.to)) {
    one_move.emplace(move_mu_);
    TRY(check_no_loop(move.moved.inode, move.to->no));
    if (flags.exchange && move.target) TRY(check_no_loop(move.target->inode, move.from->no));
  }
  if (move.target && flags.no_replace) return fail(Errc::kExists);
  if (!move.target && flags.exchange) return fail(Errc::kNotFound);
  // The directory that would be replaced holds the one that moves: it cannot be empty.
  if (move.victim == move.from && !flags.exchange) return fail(Errc::kNotEmpty);
  if (move.child == move.to) return fail(Errc::kCrossDirectoryLoop);

  InodeLocks locks{move.from.get(), move.to.get(), move.child.get(), move.victim.get()};
  EntryChanges changes(store_, seed_);
  ASSIGN_OR_RETURN(const auto moved, changes.find(move.from->no, move.from_name));
  ASSIGN_OR_RETURN(const auto target, changes.find(move.to->no, move.to_name));
  if (moved != move.moved || target != move.target) return false;
  if (move.to->deleted || move.to->record.links == 0) return fail(Errc::kNotFound);
  if (move.child == move.victim) return true;  // two names of one inode: nothing happens

  move.from_record = move.from->record;
  move.to_record = move.to->record;
  move.child_record = move.child->record;
  if (move.victim) move.victim_record = move.victim->record;
  if (flags.exchange) {
    TRY(exchange_locked(move, changes));
  } else {
    TRY(rename_locked(move, changes));
  }
  return true;
}

// A name that is replaced keeps its place, and so does an entry that stays in its directory: who
// renames what he reads must not meet it again, or he would never come to the end.
Result<> Directories::move_entry(Move& move, EntryChanges& changes) {
  if (!move.victim && move.from == move.to) {
    return changes.rename(move.from->no, move.from_name, move.to_name);
  }
  TRY(changes.remove(move.from->no, move.from_record, move.from_name));
  if (move.victim) {
    return changes.repoint(move.to->no, move.to_name, move.child->no, move.moved.type);
  }
  return changes.add(move.to->no, move.to_record, move.to_name, move.child->no, move.moved.type);
}

Result<> Directories::rename_locked(Move& move, EntryChanges& changes) {
  InodeRecord& to_record = move.to_record_ref();
  const bool directory = is_directory(move.child_record);
  const Timestamp now = clock_.now();
  meta::Batch batch;
  if (move.victim) {
    const bool over_directory = is_directory(move.victim_record);
    if (directory && !over_directory) return fail(Errc::kNotDirectory);
    if (!directory && over_directory) return fail(Errc::kIsDirectory);
    if (over_directory && move.victim_record.entries > 0) return fail(Errc::kNotEmpty);
    move.victim_record.links = over_directory ? 0 : move.victim_record.links - 1;
    move.victim_record.change = now;
    if (over_directory) --to_record.links;
    put_inode(batch, move.victim->no, for_tree(*move.victim, move.victim_record));
    if (move.victim_record.links == 0) put_orphan(batch, move.victim->no);
  }
  TRY(move_entry(move, changes));
  if (directory && !(move.from == move.to)) {
    if (to_record.links >= kMaxLinks) return fail(Errc::kTooManyLinks);
    --move.from_record.links;
    ++to_record.links;
    move.child_record.parent = move.to->no;
  }
  move.child_record.change = now;
  touch_content(move.from_record, now);
  touch_content(to_record, now);

  put_inode(batch, move.from->no, move.from_record);
  if (!(move.from == move.to)) put_inode(batch, move.to->no, move.to_record);
  put_inode(batch, move.child->no, for_tree(*move.child, move.child_record));
  changes.put_into(batch);
  TRY(store_.apply(batch));
  adopt(*move.from, move.from_record);
  if (!(move.from == move.to)) adopt(*move.to, move.to_record);
  move.child->record = move.child_record;
  if (move.victim) move.victim->record = move.victim_record;
  return ok();
}

Result<> Directories::exchange_locked(Move& move, EntryChanges& changes) {
  InodeRecord& to_record = move.to_record_ref();
  const Timestamp now = clock_.now();
  TRY(changes.repoint(move.from->no, move.from_name, move.victim->no, move.target->type));
  TRY(changes.repoint(move.to->no, move.to_name, move.child->no, move.moved.type));
  if (!(move.from == move.to)) {
    if (is_directory(move.child_record)) {
      --move.from_record.links;
      ++to_record.links;
      move.child_record.parent = move.to->no;
    }
    if (is_directory(move.victim_record)) {
      --to_record.links;
      ++move.from_record.links;
      move.victim_record.parent = move.from->no;
    }
  }
  move.child_record.change = move.victim_record.change = now;
  touch_content(move.from_record, now);
  touch_content(to_record, now);

  meta::Batch batch;
  put_inode(batch, move.from->no, move.from_record);
  if (!(move.from == move.to)) put_inode(batch, move.to->no, move.to_record);
  put_inode(batch, move.child->no, for_tree(*move.child, move.child_record));
  put_inode(batch, move.victim->no, for_tree(*move.victim, move.victim_record));
  changes.put_into(batch);
  TRY(store_.apply(batch));
  adopt(*move.from, move.from_record);
  if (!(move.from == move.to)) adopt(*move.to, move.to_record);
  move.child->record = move.child_record;
  move.victim->record = move.victim_record;
  return ok();
}

}  // namespace lazyfs::fs
