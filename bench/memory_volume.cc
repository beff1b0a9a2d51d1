#include "bench/memory_volume.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>

namespace lazyfs::bench {

struct MemoryVolume::Entry {
  InodeNo inode;
  std::uint32_t type = 0;
  std::uint64_t cookie = 0;
};

struct MemoryVolume::NameHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view name) const {
    return std::hash<std::string_view>{}(name);
  }
};

namespace {
constexpr std::uint32_t kNominalEntryBytes = 32;
constexpr std::uint64_t kSpaceBlocks = std::uint64_t{1} << 28;  // 1 TiB

Result<> check_name(std::string_view name) {
  return name.size() > fs::kMaxNameBytes ? Result<>(fail(Errc::kNameTooLong)) : ok();
}
}  // namespace

struct MemoryVolume::Node {
  Mutex mu;
  fs::Attributes attributes GUARDED_BY(mu);
  std::uint64_t lookups GUARDED_BY(mu) = 0;
  InodeNo parent GUARDED_BY(mu);  // of directories
  std::uint64_t last_cookie GUARDED_BY(mu) = 0;
  std::unordered_map<std::string, Entry, NameHash, std::equal_to<>> by_name GUARDED_BY(mu);
  std::map<std::uint64_t, std::string_view> by_cookie GUARDED_BY(mu);  // names of by_name's keys
  std::vector<std::byte> contents GUARDED_BY(mu);
  std::string target;  // of a symlink; constant
  std::map<std::string, std::string, std::less<>> xattrs GUARDED_BY(mu);
};

MemoryVolume::MemoryVolume(bool keep_contents, Clock& clock)
    : keep_contents_(keep_contents), clock_(clock) {
  auto root = std::make_shared<Node>();
  const Timestamp now = clock_.now();
  root->attributes = {.inode = fs::kRootInode,
                      .mode = S_IFDIR | 0755,
                      .links = 2,
                      .access = now,
                      .modification = now,
                      .change = now,
                      .birth = now};
  root->parent = fs::kRootInode;
  root->lookups = 1;
  shard_of(fs::kRootInode).nodes.emplace(fs::kRootInode, std::move(root));
}

MemoryVolume::~MemoryVolume() = default;

Result<> MemoryVolume::alive() const { return dead_ ? Result<>(fail(Errc::kShutDown)) : ok(); }

Result<MemoryVolume::NodePointer> MemoryVolume::find(InodeNo inode) {
  TRY(alive());
  Shard& shard = shard_of(inode);
  MutexLock lock(shard.mu);
  const auto found = shard.nodes.find(inode);
  if (found == shard.nodes.end()) return fail(Errc::kStale);
  return found->second;
}

Result<MemoryVolume::NodePointer> MemoryVolume::find_directory(InodeNo inode) {
  ASSIGN_OR_RETURN(NodePointer node, find(inode));
  MutexLock lock(node->mu);
  if (!S_ISDIR(node->attributes.mode)) return fail(Errc::kNotDirectory);
  return node;
}

// --- names ---------------------------------------------------------------------------------------

void MemoryVolume::insert(Node& directory, std::string_view name, const Node& child) {
  const std::uint64_t cookie = ++directory.last_cookie;
  const auto [at, inserted] = directory.by_name.emplace(
      name, Entry{child.attributes.inode, child.attributes.mode & S_IFMT, cookie});
  directory.by_cookie.emplace(cookie, at->first);
  directory.attributes.size += kNominalEntryBytes;
  directory.attributes.modification = directory.attributes.change = clock_.now();
}

void MemoryVolume::erase(Node& directory, std::string_view name) {
  const auto at = directory.by_name.find(name);
  directory.by_cookie.erase(at->second.cookie);
  directory.by_name.erase(at);
  directory.attributes.size -= kNominalEntryBytes;
  directory.attributes.modification = directory.attributes.change = clock_.now();
}

void MemoryVolume::drop_link(Node& node, std::uint32_t links) {
  node.attributes.links -= std::min(links, node.attributes.links);
  node.attributes.change = clock_.now();
}

void MemoryVolume::drop_if_unused(const NodePointer& node) {  // M1
  InodeNo inode;
  std::uint32_t mode = 0;
  {
    MutexLock lock(node->mu);
    if (node->lookups > 0 || node->attributes.links > 0) return;
    inode = node->attributes.inode;
    mode = node->attributes.mode;
  }
  {
    Shard& shard = shard_of(inode);
    MutexLock lock(shard.mu);
    if (shard.nodes.erase(inode) == 0) return;
    --files_;
  }
  dropped(inode, mode);
}

