// Names against inodes. A name that leads to nothing goes; an inode without a name gets one in
// /lost+found; a directory has one name, in its parent.
#include <sys/stat.h>

#include <algorithm>
#include <iterator>
#include <span>

#include "fsck/repair_context.h"

namespace lazyfs::fsck {
namespace {

constexpr std::string_view kLostAndFound = "lost+found";

class NameRepair {
 public:
  explicit NameRepair(RepairContext& context) : c_(context) {}

  void run() {
    std::ranges::sort(c_.names);
    check_targets();
    check_orphans();
    check_directories();
    break_cycles();
    apply_edits();
    adopt_nameless();
  }

 private:
  // What becomes of the names by which `directory` leads to `inode`.
  struct Edit {
    InodeNo directory, inode;
    std::uint8_t type = 0;  // the right one; 0: the names go
    bool keep_first = false;
    friend auto operator<=>(const Edit&, const Edit&) = default;
  };

  std::span<const NameFacts> names_of(InodeNo inode) const {
    const auto range = std::ranges::equal_range(c_.names, inode, {}, &NameFacts::inode);
    return {range.begin(), range.end()};
  }
  InodeFacts* find(InodeNo inode) { return c_.find_inode(inode); }
  bool is_to_be_deleted(InodeNo inode) const {
    const auto at = std::ranges::lower_bound(c_.orphans, inode, {}, &OrphanFacts::inode);
    return at != c_.orphans.end() && at->inode == inode && at->work == OrphanRecord::Work::kDelete;
  }

  void check_targets() {
    std::vector<NameFacts> keep;
    keep.reserve(c_.names.size());
    for (NameFacts name : c_.names) {
      const InodeFacts* inode = find(name.inode);
      if (!inode || name.inode == kRootInode) {
        edits_.push_back({name.directory, name.inode});
        continue;
      }
      if (inode->type != name.type) {
        edits_.push_back({name.directory, name.inode, inode->type});
        name.type = inode->type;
      }
      keep.push_back(name);
    }
    c_.names = std::move(keep);
    std::ranges::sort(c_.names);
  }

  void check_orphans() {
    std::vector<OrphanFacts> keep;
    for (const OrphanFacts& orphan : c_.orphans) {
      const InodeFacts* inode = find(orphan.inode);
      const bool deleted = orphan.work == OrphanRecord::Work::kDelete;
      std::string_view why;
      if (orphan.inode == kRootInode) why = "is the root";
      if (!inode) why = "does not exist";
      if (inode && deleted && !names_of(orphan.inode).empty()) why = "has a name";
      if (inode && !deleted && inode->type != kRegularType) why = "is no file";
      if (inode && inode->type == kSharedType) why = "is shared";
      if (inode && deleted && inode->type == kDirectoryType && has_names(orphan.inode)) {
        why = "is a directory that is not empty";
      }
      if (why.empty()) {
        keep.push_back(orphan);
        continue;
      }
      take_off(orphan, why, keep);
    }
    c_.orphans = std::move(keep);
  }

  // A file stays on the list where it maps blocks behind its end, which nobody cares for otherwise.
  void take_off(const OrphanFacts& orphan, std::string_view why, std::vector<OrphanFacts>& keep) {
    const meta::Key key = key_of(kVolumeOwner, Kind::kOrphan, orphan.inode.value);
    if (orphan.work == OrphanRecord::Work::kDelete && reaches_behind_end(orphan.inode)) {
      c_.tell("Inode {} was to be deleted, but {}: it is to be cut off at its end.",
              orphan.inode.value, why);
      keep.push_back({orphan.inode, OrphanRecord::Work::kTruncate});
      return c_.put(key, encode(OrphanRecord{OrphanRecord::Work::kTruncate}));
    }
    c_.tell("Inode {} was on the list of orphans, but {}: taken off.", orphan.inode.value, why);
    c_.erase(key);
  }

  bool reaches_behind_end(InodeNo no) {
    const InodeFacts* inode = find(no);
    if (!inode || inode->type != kRegularType) return false;
    const auto record = c_.inode(no);
    const auto last =
        c_.store.last_in(key_of(no, Kind::kExtent), key_of(no, Kind::kExtent, meta::kMaxOffset));
    if (!last) c_.fail_with(last.error());
    if (!record || !last || !*last) return false;
    const auto map = decode_map_record((**last).value);
    return map && (**last).key.offset + blocks_of(*map) > blocks_for(record->size);
  }

