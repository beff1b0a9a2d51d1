#include "crash/model.h"

#include <sys/stat.h>

#include "base/check.h"
#include "fs/item/attributes.h"

namespace lazyfs::crash {

Model::Model() {
  Node root;
  root.mode = S_IFDIR | 0755;
  root.links = 2;
  root.parent = fs::kRootInode.value;
  nodes_[fs::kRootInode.value] = std::make_shared<const Node>(std::move(root));
}

Model::Model(const Observation& durable) {
  for (const auto& [inode, is] : durable.inodes) {
    Node node{is.attributes.mode, is.attributes.links, is.attributes.flags, is.parent,
              is.entries, is.target, is.xattrs, Contents(is.contents)};
    nodes_[inode] = std::make_shared<const Node>(std::move(node));
  }
}

// ---- Looking ------------------------------------------------------------------------------------

std::optional<std::uint64_t> Model::find(std::string_view path) const {
  std::uint64_t inode = fs::kRootInode.value;
  while (!path.empty() && path != "/") {
    path.remove_prefix(1);
    const std::string_view name = path.substr(0, path.find('/'));
    path.remove_prefix(name.size());
    const auto& entries = node(inode).entries;
    const auto entry = entries.find(std::string(name));
    if (entry == entries.end()) return std::nullopt;
    inode = entry->second;
  }
  return inode;
}

std::uint64_t Model::at(std::string_view path) const {
  const auto inode = find(path);
  CHECK(inode.has_value());
  return *inode;
}

std::uint64_t Model::size_of(std::string_view path) const {
  const auto inode = find(path);
  return inode ? node(*inode).contents.size() : 0;
}

bool Model::is_directory(std::string_view path) const {
  const auto inode = find(path);
  return inode && S_ISDIR(node(*inode).mode);
}

bool Model::is_file(std::string_view path) const {
  const auto inode = find(path);
  return inode && S_ISREG(node(*inode).mode);
}

std::optional<std::uint64_t> Model::held(std::size_t index) const {
  if (held_.empty()) return std::nullopt;
  return held_[index % held_.size()];
}

Model Model::only(std::string_view folder) const {
  Model part;
  Node root = node(fs::kRootInode.value);
  std::erase_if(root.entries, [&](const auto& entry) { return entry.first != folder; });
  root.links = 2 + static_cast<std::uint32_t>(root.entries.size());
  std::vector<std::uint64_t> next;
  for (const auto& [name, inode] : root.entries) next.push_back(inode);
  part.nodes_[fs::kRootInode.value] = std::make_shared<const Node>(std::move(root));
  while (!next.empty()) {
    const std::uint64_t inode = next.back();
    next.pop_back();
    part.nodes_[inode] = nodes_.at(inode);
    for (const auto& [name, below] : node(inode).entries) next.push_back(below);
  }
  return part;
}

// ---- Changing -----------------------------------------------------------------------------------

Model::Node& Model::change(std::uint64_t inode) {
  auto copy = std::make_shared<Node>(node(inode));
  Node& changed = *copy;
  nodes_[inode] = std::move(copy);
  return changed;
}

Model::Node& Model::change(std::string_view path) { return change(at(path)); }

Model::Place Model::place_of(std::string_view path) const {
  const std::size_t slash = path.rfind('/');
  CHECK(slash != path.npos);
  return {at(path.substr(0, slash)), std::string(path.substr(slash + 1))};
}

void Model::add_name(std::string_view path, std::uint64_t inode) {
  const Place place = place_of(path);
  CHECK(change(place.directory).entries.emplace(place.name, inode).second);
}

// Removes the inode with its last name.
void Model::drop_name(const Place& place) {
  Node& directory = change(place.directory);
  const std::uint64_t inode = directory.entries.at(place.name);
  directory.entries.erase(place.name);
  Node& dropped = change(inode);
  if (S_ISDIR(dropped.mode)) {
    CHECK(dropped.entries.empty());
    --change(place.directory).links;
    dropped.links = 0;
  } else {
    --dropped.links;
  }
  if (dropped.links == 0) nodes_.erase(inode);
}

void Model::make(const Operation& o, std::uint64_t made, std::uint32_t mode) {
  CHECK(made != 0 && !nodes_.contains(made));
  Node fresh;
  fresh.mode = mode;
  fresh.links = 1;
  fresh.flags = node(place_of(o.path).directory).flags & (fs::kNoDump | fs::kNoAccessTime);
  if (S_ISLNK(mode)) fresh.target = o.other;
  if (S_ISDIR(mode)) {
    fresh.links = 2;
    fresh.parent = place_of(o.path).directory;
    ++change(fresh.parent).links;
  }
  nodes_[made] = std::make_shared<const Node>(std::move(fresh));
  add_name(o.path, made);
}

void Model::rename(std::string_view from, std::string_view to) {
  const std::uint64_t moved = at(from);
  const auto victim = find(to);
  if (victim == moved) return;
  if (victim) drop_name(place_of(to));
  const Place old = place_of(from);
  change(old.directory).entries.erase(old.name);
  add_name(to, moved);
  const std::uint64_t parent = place_of(to).directory;
  if (!S_ISDIR(node(moved).mode) || parent == old.directory) return;
  --change(old.directory).links;
  ++change(parent).links;
  change(moved).parent = parent;
}

void Model::exchange(std::string_view from, std::string_view to) {
  const Place a = place_of(from), b = place_of(to);
  const std::uint64_t in_a = at(from), in_b = at(to);
  change(a.directory).entries[a.name] = in_b;
  change(b.directory).entries[b.name] = in_a;
  if (a.directory == b.directory) return;
  const auto move = [&](std::uint64_t inode, std::uint64_t old_parent, std::uint64_t parent) {
    if (!S_ISDIR(node(inode).mode)) return;
    --change(old_parent).links;
    ++change(parent).links;
    change(inode).parent = parent;
  };
  move(in_a, a.directory, b.directory);
  move(in_b, b.directory, a.directory);
}

void Model::whiteout(const Operation& o, std::uint64_t made) {
  if (find(o.other) == at(o.path)) return;
  rename(o.path, o.other);
  make(o, made, S_IFCHR);
}

// The model has no inodes without a name, even if a file is held open.
void Model::write(const Operation& o, std::uint64_t inode) {
  if (!nodes_.contains(inode)) return;
  Contents& contents = change(inode).contents;
  const std::uint64_t offset = o.offset == kAtEnd ? contents.size() : o.offset;
  contents.write(offset, text_of(o.tag, offset, o.length));
}

void Model::sync() {
  std::vector<std::uint64_t> files;
  for (const auto& [inode, node] : nodes_) {
    if (S_ISREG(node->mode)) files.push_back(inode);
  }
  for (const std::uint64_t file : files) change(file).contents.make_durable();
}

void Model::change_range(const Operation& o) {
  Contents& contents = change(o.path).contents;
  const std::uint64_t end = o.offset + o.length, size = contents.size();
  const std::uint64_t until = o.act == Act::kPunch ? std::min(end, size) : end;
  if (o.offset < until) contents.write(o.offset, std::string(until - o.offset, '\0'));
}

// Applies a copy as a write of the source's bytes.
void Model::copy(const Operation& o, std::uint64_t copied) {
  if (copied == 0) return;  // the source has no bytes in the range
  const std::string source = node(at(o.path)).contents.now();
  CHECK(copied <= o.length && o.offset + copied <= source.size());
  change(o.other).contents.write(o.to, std::string_view(source).substr(o.offset, copied));
}

// One transaction changes the maps of both files, after all earlier writes to them. So a state with
// this or a later transaction has no older contents of the two files.
void Model::share(const Operation& o) {
  copy(o, o.length);
  change(o.path).contents.make_durable();
  change(o.other).contents.make_durable();
}

void Model::apply(const Operation& o, std::uint64_t made) {
  switch (o.act) {
    case Act::kCreate: return make(o, made, S_IFREG | 0644);
    case Act::kMakeDirectory: return make(o, made, S_IFDIR | 0755);
    case Act::kSymlink: return make(o, made, S_IFLNK | 0777);
    case Act::kWrite: return write(o, at(o.path));
    case Act::kHold: held_.push_back(at(o.path)); return;
    case Act::kWriteHeld: return write(o, held(o.tag).value());
    case Act::kTruncate: return change(o.path).contents.truncate(o.offset);
    case Act::kPunch:
    case Act::kZero: return change_range(o);
    case Act::kCopy: return copy(o, made);
    case Act::kShare: return share(o);
    case Act::kLink:
      add_name(o.other, at(o.path));
      ++change(o.path).links;
      return;
    case Act::kUnlink:
    case Act::kRemoveDirectory: return drop_name(place_of(o.path));
    case Act::kRename: return rename(o.path, o.other);
    case Act::kExchange: return exchange(o.path, o.other);
    case Act::kWhiteout: return whiteout(o, made);
    case Act::kSetXattr: change(o.path).xattrs[o.other] = text_of(o.tag, 0, o.length); return;
    case Act::kRemoveXattr: change(o.path).xattrs.erase(o.other); return;
    case Act::kChangeMode: {
      Node& node = change(o.path);
      node.mode = (node.mode & S_IFMT) | static_cast<std::uint32_t>(o.offset);
      return;
    }
    case Act::kChangeFlags:
      change(o.path).flags = static_cast<std::uint32_t>(o.offset);
      return;
    case Act::kFsync:
    case Act::kDataSync: return change(o.path).contents.make_durable();
    case Act::kSync: return sync();
    case Act::kRemount:
      held_.clear();
      return sync();
    case Act::kFsyncDirectory:
    case Act::kTick:
    case Act::kCollect:
    case Act::kKill: return;
  }
}

// ---- Comparing ----------------------------------------------------------------------------------

void Model::compare(std::uint64_t inode, const Observation& found, bool crashed,
                    std::vector<std::string>& differences) const {
  const Node& expected = node(inode);
  const auto seen = found.inodes.find(inode);
  const std::string who = "inode " + std::to_string(inode) + ": ";
  if (seen == found.inodes.end()) {
    differences.push_back(who + "is missing");
    return;
  }
  const Observed& is = seen->second;
  const auto must = [&](bool holds, std::string_view what) {
    if (!holds) differences.push_back(who + std::string(what) + " is not as expected");
  };
  must(is.attributes.mode == expected.mode, "mode");
  must(is.attributes.links == expected.links, "link count");
  must(is.attributes.flags == expected.flags, "flags");
  must(is.parent == expected.parent, "parent");
  must(is.entries == expected.entries, "list of entries");
  must(is.target == expected.target, "target");
  must(is.xattrs == expected.xattrs, "set of attributes");
  if (!S_ISREG(expected.mode)) return;
  const std::string contents = crashed ? expected.contents.difference(is.contents)
                                       : expected.contents.difference_now(is.contents);
  if (!contents.empty()) differences.push_back(who + contents);
}

std::vector<std::string> Model::differences(const Observation& found, bool crashed) const {
  std::vector<std::string> differences = found.problems;
  for (const auto& [inode, expected] : nodes_) compare(inode, found, crashed, differences);
  for (const auto& [inode, seen] : found.inodes) {
    if (!nodes_.contains(inode)) {
      differences.push_back("inode " + std::to_string(inode) + ": must not exist");
    }
  }
  return differences;
}

}  // namespace lazyfs::crash