Result<fs::Attributes> MemoryVolume::lookup(InodeNo parent, std::string_view name) {
  TRY(check_name(name));
  ASSIGN_OR_RETURN(const NodePointer directory, find_directory(parent));
  InodeNo inode;
  {
    MutexLock lock(directory->mu);
    const auto found = directory->by_name.find(name);
    if (found == directory->by_name.end()) return fail(Errc::kNotFound);
    inode = found->second.inode;
  }
  return lookup_inode(inode);
}

Result<fs::Attributes> MemoryVolume::lookup_inode(InodeNo inode) {
  ASSIGN_OR_RETURN(const NodePointer node, find(inode));
  MutexLock lock(node->mu);
  ++node->lookups;
  return node->attributes;
}

void MemoryVolume::forget(InodeNo inode, std::uint64_t lookups) {
  const auto node = find(inode);
  if (!node || inode == fs::kRootInode) return;
  {
    MutexLock lock((*node)->mu);
    (*node)->lookups -= std::min(lookups, (*node)->lookups);
  }
  drop_if_unused(*node);
}

// Returns a node with one lookup, which belongs to the caller.
Result<MemoryVolume::NodePointer> MemoryVolume::make(InodeNo parent, std::string_view name,
                                                     std::uint32_t mode, fs::Owner owner,
                                                     std::uint64_t rdev, std::string_view target) {
  TRY(check_name(name));
  ASSIGN_OR_RETURN(const NodePointer directory, find_directory(parent));
  auto node = std::make_shared<Node>();
  const Timestamp now = clock_.now();
  node->attributes = {.inode = InodeNo{++last_inode_},
                      .mode = mode,
                      .links = S_ISDIR(mode) ? 2u : 1u,
                      .owner = owner,
                      .rdev = rdev,
                      .size = target.size(),
                      .access = now,
                      .modification = now,
                      .change = now,
                      .birth = now};
  node->lookups = 1;
  node->parent = parent;
  node->target = target;
  const InodeNo inode = node->attributes.inode;
  ReaderLock tree(tree_mu_);
  MutexLock lock(directory->mu);
  if (directory->by_name.contains(name)) return fail(Errc::kExists);
  if (directory->attributes.links == 0) return fail(Errc::kNotFound);
  if ((directory->attributes.mode & S_ISGID) != 0) {
    node->attributes.owner.gid = directory->attributes.owner.gid;
    if (S_ISDIR(mode)) node->attributes.mode |= S_ISGID;
  }
  {
    Shard& shard = shard_of(inode);
    MutexLock shard_lock(shard.mu);
    shard.nodes.emplace(inode, node);
  }
  ++files_;
  insert(*directory, name, *node);
  if (S_ISDIR(mode)) ++directory->attributes.links;
  return node;
}

Result<fs::Attributes> MemoryVolume::make_node(InodeNo parent, std::string_view name,
                                               std::uint32_t mode, std::uint64_t rdev,
                                               fs::Owner owner) {
  ASSIGN_OR_RETURN(const NodePointer node, make(parent, name, mode, owner, rdev, ""));
  MutexLock lock(node->mu);
  return node->attributes;
}

Result<fs::Attributes> MemoryVolume::make_directory(InodeNo parent, std::string_view name,
                                                    std::uint32_t mode, fs::Owner owner) {
  return make_node(parent, name, S_IFDIR | (mode & 07777), 0, owner);
}

Result<fs::Attributes> MemoryVolume::make_symlink(InodeNo parent, std::string_view name,
                                                  std::string_view target, fs::Owner owner) {
  if (target.size() > fs::kMaxSymlinkBytes) return fail(Errc::kNameTooLong);
  ASSIGN_OR_RETURN(const NodePointer node, make(parent, name, S_IFLNK | 0777, owner, 0, target));
  MutexLock lock(node->mu);
  return node->attributes;
}

Result<fs::Attributes> MemoryVolume::link(InodeNo inode, InodeNo parent, std::string_view name) {
  TRY(check_name(name));
  ASSIGN_OR_RETURN(const NodePointer directory, find_directory(parent));
  ASSIGN_OR_RETURN(const NodePointer node, find(inode));
  ReaderLock tree(tree_mu_);
  MutexLock lock(directory->mu);
  if (node == directory) return fail(Errc::kNotPermitted);
  MutexLock node_lock(node->mu);
  if (S_ISDIR(node->attributes.mode)) return fail(Errc::kNotPermitted);
  if (node->attributes.links >= fs::kMaxLinks) return fail(Errc::kTooManyLinks);
  if (directory->by_name.contains(name)) return fail(Errc::kExists);
  insert(*directory, name, *node);
  ++node->attributes.links;
  ++node->lookups;
  node->attributes.change = clock_.now();
  return node->attributes;
}