  // Of directories only, which are few among the orphans.
  bool has_names(InodeNo directory) {
    if (directories_.empty()) {
      for (const NameFacts& name : c_.names) {
        if (directories_.empty() || directories_.back() != name.directory) {
          directories_.push_back(name.directory);
        }
      }
      std::ranges::sort(directories_);
    }
    return std::ranges::binary_search(directories_, directory);
  }

  // One name each, in the parent.
  void check_directories() {
    std::vector<NameFacts> gone;
    for (InodeFacts& inode : c_.inodes) {
      if (inode.type != kDirectoryType || inode.inode == kRootInode) continue;
      const auto names = names_of(inode.inode);
      if (names.empty()) continue;
      const auto in_parent = std::ranges::find(names, inode.parent, &NameFacts::directory);
      const InodeNo keep = in_parent != names.end() ? inode.parent : names.front().directory;
      InodeNo edited{};
      std::size_t kept = 0;
      for (const NameFacts& name : names) {
        if (name.directory == keep) {
          if (++kept == 2) edits_.push_back({keep, inode.inode, 0, true});
          if (kept > 1) gone.push_back(name);
          continue;
        }
        if (name.directory != edited) edits_.push_back({name.directory, inode.inode});
        edited = name.directory;
        gone.push_back(name);
      }
      set_parent(inode, keep);
    }
    take_away(std::move(gone));
  }

  // Each once, if a name is there several times.
  void take_away(std::vector<NameFacts> gone) {
    std::ranges::sort(gone);
    std::vector<NameFacts> left;
    left.reserve(c_.names.size());
    std::ranges::set_difference(c_.names, gone, std::back_inserter(left));
    c_.names = std::move(left);
  }

  void set_parent(InodeFacts& inode, InodeNo parent) {
    if (inode.parent == parent) return;
    auto record = c_.inode(inode.inode);
    if (!record) return;
    c_.tell("Directory {} called {} its parent, but has its name in {}: set right.",
            inode.inode.value, inode.parent.value, parent.value);
    inode.parent = record->parent = parent;
    c_.put_inode(inode.inode, *record);
  }

  // A directory that is met twice on the way up loses its name, and is adopted below.
  void break_cycles() {
    enum class State : std::uint8_t { kUnknown, kOnThisWalk, kDone };
    std::vector<NameFacts> gone;
    std::vector<State> states(c_.inodes.size());
    const auto state_of = [&](const InodeFacts* inode) -> State& {
      return states[static_cast<std::size_t>(inode - c_.inodes.data())];
    };
    for (const InodeFacts& from : c_.inodes) {
      if (from.type != kDirectoryType) continue;
      std::vector<const InodeFacts*> walk;
      const InodeFacts* at = &from;
      while (at && state_of(at) == State::kUnknown) {
        state_of(at) = State::kOnThisWalk;
        walk.push_back(at);
        const auto names = names_of(at->inode);
        at = names.empty() || at->inode == kRootInode ? nullptr : find(names.front().directory);
      }
      if (at && state_of(at) == State::kOnThisWalk) {
        const NameFacts name = names_of(at->inode).front();
        edits_.push_back({name.directory, at->inode});
        gone.push_back(name);
      }
      for (const InodeFacts* inode : walk) state_of(inode) = State::kDone;
    }
    take_away(std::move(gone));
  }

  // One walk through each directory that has wrong names.
  void apply_edits() {
    std::ranges::sort(edits_);
    edits_.erase(std::unique(edits_.begin(), edits_.end()), edits_.end());
    for (std::size_t i = 0; i < edits_.size();) {
      std::size_t end = i;
      while (end < edits_.size() && edits_[end].directory == edits_[i].directory) ++end;
      apply_edits_of(std::span(edits_).subspan(i, end - i));
      i = end;
    }
  }

  void apply_edits_of(std::span<Edit> edits) {
    const InodeNo directory = edits.front().directory;
    c_.visit(key_of(directory, Kind::kDentryName),
             key_of(directory, Kind::kDentryName, meta::kMaxOffset), "",
             [&](const meta::Item& item) {
               const auto entries = decode_dentries(item.value);
               if (!entries) return;
               for (const DentryRecord& entry : *entries) {
                 for (Edit& edit : std::ranges::equal_range(edits, entry.inode, {}, &Edit::inode)) {
                   if (!edit_entry(edit, entry)) break;
                 }
               }
             });
  }

