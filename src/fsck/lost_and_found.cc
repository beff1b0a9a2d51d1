#include "fsck/lost_and_found.h"

#include <sys/stat.h>

#include <algorithm>

#include "fsck/directory_entries.h"

namespace lazyfs::fsck {
namespace {

constexpr std::string_view kName = "lost+found";

}  // namespace

void LostAndFound::adopt(const std::vector<InodeFacts>& nameless) {
  if (nameless.empty()) return;
  const InodeNo home = find_or_make();
  for (const InodeFacts& inode : nameless) {
    if (inode.inode != home && c_.good()) adopt(home, inode);
  }
  std::ranges::sort(c_.names);
}

void LostAndFound::adopt(InodeNo home, const InodeFacts& inode) {
  std::string name = fmt::format("#{}", inode.inode.value);
  for (std::size_t n = 1; find_name(c_, home, name); ++n) {
    name = fmt::format("#{}.{}", inode.inode.value, n);
  }
  c_.repaired("Inode {} (a {}) had no name: it is /{}/{} now", inode.inode.value,
              type_name(inode.type), kName, name);
  add_name(c_, home, name, inode.inode, inode.type);
  c_.names.push_back({inode.inode, home, inode.type});
  c_.repair.found_inodes += 1;
  if (inode.type != kDirectoryType) return;
  auto record = c_.inode(inode.inode);
  if (!record) return;
  record->parent = home;
  c_.put_inode(inode.inode, *record);
  if (InodeFacts* facts = c_.find_inode(inode.inode)) facts->parent = home;
}

// If something else has the name, that is renamed.
InodeNo LostAndFound::find_or_make() {
  if (const auto entry = find_name(c_, kRootInode, kName)) {
    if (entry->type == kDirectoryType) return entry->inode;
    DentryRecord other = *entry;
    erase_entry(c_, kRootInode, *entry);
    std::size_t n = 0;
    do {
      other.name = fmt::format("{}.{}", kName, ++n);
    } while (find_name(c_, kRootInode, other.name));
    c_.repaired("The name '{}' was taken by a {}: it is '{}' now", kName, type_name(other.type),
                other.name);
    put_entry(c_, kRootInode, other);
  }
  const InodeNo home = c_.new_inode();
  InodeRecord record;
  record.mode = S_IFDIR | 0700;
  record.links = 2;
  record.parent = kRootInode;
  record.name_seed = c_.root_seed;
  record.access = record.modification = record.change = record.birth = c_.now;
  c_.put_inode(home, record);
  add_name(c_, kRootInode, std::string(kName), home, kDirectoryType);
  c_.inodes.push_back({home, kRootInode, 2, kDirectoryType});
  std::ranges::sort(c_.inodes, {}, &InodeFacts::inode);
  c_.names.push_back({home, kRootInode, kDirectoryType});
  return home;
}

}  // namespace lazyfs::fsck