Result<> MemoryVolume::unlink(InodeNo parent, std::string_view name) {
  ASSIGN_OR_RETURN(const NodePointer directory, find_directory(parent));
  NodePointer node;
  {
    ReaderLock tree(tree_mu_);
    MutexLock lock(directory->mu);
    const auto found = directory->by_name.find(name);
    if (found == directory->by_name.end()) return fail(Errc::kNotFound);
    if (found->second.type == S_IFDIR) return fail(Errc::kIsDirectory);
    ASSIGN_OR_RETURN(node, find(found->second.inode));
    erase(*directory, name);
    MutexLock node_lock(node->mu);
    drop_link(*node, 1);
  }
  drop_if_unused(node);
  return ok();
}

Result<> MemoryVolume::remove_directory(InodeNo parent, std::string_view name) {
  ASSIGN_OR_RETURN(const NodePointer directory, find_directory(parent));
  NodePointer node;
  {
    WriterLock tree(tree_mu_);
    MutexLock lock(directory->mu);
    const auto found = directory->by_name.find(name);
    if (found == directory->by_name.end()) return fail(Errc::kNotFound);
    if (found->second.type != S_IFDIR) return fail(Errc::kNotDirectory);
    ASSIGN_OR_RETURN(node, find(found->second.inode));
    MutexLock node_lock(node->mu);
    if (!node->by_name.empty()) return fail(Errc::kNotEmpty);
    erase(*directory, name);
    --directory->attributes.links;
    drop_link(*node, 2);
  }
  drop_if_unused(node);
  return ok();
}

bool MemoryVolume::is_below(InodeNo inode, InodeNo ancestor) {
  while (inode != ancestor && inode != fs::kRootInode) {
    const auto node = find(inode);
    if (!node) return false;
    MutexLock lock((*node)->mu);
    inode = (*node)->parent;
  }
  return inode == ancestor;
}

// Checks whether a rename may replace the existing name.
Result<> MemoryVolume::check_target(Node& source, Node& target, fs::RenameFlags flags) {
  if (flags.no_replace) return fail(Errc::kExists);
  if (flags.exchange) return ok();
  MutexLock lock(target.mu);
  const bool source_is_directory = S_ISDIR(source.attributes.mode);
  const bool target_is_directory = S_ISDIR(target.attributes.mode);
  if (source_is_directory && !target_is_directory) return fail(Errc::kNotDirectory);
  if (!source_is_directory && target_is_directory) return fail(Errc::kIsDirectory);
  if (!target.by_name.empty()) return fail(Errc::kNotEmpty);
  return ok();
}

// The exclusive tree lock keeps other threads from changing names, so this holds one node's lock at
// a time.
Result<> MemoryVolume::rename(InodeNo from_parent, std::string_view from_name, InodeNo to_parent,
                              std::string_view to_name, fs::RenameFlags flags) {
  if (flags.whiteout) return fail(Errc::kInvalid);  // as filesystems without whiteouts do
  TRY(check_name(to_name));
  ASSIGN_OR_RETURN(const NodePointer from, find_directory(from_parent));
  ASSIGN_OR_RETURN(const NodePointer to, find_directory(to_parent));
  WriterLock tree(tree_mu_);
  const auto child = [&](Node& directory, std::string_view name) -> Result<NodePointer> {
    InodeNo inode;
    {
      MutexLock lock(directory.mu);
      const auto found = directory.by_name.find(name);
      if (found == directory.by_name.end()) return fail(Errc::kNotFound);
      inode = found->second.inode;
    }
    return find(inode);
  };
  ASSIGN_OR_RETURN(const NodePointer source, child(*from, from_name));
  const auto target = child(*to, to_name);
  if (!target && flags.exchange) return fail(Errc::kNotFound);
  if (target && *target == source) return flags.no_replace ? Result<>(fail(Errc::kExists)) : ok();
  const bool is_directory = S_ISDIR(source->attributes.mode);
  if (is_directory && is_below(to_parent, source->attributes.inode)) {
    return fail(Errc::kCrossDirectoryLoop);
  }
  if (target && flags.exchange && is_below(from_parent, (*target)->attributes.inode)) {
    return fail(Errc::kCrossDirectoryLoop);
  }
  if (target) TRY(check_target(*source, **target, flags));

  const auto detach = [&](Node& directory, std::string_view name, const Node& node) {
    MutexLock lock(directory.mu);
    erase(directory, name);
    if (S_ISDIR(node.attributes.mode)) --directory.attributes.links;
  };
  const auto attach = [&](Node& directory, std::string_view name, Node& node) {
    MutexLock lock(directory.mu);
    insert(directory, name, node);
    if (S_ISDIR(node.attributes.mode)) ++directory.attributes.links;
    MutexLock node_lock(node.mu);
    node.parent = directory.attributes.inode;
    node.attributes.change = clock_.now();
  };
  detach(*from, from_name, *source);
  if (target) detach(*to, to_name, **target);
  attach(*to, to_name, *source);
  if (target && flags.exchange) {
    attach(*from, from_name, **target);
  } else if (target) {
    {
      MutexLock lock((*target)->mu);
      drop_link(**target, S_ISDIR((*target)->attributes.mode) ? 2 : 1);
    }
    drop_if_unused(*target);
  }
  return ok();
}

