#include "fs/namespace/rename.h"

#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <optional>

#include "base/log.h"
#include "fs/inode/protection.h"
#include "fs/namespace/entry_changes.h"
#include "fs/namespace/inode_items.h"

namespace lazyfs::fs {

struct Renames::Move {
  InodeRef from, to;  // the two directories; may be one
  std::string_view from_name, to_name;
  DentryRecord moved;                  // the entry that moves
  std::optional<DentryRecord> target;  // what has the new name
  InodeRef child, victim;              // their inodes; victim may be null

  // Working copies; to_record is unused when both directories are one.
  InodeRecord from_record, to_record, child_record, victim_record;
  InodeRecord& to_record_ref() { return from == to ? from_record : to_record; }
  Timestamp time(Clock& clock) const {
    return change_time(clock, {from.get(), to.get(), child.get(), victim.get()});
  }
  bool moves_directory() const {
    constexpr std::uint8_t kDirectory = S_IFDIR >> 12;
    return moved.type == kDirectory || (target && target->type == kDirectory);
  }
  // For -Wthread-safety: InodeLocks holds the locks of all four.
  void assert_held() const
      LAZYFS_TSA(assert_capability(from->mu, to->mu, child->mu, victim->mu)) {}
};

// Walks up from `new_parent`: meeting `moved` means that it would become its own ancestor. In a
// damaged volume the parents may run in a circle. `mark` is the directory met after 1, 2, 4, 8, ...
// steps: a walk in a circle meets it again (Brent).
Result<> Renames::check_no_loop(InodeNo moved, InodeNo new_parent) {
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

Result<> Renames::rename(InodeNo from_parent, std::string_view from_name, InodeNo to_parent,
                         std::string_view to_name, RenameFlags flags) {
  TRY(check_name(from_name));
  TRY(check_name(to_name));
  Move move;
  move.from_name = from_name;
  move.to_name = to_name;
  ASSIGN_OR_RETURN(move.from, names_.directory(from_parent));
  ASSIGN_OR_RETURN(move.to, names_.directory(to_parent));
  for (;;) {  // each further turn follows a change of one of the names by another thread
    ASSIGN_OR_RETURN(NamedInode moved, names_.find(*move.from, from_name));
    move.moved = std::move(moved.entry);
    move.child = std::move(moved.inode);
    auto target = names_.find(*move.to, to_name);
    if (!target && target.error() != Errc::kNotFound) return fail(target.error());
    move.target = target ? std::optional(std::move(target->entry)) : std::nullopt;
    move.victim = target ? std::move(target->inode) : InodeRef();
    ASSIGN_OR_RETURN(const bool done, try_rename(move, flags));
    if (done) return ok();
  }
}

Result<bool> Renames::try_rename(Move& move, RenameFlags flags) {
  if (!move.moves_directory() || move.from == move.to) return change_names(move, flags);
  MutexLock one_move(move_mu_);
  TRY(check_no_loop(move.moved.inode, move.to->no));
  if (flags.exchange && move.target) TRY(check_no_loop(move.target->inode, move.from->no));
  return change_names(move, flags);
}

Result<bool> Renames::change_names(Move& move, RenameFlags flags) {
  if (move.target && flags.no_replace) return fail(Errc::kExists);
  if (!move.target && flags.exchange) return fail(Errc::kNotFound);
  if (move.child == move.from || move.victim == move.to) return fail(Errc::kItemBad);
  // The directory that would be replaced holds the one that moves: it cannot be empty.
  if (move.victim == move.from && !flags.exchange) return fail(Errc::kNotEmpty);
  if (move.child == move.to) return fail(Errc::kCrossDirectoryLoop);

  InodeLocks locks{move.from.get(), move.to.get(), move.child.get(), move.victim.get()};
  move.assert_held();
  EntryChanges changes(store_);
  ASSIGN_OR_RETURN(const auto moved, changes.find(names_.names_of(*move.from), move.from_name));
  ASSIGN_OR_RETURN(const auto target, changes.find(names_.names_of(*move.to), move.to_name));
  if (moved != move.moved || target != move.target) return false;
  if (move.to->deleted || move.to->record.links == 0) return fail(Errc::kNotFound);
  if (move.child == move.victim) return true;  // two names of one inode: nothing happens

  move.from_record = move.from->record;
  move.to_record = move.to->record;
  move.child_record = move.child->record;
  if (move.victim) move.victim_record = move.victim->record;
  TRY(check_gives_up_name(move.from_record, move.child_record));
  TRY(check_takes_name(move.to_record));
  if (move.victim) TRY(check_gives_up_name(move.to_record, move.victim_record));
  if (flags.exchange) {
    TRY(exchange_locked(move, changes));
  } else {
    TRY(rename_locked(move, changes, flags.whiteout));
  }
  return true;
}

// A name that is replaced keeps its cookie, and so does an entry that stays in its directory: a
// program that renames the entries that it reads must not read them again, or it would never end.
Result<> Renames::move_entry(Move& move, EntryChanges& changes) {
  move.assert_held();
  if (!move.victim && move.from == move.to) {
    return changes.rename(names_.names_of(*move.from), move.from_name, move.to_name);
  }
  TRY(changes.remove(names_.names_of(*move.from), move.from_record, move.from_name));
  if (move.victim) {
    return changes.repoint(names_.names_of(*move.to), move.to_name, move.child->no,
                           move.moved.type);
  }
  return changes.add(names_.names_of(*move.to), move.to_record, move.to_name, move.child->no,
                     move.moved.type);
}

// After the entry has moved.
Result<> Renames::add_whiteout(Move& move, Owner owner, Timestamp now, EntryChanges& changes,
                               meta::Batch& batch) {
  move.assert_held();
  InodeRecord record;
  record.mode = S_IFCHR;
  record.owner = owner;
  record.links = 1;
  record.access = record.modification = record.change = record.birth = now;
  inherit(record, move.from_record);
  ASSIGN_OR_RETURN(const InodeNo number, inode_numbers_.take());
  put_new_inode(batch, number, record);
  return changes.add(names_.names_of(*move.from), move.from_record, move.from_name, number,
                     type_of(record));
}

Result<> Renames::rename_locked(Move& move, EntryChanges& changes,
                                const std::optional<Owner>& whiteout) {
  move.assert_held();
  InodeRecord& to_record = move.to_record_ref();
  const bool directory = is_directory(move.child_record);
  const Timestamp now = move.time(clock_);
  meta::Batch batch;
  if (move.victim) {
    const bool over_directory = is_directory(move.victim_record);
    if (directory && !over_directory) return fail(Errc::kNotDirectory);
    if (!directory && over_directory) return fail(Errc::kIsDirectory);
    if (over_directory && move.victim_record.entries > 0) return fail(Errc::kNotEmpty);
    if (move.victim_record.links == 0) return fail(Errc::kItemBad);
    move.victim_record.links = over_directory ? 0 : move.victim_record.links - 1;
    move.victim_record.change = now;
    if (over_directory) --to_record.links;
    put_inode(batch, move.victim->no, for_tree(*move.victim, move.victim_record));
    if (move.victim_record.links == 0) put_orphan(batch, move.victim->no);
  }
  TRY(move_entry(move, changes));
  if (whiteout) TRY(add_whiteout(move, *whiteout, now, changes, batch));
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
  TRY(store_.try_apply(batch));
  adopt(*move.from, move.from_record);
  if (!(move.from == move.to)) adopt(*move.to, move.to_record);
  move.child->record = move.child_record;
  if (move.victim) move.victim->record = move.victim_record;
  return ok();
}

Result<> Renames::exchange_locked(Move& move, EntryChanges& changes) {
  move.assert_held();
  InodeRecord& to_record = move.to_record_ref();
  const Timestamp now = move.time(clock_);
  TRY(changes.repoint(names_.names_of(*move.from), move.from_name, move.victim->no,
                      move.target->type));
  TRY(changes.repoint(names_.names_of(*move.to), move.to_name, move.child->no, move.moved.type));
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
    if (std::max(move.from_record.links, to_record.links) > kMaxLinks) {
      return fail(Errc::kTooManyLinks);
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
  TRY(store_.try_apply(batch));
  adopt(*move.from, move.from_record);
  if (!(move.from == move.to)) adopt(*move.to, move.to_record);
  move.child->record = move.child_record;
  move.victim->record = move.victim_record;
  return ok();
}

}  // namespace lazyfs::fs
