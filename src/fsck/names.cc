// Names against inodes, on the facts that the pass over the inodes has collected: every name leads
// to an inode of its type; a directory has one name, in its parent, and lies under the root; the
// orphan list has the inodes without a name, to be deleted, and no others. A check drops from its
// facts what a repair would remove, so that both have the same findings.
#include <algorithm>
#include <iterator>

#include "fsck/directory_entries.h"
#include "fsck/lost_and_found.h"
#include "fsck/passes.h"

namespace lazyfs::fsck {
namespace {

class NamePass {
 public:
  explicit NamePass(Context& context) : c_(context) {}

  void run() {
    check_targets();
    check_orphans();
    check_directories();
    check_cycles();
    walk_wrong_names();
    check_links();
    find_nameless();
  }

 private:
  // Names by which `directory` leads to `inode`, and which are wrong.
  struct WrongName {
    enum class Why : std::uint8_t { kNoInode, kRoot, kType, kSecond, kCycle };
    InodeNo directory, inode;
    Why why = Why::kNoInode;
    std::uint8_t type = 0;    // the right one, of kType
    bool keep_first = false;  // of kSecond
    friend auto operator<=>(const WrongName&, const WrongName&) = default;
  };
  using Why = WrongName::Why;

  bool is_to_be_deleted(InodeNo inode) const {
    return c_.orphan_work(inode) == OrphanRecord::Work::kDelete;
  }

  // ---- names and what they lead to ----

  // The names that are right, or will be, stay in Context::names.
  void check_targets() {
    const auto is_wrong = [&](const NameFacts& name) {
      const InodeFacts* inode = c_.find_inode(name.inode);
      if (inode && name.inode != kRootInode) return false;
      wrong_.push_back({name.directory, name.inode, inode ? Why::kRoot : Why::kNoInode});
      return true;
    };
    std::erase_if(c_.names, is_wrong);
    for (NameFacts& name : c_.names) {  // all names of one inode get one type, and stay sorted
      const InodeFacts* inode = c_.find_inode(name.inode);
      if (inode->type == name.type) continue;
      wrong_.push_back({name.directory, name.inode, Why::kType, inode->type});
      name.type = inode->type;
    }
  }

  // Walks once through each directory that has wrong names, because the names' texts are not in
  // memory.
  void walk_wrong_names() {
    std::ranges::sort(wrong_);
    wrong_.erase(std::unique(wrong_.begin(), wrong_.end()), wrong_.end());
    for (std::size_t i = 0; i < wrong_.size();) {
      std::size_t end = i;
      while (end < wrong_.size() && wrong_[end].directory == wrong_[i].directory) ++end;
      walk(std::span(wrong_).subspan(i, end - i));
      i = end;
    }
  }

  // Removing a name may move other names to items that were visited already. So all are collected
  // first.
  void walk(std::span<WrongName> wrong) {
    std::vector<DentryRecord> found;
    c_.visit_kind(wrong.front().directory, Kind::kDentryName, [&](const meta::Item& item) {
      const auto entries = decode_dentries(item.value);
      if (!entries) return;
      for (const DentryRecord& entry : *entries) {
        if (std::ranges::binary_search(wrong, entry.inode, {}, &WrongName::inode)) {
          found.push_back(entry);
        }
      }
    });
    for (DentryRecord& entry : found) {
      for (WrongName& w : std::ranges::equal_range(wrong, entry.inode, {}, &WrongName::inode)) {
        if (!handle(w, entry)) break;
      }
    }
  }

  // False when the entry is removed. `entry` stays what the directory holds, so that a later
  // action on the same entry finds it.
  bool handle(WrongName& wrong, DentryRecord& entry) {
    if (wrong.why == Why::kType) return handle_type(wrong, entry);
    if (std::exchange(wrong.keep_first, false) || !is_to_be_removed(wrong, entry)) return true;
    erase_entry(c_, wrong.directory, entry);
    return false;
  }

  bool is_to_be_removed(const WrongName& wrong, const DentryRecord& entry) {
    if (wrong.why == Why::kNoInode) {
      const bool is_removed = c_.finding(
          Action::kRemove, "Directory {}: the name '{}' leads to inode {}, which does not exist",
          wrong.directory.value, entry.name, entry.inode.value);
      if (is_removed) c_.lost_name(wrong.directory, entry);
      return is_removed;
    }
    if (wrong.why == Why::kRoot) {
      return c_.finding(Action::kRemove, "Directory {} has a name for the root: '{}'",
                        wrong.directory.value, entry.name);
    }
    if (c_.repairs()) {  // the finding was that of the directory with the name
      c_.repaired("Directory {}: it has lost its name '{}' in directory {}", entry.inode.value,
                  entry.name, wrong.directory.value);
    }
    return c_.repairs();
  }