  // False when the entry is gone.
  bool edit_entry(Edit& edit, DentryRecord entry) {
    if (edit.type != 0) {
      if (entry.type == edit.type) return true;
      c_.tell("Directory {}: the name '{}' said that inode {} is a {}, but it is a {}: set right.",
              edit.directory.value, entry.name, entry.inode.value, type_name(entry.type),
              type_name(edit.type));
      entry.type = edit.type;
      put_entry(c_, edit.directory, entry);
      return true;
    }
    if (std::exchange(edit.keep_first, false)) return true;
    const bool exists = find(entry.inode) != nullptr;
    c_.tell("Directory {}: the name '{}' {} inode {}: removed.", edit.directory.value, entry.name,
            exists ? "was not the only one of directory" : "led nowhere, to", entry.inode.value);
    erase_entry(c_, edit.directory, entry);
    return false;
  }

  // ---- /lost+found ----

  void adopt_nameless() {
    std::vector<InodeFacts> nameless;
    for (const InodeFacts& inode : c_.inodes) {
      if (inode.inode != kRootInode && inode.type != kSharedType && names_of(inode.inode).empty() &&
          !is_to_be_deleted(inode.inode)) {
        nameless.push_back(inode);
      }
    }
    if (nameless.empty()) return;
    const InodeNo home = lost_and_found();
    for (const InodeFacts& inode : nameless) {
      if (inode.inode != home && c_.good()) adopt(home, inode);
    }
    std::ranges::sort(c_.names);
    std::ranges::sort(c_.inodes, {}, &InodeFacts::inode);
  }

  void adopt(InodeNo home, const InodeFacts& inode) {
    std::string name = fmt::format("#{}", inode.inode.value);
    for (std::size_t n = 1; find_name(c_, home, name); ++n) {
      name = fmt::format("#{}.{}", inode.inode.value, n);
    }
    c_.tell("Inode {} (a {}) had no name: it is /{}/{} now.", inode.inode.value,
            type_name(inode.type), kLostAndFound, name);
    add_name(c_, home, name, inode.inode, inode.type);
    c_.names.push_back({inode.inode, home, inode.type});
    c_.report.found_inodes += 1;
    if (inode.type != kDirectoryType) return;
    auto record = c_.inode(inode.inode);
    if (!record) return;
    record->parent = home;
    c_.put_inode(inode.inode, *record);
    if (InodeFacts* facts = find(inode.inode)) facts->parent = home;
  }

  // The directory; made when there is none. If the name is taken by something else, that moves.
  InodeNo lost_and_found() {
    if (const auto entry = find_name(c_, kRootInode, kLostAndFound)) {
      if (entry->type == kDirectoryType) return entry->inode;
      DentryRecord other = *entry;
      erase_entry(c_, kRootInode, *entry);
      std::size_t n = 0;
      do {
        other.name = fmt::format("{}.{}", kLostAndFound, ++n);
      } while (find_name(c_, kRootInode, other.name));
      c_.tell("The name '{}' was taken by a {}: it is '{}' now.", kLostAndFound,
              type_name(other.type), other.name);
      put_entry(c_, kRootInode, other);
    }
    const InodeNo home = c_.new_inode();
    InodeRecord record;
    record.mode = S_IFDIR | 0700;
    record.links = 2;
    record.parent = kRootInode;
    record.access = record.modification = record.change = record.birth = c_.now;
    c_.put_inode(home, record);
    add_name(c_, kRootInode, std::string(kLostAndFound), home, kDirectoryType);
    c_.inodes.push_back({home, kRootInode, 2, kDirectoryType});
    c_.names.push_back({home, kRootInode, kDirectoryType});
    return home;
  }

  RepairContext& c_;
  std::vector<Edit> edits_;
  std::vector<InodeNo> directories_;  // that names are in, for has_names()
};

}  // namespace

void repair_names(RepairContext& c) {
  c.progress("names", 0);
  NameRepair(c).run();
}

}  // namespace lazyfs::fsck