Result<std::string> MemoryVolume::read_link(InodeNo inode) {
  ASSIGN_OR_RETURN(const NodePointer node, find(inode));
  return node->target;
}

Result<std::vector<fs::DirectoryEntry>> MemoryVolume::read_directory(InodeNo inode,
                                                                     std::uint64_t cookie,
                                                                     std::size_t max_entries,
                                                                     bool) {
  ASSIGN_OR_RETURN(const NodePointer directory, find_directory(inode));
  std::vector<fs::DirectoryEntry> entries;
  MutexLock lock(directory->mu);
  auto at = directory->by_cookie.upper_bound(cookie);
  for (; at != directory->by_cookie.end() && entries.size() < max_entries; ++at) {
    const Entry& entry = directory->by_name.find(at->second)->second;
    entries.push_back({std::string(at->second), entry.inode, entry.type, entry.cookie});
  }
  return entries;
}

Result<InodeNo> MemoryVolume::parent_of(InodeNo inode) {
  ASSIGN_OR_RETURN(const NodePointer directory, find_directory(inode));
  MutexLock lock(directory->mu);
  return directory->parent;
}

// --- attributes and contents ---------------------------------------------------------------------

Result<fs::Attributes> MemoryVolume::get_attributes(InodeNo inode) {
  ASSIGN_OR_RETURN(const NodePointer node, find(inode));
  MutexLock lock(node->mu);
  return node->attributes;
}

namespace {

void clear_set_id_bits(fs::Attributes& attributes) {
  if (!S_ISREG(attributes.mode)) return;
  attributes.mode &= ~static_cast<std::uint32_t>(S_ISUID);
  if ((attributes.mode & S_IXGRP) != 0) attributes.mode &= ~static_cast<std::uint32_t>(S_ISGID);
}

void resize(fs::Attributes& attributes, std::vector<std::byte>& contents, std::uint64_t size,
            bool keep_contents) {
  attributes.size = size;
  attributes.blocks_512 = blocks_for(size) * (kBlockBytes / 512);
  if (keep_contents) contents.resize(size);
}

}  // namespace

Result<fs::Attributes> MemoryVolume::set_attributes(InodeNo inode,
                                                    const fs::AttributeChange& change) {
  ASSIGN_OR_RETURN(const NodePointer node, find(inode));
  const Timestamp now = clock_.now();
  MutexLock lock(node->mu);
  fs::Attributes& it = node->attributes;
  if (change.size) {
    if (S_ISDIR(it.mode)) return fail(Errc::kIsDirectory);
    if (*change.size > fs::kMaxFileBytes) return fail(Errc::kFileTooBig);
    resize(it, node->contents, *change.size, keep_contents_);
    it.modification = now;
  }
  if (change.clear_set_id) clear_set_id_bits(it);
  if (change.mode) it.mode = (it.mode & S_IFMT) | (*change.mode & 07777);
  if (change.uid) it.owner.uid = *change.uid;
  if (change.gid) it.owner.gid = *change.gid;
  if (change.access) it.access = *change.access;
  if (change.access_now) it.access = now;
  if (change.modification) it.modification = *change.modification;
  if (change.modification_now) it.modification = now;
  it.change = change.change.value_or(now);
  return it;
}