  bool handle_type(const WrongName& wrong, DentryRecord& entry) {
    if (entry.type == wrong.type ||
        !c_.finding(Action::kCorrect,
                    "Directory {}: the name '{}' says that inode {} is a {}, but it is a {}",
                    wrong.directory.value, entry.name, entry.inode.value, type_name(entry.type),
                    type_name(wrong.type))) {
      return true;
    }
    entry.type = wrong.type;
    put_entry(c_, wrong.directory, entry);
    return true;
  }

  // ---- the orphan list ----

  void check_orphans() {
    std::vector<OrphanFacts> keep;
    for (OrphanFacts orphan : c_.orphans) {
      const std::string objection = objection_to(orphan);
      if (objection.empty()) {
        keep.push_back(orphan);
        continue;
      }
      const bool is_delete = orphan.work == OrphanRecord::Work::kDelete;
      const bool repairs =
          c_.finding(Action::kCorrect, "Inode {} is to be {}, but {}", orphan.inode.value,
                     is_delete ? "deleted" : "truncated", objection);
      const meta::Key key = key_of(kVolumeOwner, Kind::kOrphan, orphan.inode.value);
      if (is_delete && reaches_past_end(orphan.inode)) {  // or nothing would free that
        orphan.work = OrphanRecord::Work::kTruncate;
        keep.push_back(orphan);
        if (repairs) c_.put(key, encode(OrphanRecord{orphan.work}));
      } else if (repairs) {
        c_.erase(key);
      }
    }
    c_.orphans = std::move(keep);
  }

  std::string objection_to(const OrphanFacts& orphan) {
    const InodeFacts* inode = c_.find_inode(orphan.inode);
    if (!inode) return "does not exist";
    if (orphan.inode == kRootInode) return "is the root";
    if (inode->type == kSharedType) return "is a shared-extent inode";
    if (orphan.work == OrphanRecord::Work::kTruncate) {
      if (inode->type == kRegularType) return "";
      return fmt::format("is a {}", type_name(inode->type));
    }
    const std::size_t names = c_.names_of(orphan.inode).size();
    if (names > 0) return fmt::format("has {} names", names);
    const bool is_directory = inode->type == kDirectoryType;
    return is_directory && has_entries(orphan.inode) ? "is a directory that is not empty" : "";
  }

  bool reaches_past_end(InodeNo no) {
    const InodeFacts* inode = c_.find_inode(no);
    if (!inode || inode->type != kRegularType) return false;
    const auto record = c_.inode(no);
    const auto last =
        c_.store.last_in(key_of(no, Kind::kExtent), key_of(no, Kind::kExtent, meta::kMaxOffset));
    if (!last) c_.fail_with(last.error());
    if (!record || !last || !*last) return false;
    const auto map = decode_map_record((**last).value);
    return map && (**last).key.offset + blocks_of(*map) > blocks_for(record->size);
  }

