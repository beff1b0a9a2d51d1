// Names against inodes: link counts, parents, reachability from the root, orphans. Works on the
// records that the pass over the inodes has left: CheckContext::inodes, names and orphans.
#include <algorithm>
#include <span>

#include "fsck/check_context.h"

namespace lazyfs::fsck {
namespace {

// The name of `inode` in `directory`, for messages; "" when it cannot be found.
std::string name_in(CheckContext& c, InodeNo directory, InodeNo inode) {
  std::string name;
  c.visit(key_of(directory, Kind::kDentryName),
          key_of(directory, Kind::kDentryName, meta::kMaxOffset), "", [&](const meta::Item& item) {
            const auto entries = decode_dentries(item.value);
            if (!entries || !name.empty()) return;
            const auto found = std::ranges::find(*entries, inode, &DentryRecord::inode);
            if (found != entries->end()) name = found->name;
          });
  return name;
}

std::span<const NameFacts> names_of(const CheckContext& c, InodeNo inode) {
  const auto range = std::ranges::equal_range(c.names, inode, {}, &NameFacts::inode);
  return {range.begin(), range.end()};
}

void check_root(CheckContext& c) {
  const InodeFacts* root = c.find_inode(kRootInode);
  if (!root) return c.problem("The root directory (inode {}) does not exist.", kRootInode.value);
  if (root->type != kDirectoryType)
    c.problem("The root (inode {}) is no directory.", root->inode.value);
  if (root->parent != kRootInode) {
    c.problem("The root's parent is inode {} instead of itself.", root->parent.value);
  }
}

// Names that lead nowhere, or say another type than the inode.
void check_targets(CheckContext& c) {
  for (const NameFacts& name : c.names) {
    const InodeFacts* inode = c.find_inode(name.inode);
    if (!inode) {
      c.problem("Directory {}: the name '{}' leads to inode {}, which does not exist.",
                name.directory.value, name_in(c, name.directory, name.inode), name.inode.value);
    } else if (inode->type != name.type) {
      c.problem("Directory {}: the name '{}' says that inode {} is a {}, but it is a {}.",
                name.directory.value, name_in(c, name.directory, name.inode), name.inode.value,
                type_name(name.type), type_name(inode->type));
    }
  }
}

void check_directory_names(CheckContext& c, const InodeFacts& inode,
                           std::span<const NameFacts> names) {
  if (inode.inode == kRootInode) {
    for (const NameFacts& name : names) {
      c.problem("Directory {} has a name for the root.", name.directory.value);
    }
    return;
  }
  if (names.size() > 1) {
    c.problem("Directory {} has {} names, in directories {} and {}.", inode.inode.value,
              names.size(), names[0].directory.value, names[1].directory.value);
  }
  if (!names.empty() && names[0].directory != inode.parent) {
    c.problem("Directory {} has its name in directory {}, but calls {} its parent.",
              inode.inode.value, names[0].directory.value, inode.parent.value);
  }
}

// Files find it by its number alone.
void check_shared(CheckContext& c, const InodeFacts& inode, std::span<const NameFacts> names) {
  if (inode.links != 1) {
    c.problem("Shared inode {} has link count {} where 1 is due.", inode.inode.value, inode.links);
  }
  for (const NameFacts& name : names) {
    c.problem("Directory {} has a name for shared inode {}.", name.directory.value,
              inode.inode.value);
  }
  if (c.orphan_work(inode.inode)) {
    c.problem("Shared inode {} is on the list of orphans.", inode.inode.value);
  }
}

void check_links(CheckContext& c, const InodeFacts& inode) {
  const auto names = names_of(c, inode.inode);
  if (inode.type == kSharedType) return check_shared(c, inode, names);
  const auto work = c.orphan_work(inode.inode);
  const bool to_be_deleted = work == OrphanRecord::Work::kDelete;
  if (work == OrphanRecord::Work::kTruncate && inode.type != kRegularType) {
    c.problem("Inode {} is a {}, but is to be truncated.", inode.inode.value,
              type_name(inode.type));
  }
  if (to_be_deleted && (!names.empty() || inode.links != 0)) {
    c.problem("Inode {} is to be deleted, but has link count {} and {} names.", inode.inode.value,
              inode.links, names.size());
  }
  if (inode.type == kDirectoryType) {
    check_directory_names(c, inode, names);
  } else if (inode.links != names.size()) {
    c.problem("Inode {} has link count {}, but {} names lead to it.", inode.inode.value,
              inode.links, names.size());
  }
  if (names.empty() && !to_be_deleted && inode.inode != kRootInode) {
    c.problem("Inode {} (a {}) has no name, and is not to be deleted.", inode.inode.value,
              type_name(inode.type));
  }
}

void check_orphans(CheckContext& c) {
  for (const OrphanFacts& orphan : c.orphans) {
    if (!c.find_inode(orphan.inode)) {
      c.problem("Inode {} is on the list of orphans, but does not exist.", orphan.inode.value);
    }
  }
}

// Follows each directory's names up to the root. Directories without a name were reported before.
class Reachability {
 public:
  explicit Reachability(CheckContext& context) : c_(context), state_(context.inodes.size()) {}

  void run() {
    for (const InodeFacts& inode : c_.inodes) {
      if (inode.type == kDirectoryType) walk_up(inode);
    }
  }

 private:
  enum class State : std::uint8_t { kUnknown, kOnThisWalk, kDone };

  State& state_of(const InodeFacts& inode) {
    return state_[static_cast<std::size_t>(&inode - c_.inodes.data())];
  }
  const InodeFacts* above(const InodeFacts& inode) const {
    const auto names = names_of(c_, inode.inode);
    return names.empty() || inode.inode == kRootInode ? nullptr
                                                      : c_.find_inode(names.front().directory);
  }

  void walk_up(const InodeFacts& from) {
    std::vector<const InodeFacts*> walk;
    const InodeFacts* at = &from;
    while (at && state_of(*at) == State::kUnknown) {
      state_of(*at) = State::kOnThisWalk;
      walk.push_back(at);
      at = above(*at);
    }
    if (at && state_of(*at) == State::kOnThisWalk) {
      c_.problem("Directory {} lies in itself: its names never lead to the root.", at->inode.value);
    }
    for (const InodeFacts* inode : walk) state_of(*inode) = State::kDone;
  }

  CheckContext& c_;
  std::vector<State> state_;
};

}  // namespace

void check_names(CheckContext& c) {
  c.progress("names", c.names.size(), true);
  std::ranges::sort(c.names);
  if (!c.report.complete) {
    return c.problem(
        "Link counts, names and shared blocks were not compared, for not all metadata can be "
        "read.");
  }
  check_root(c);
  check_targets(c);
  for (const InodeFacts& inode : c.inodes) check_links(c, inode);
  check_orphans(c);
  Reachability(c).run();
}

std::string path_of(CheckContext& c, InodeNo inode) {
  std::string path;
  // Bounded, for the names of a damaged volume may run in a circle.
  for (std::size_t depth = 0; inode != kRootInode && depth <= c.report.directories; ++depth) {
    const auto names = names_of(c, inode);
    if (names.empty()) return "";
    path = "/" + name_in(c, names.front().directory, inode) + path;
    inode = names.front().directory;
  }
  return inode == kRootInode ? path : "";
}

}  // namespace lazyfs::fsck