Result<fs::Created> MemoryVolume::create(InodeNo parent, std::string_view name, std::uint32_t mode,
                                         fs::Owner owner) {
  ASSIGN_OR_RETURN(const fs::Attributes made,
                   make_node(parent, name, S_IFREG | (mode & 07777), 0, owner));
  return fs::Created{made, reinterpret_cast<fs::OpenFile*>(made.inode.value)};
}

Result<fs::OpenFile*> MemoryVolume::open(InodeNo inode) {
  ASSIGN_OR_RETURN(const NodePointer node, find(inode));
  return reinterpret_cast<fs::OpenFile*>(inode.value);  // an open file has no state
}

void MemoryVolume::release(fs::OpenFile*) {}

Result<std::size_t> MemoryVolume::read(InodeNo inode, std::uint64_t offset,
                                       std::span<std::byte> to, bool) {
  ASSIGN_OR_RETURN(const NodePointer node, find(inode));
  MutexLock lock(node->mu);
  const std::uint64_t size = node->attributes.size;
  if (offset >= size) return 0;
  const std::size_t length = std::min<std::uint64_t>(to.size(), size - offset);
  if (keep_contents_) {
    std::memcpy(to.data(), node->contents.data() + offset, length);
  } else {
    std::memset(to.data(), 0, length);
  }
  return length;
}

Result<> MemoryVolume::write(InodeNo inode, std::uint64_t offset, std::span<const std::byte> from,
                             fs::WriteFlags flags) {
  ASSIGN_OR_RETURN(const NodePointer node, find(inode));
  if (offset > fs::kMaxFileBytes - from.size()) return fail(Errc::kFileTooBig);
  MutexLock lock(node->mu);
  fs::Attributes& it = node->attributes;
  const std::uint64_t end = offset + from.size();
  if (end > it.size) resize(it, node->contents, end, keep_contents_);
  if (keep_contents_) std::memcpy(node->contents.data() + offset, from.data(), from.size());
  if (flags.clear_set_id) clear_set_id_bits(it);
  if (!flags.keep_times) it.modification = it.change = clock_.now();
  return ok();
}

Result<std::string> MemoryVolume::get_xattr(InodeNo inode, std::string_view name) {
  ASSIGN_OR_RETURN(const NodePointer node, find(inode));
  MutexLock lock(node->mu);
  const auto found = node->xattrs.find(name);
  if (found == node->xattrs.end()) return fail(Errc::kNoAttribute);
  return found->second;
}

Result<> MemoryVolume::set_xattr(InodeNo inode, std::string_view name, std::string_view value,
                                 fs::XattrMode mode) {
  ASSIGN_OR_RETURN(const NodePointer node, find(inode));
  if (name.starts_with("system.")) return fail(Errc::kNotSupported);
  if (value.size() > fs::kMaxXattrBytes) return fail(Errc::kAttributeTooBig);
  MutexLock lock(node->mu);
  const bool exists = node->xattrs.contains(name);
  if (exists && mode == fs::XattrMode::kCreate) return fail(Errc::kExists);
  if (!exists && mode == fs::XattrMode::kReplace) return fail(Errc::kNoAttribute);
  node->xattrs.insert_or_assign(std::string(name), std::string(value));
  node->attributes.change = clock_.now();
  return ok();
}

Result<> MemoryVolume::remove_xattr(InodeNo inode, std::string_view name) {
  ASSIGN_OR_RETURN(const NodePointer node, find(inode));
  MutexLock lock(node->mu);
  const auto found = node->xattrs.find(name);
  if (found == node->xattrs.end()) return fail(Errc::kNoAttribute);
  node->xattrs.erase(found);
  node->attributes.change = clock_.now();
  return ok();
}

Result<std::vector<std::string>> MemoryVolume::list_xattrs(InodeNo inode) {
  ASSIGN_OR_RETURN(const NodePointer node, find(inode));
  std::vector<std::string> names;
  MutexLock lock(node->mu);
  for (const auto& [name, value] : node->xattrs) names.push_back(name);
  return names;
}

Result<fs::SpaceReport> MemoryVolume::space() {
  TRY(alive());
  return fs::SpaceReport{.total_blocks = kSpaceBlocks,
                         .free_blocks = kSpaceBlocks,
                         .available_blocks = kSpaceBlocks,
                         .total_files = UINT32_MAX,
                         .free_files = UINT32_MAX - files_};
}

std::string MemoryVolume::stats_json() { return "{\"files\":" + std::to_string(files_) + "}"; }

}  // namespace lazyfs::bench