  // Asked only of directories on the orphan list, which are few.
  bool has_entries(InodeNo directory) {
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

  // ---- directories ----

  void check_directories() {
    std::vector<NameFacts> removed;
    for (InodeFacts& inode : c_.inodes) {
      if (inode.type != kDirectoryType || inode.inode == kRootInode) continue;
      const auto names = c_.names_of(inode.inode);
      if (names.empty()) continue;
      const auto in_parent = std::ranges::find(names, inode.parent, &NameFacts::directory);
      const InodeNo keep = in_parent != names.end() ? inode.parent : names.front().directory;
      if (names.size() > 1) {
        c_.finding(Action::kCorrect, "Directory {} has {} names, in directories {} and {}",
                   inode.inode.value, names.size(), names[0].directory.value,
                   names[1].directory.value);
        keep_one(names, keep, removed);
      }
      check_parent(inode, keep);
    }
    remove_names(std::move(removed));
  }

  void keep_one(std::span<const NameFacts> names, InodeNo keep, std::vector<NameFacts>& removed) {
    InodeNo last{};
    std::size_t kept = 0;
    for (const NameFacts& name : names) {
      if (name.directory == keep) {
        if (++kept == 2) wrong_.push_back({keep, name.inode, Why::kSecond, 0, true});
        if (kept > 1) removed.push_back(name);
        continue;
      }
      if (name.directory != last) wrong_.push_back({name.directory, name.inode, Why::kSecond});
      last = name.directory;
      removed.push_back(name);
    }
  }

  // Removes one entry of Context::names for each of `removed`.
  void remove_names(std::vector<NameFacts> removed) {
    if (removed.empty()) return;
    std::ranges::sort(removed);
    std::vector<NameFacts> left;
    left.reserve(c_.names.size());
    std::ranges::set_difference(c_.names, removed, std::back_inserter(left));
    c_.names = std::move(left);
  }

  void check_parent(InodeFacts& inode, InodeNo parent) {
    if (inode.parent == parent) return;
    if (!inode.is_mended) {
      c_.finding(Action::kCorrect,
                 "Directory {} has its name in directory {}, but calls {} its parent",
                 inode.inode.value, parent.value, inode.parent.value);
    }
    inode.parent = parent;
    auto record = c_.repairs() ? c_.inode(inode.inode) : std::nullopt;
    if (!record) return;
    record->parent = parent;
    c_.put_inode(inode.inode, *record);
  }

  // Follows each directory's names up to the root. A directory that is its own ancestor loses its
  // name.
  void check_cycles() {
    enum class State : std::uint8_t { kUnknown, kOnThisWalk, kDone };
    std::vector<NameFacts> removed;
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
        const auto names = c_.names_of(at->inode);
        const bool is_top = names.empty() || at->inode == kRootInode;
        at = is_top ? nullptr : c_.find_inode(names.front().directory);
      }
      if (at && state_of(at) == State::kOnThisWalk) {
        c_.finding(Action::kCorrect,
                   "Directory {} lies in itself: its names never lead to the root",
                   at->inode.value);
        const NameFacts name = c_.names_of(at->inode).front();
        wrong_.push_back({name.directory, at->inode, Why::kCycle});
        removed.push_back(name);
        cut_off_.push_back(at->inode);
      }
      for (const InodeFacts* inode : walk) state_of(inode) = State::kDone;
    }
    remove_names(std::move(removed));
    std::ranges::sort(cut_off_);
  }

  // ---- link counts, and inodes without names ----

  // A repair corrects them later: recount.cc. Files refer to a shared-extent inode by its number
  // alone.
  void check_links() {
    for (const InodeFacts& inode : c_.inodes) {
      const std::size_t names = c_.names_of(inode.inode).size();
      if (inode.is_mended) continue;
      if (inode.type == kSharedType) {
        if (inode.links == 1) continue;
        c_.finding(Action::kCorrect, "Shared-extent inode {} has link count {} where 1 is due",
                   inode.inode.value, inode.links);
      } else if (is_to_be_deleted(inode.inode)) {
        if (inode.links == 0) continue;
        c_.finding(Action::kCorrect, "Inode {} is to be deleted, but has link count {}",
                   inode.inode.value, inode.links);
      } else if (inode.type != kDirectoryType && names > 0 && inode.links != names) {
        c_.finding(Action::kCorrect, "Inode {} has link count {}, but {} names lead to it",
                   inode.inode.value, inode.links, names);
      }
    }
  }

  void find_nameless() {
    std::vector<InodeFacts> nameless;
    for (const InodeFacts& inode : c_.inodes) {
      if (inode.inode == kRootInode || inode.type == kSharedType ||
          !c_.names_of(inode.inode).empty() || is_to_be_deleted(inode.inode)) {
        continue;
      }
      if (!std::ranges::binary_search(cut_off_, inode.inode)) {
        c_.finding(Action::kMove, "Inode {} (a {}) has no name, and is not to be deleted",
                   inode.inode.value, type_name(inode.type));
      }
      if (c_.repairs()) nameless.push_back(inode);
    }
    LostAndFound(c_).adopt(nameless);
  }

  Context& c_;
  std::vector<WrongName> wrong_;
  std::vector<InodeNo> cut_off_;      // directories that lay in themselves
  std::vector<InodeNo> directories_;  // that have entries, for has_entries()
};

}  // namespace

void names_pass(Context& c) {
  c.progress_now("names", {c.names.size(), c.names.size()});
  std::ranges::sort(c.names);
  if (c.report.complete) return NamePass(c).run();
  c.problem(
      "Link counts, names and shared blocks were not compared, because not all metadata can be "
      "read");
}

}  // namespace lazyfs::fsck
