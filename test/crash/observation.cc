#include "crash/observation.h"

#include <sys/stat.h>

#include <span>

#include "base/types.h"

namespace lazyfs::crash {
namespace {

class Walk {
 public:
  explicit Walk(fs::Volume& volume) : volume_(volume) {}

  Observation run() {
    const auto root = volume_.get_attributes(fs::kRootInode);
    if (!root) {
      problem(fs::kRootInode, "attributes", root.error());
      return std::move(seen_);
    }
    visit(*root);
    return std::move(seen_);
  }

 private:
  void problem(InodeNo inode, const std::string& what, Errc error) {
    seen_.problems.push_back("inode " + std::to_string(inode.value) + ": " + what + ": " +
                             std::string(describe(error)));
  }

  void visit(const fs::Attributes& attributes) {
    const auto [at, is_new] = seen_.inodes.emplace(attributes.inode.value, Observed{});
    if (!is_new) return;
    at->second.attributes = attributes;
    read_xattrs(attributes.inode, at->second);
    if (S_ISREG(attributes.mode)) read_file(at->second);
    if (S_ISLNK(attributes.mode)) read_link(at->second);
    if (S_ISDIR(attributes.mode)) read_directory(attributes.inode, at->second);
  }

  void read_file(Observed& to) {
    to.contents.resize(to.attributes.size);
    const auto bytes = std::as_writable_bytes(std::span(to.contents));
    const auto read = volume_.read(to.attributes.inode, 0, bytes);
    if (!read) return problem(to.attributes.inode, "contents", read.error());
    if (*read != bytes.size()) problem(to.attributes.inode, "short read", Errc::kItemBad);
  }

  void read_link(Observed& to) {
    auto target = volume_.read_link(to.attributes.inode);
    if (!target) return problem(to.attributes.inode, "target", target.error());
    to.target = std::move(*target);
  }

  void read_xattrs(InodeNo inode, Observed& to) {
    const auto names = volume_.list_xattrs(inode);
    if (!names) return problem(inode, "attributes", names.error());
    for (const std::string& name : *names) {
      auto value = volume_.get_xattr(inode, name);
      if (!value) return problem(inode, "attribute " + name, value.error());
      to.xattrs[name] = std::move(*value);
    }
  }

  void read_directory(InodeNo inode, Observed& to) {
    const auto parent = volume_.parent_of(inode);
    if (!parent) return problem(inode, "parent", parent.error());
    to.parent = parent->value;
    std::uint64_t cookie = 0;
    for (;;) {
      const auto entries = volume_.read_directory(inode, cookie, 64);
      if (!entries) return problem(inode, "entries", entries.error());
      for (const fs::DirectoryEntry& entry : *entries) {
        if (!to.entries.emplace(entry.name, entry.inode.value).second) {
          problem(inode, "two entries " + entry.name, Errc::kItemBad);
        }
        follow(inode, entry);
        cookie = entry.cookie;
      }
      if (entries->empty()) return;
    }
  }

  void follow(InodeNo directory, const fs::DirectoryEntry& entry) {
    const auto found = volume_.lookup(directory, entry.name);
    if (!found) return problem(directory, "entry " + entry.name, found.error());
    if (found->inode != entry.inode || (found->mode & S_IFMT) != entry.mode) {
      problem(directory, "entry " + entry.name + " is not what lookup gives", Errc::kItemBad);
    }
    visit(*found);
    volume_.forget(found->inode, 1);
  }

  fs::Volume& volume_;
  Observation seen_;
};

bool same(const Observed& a, const Observed& b) {
  return a.attributes.mode == b.attributes.mode && a.attributes.links == b.attributes.links &&
         a.attributes.flags == b.attributes.flags && a.attributes.size == b.attributes.size &&
         a.parent == b.parent && a.entries == b.entries && a.target == b.target &&
         a.xattrs == b.xattrs && a.contents == b.contents;
}

}  // namespace

Observation observe(fs::Volume& volume) { return Walk(volume).run(); }

Observation only(const Observation& all, std::string_view folder) {
  Observation part;
  part.problems = all.problems;
  const auto found = all.inodes.find(fs::kRootInode.value);
  if (found == all.inodes.end()) return part;
  Observed root = found->second;
  std::erase_if(root.entries, [&](const auto& entry) { return entry.first != folder; });
  root.attributes.links = 2 + static_cast<std::uint32_t>(root.entries.size());
  std::vector<std::uint64_t> next;
  for (const auto& [name, inode] : root.entries) next.push_back(inode);
  part.inodes.emplace(fs::kRootInode.value, std::move(root));
  while (!next.empty()) {
    const auto at = all.inodes.find(next.back());
    next.pop_back();
    if (at == all.inodes.end() || !part.inodes.insert(*at).second) continue;
    for (const auto& [name, below] : at->second.entries) next.push_back(below);
  }
  return part;
}

std::vector<std::string> differences(const Observation& before, const Observation& after) {
  std::vector<std::string> found = after.problems;
  for (const auto& [inode, was] : before.inodes) {
    const auto is = after.inodes.find(inode);
    if (is == after.inodes.end()) {
      found.push_back("inode " + std::to_string(inode) + " was there before");
    } else if (!same(was, is->second)) {
      found.push_back("inode " + std::to_string(inode) + " was different before");
    }
  }
  for (const auto& [inode, is] : after.inodes) {
    if (!before.inodes.contains(inode)) {
      found.push_back("inode " + std::to_string(inode) + " was not there before");
    }
  }
  return found;
}

}  // namespace lazyfs::crash
