#include "fsck/path.h"

#include <algorithm>

namespace lazyfs::fsck {
namespace {

constexpr std::size_t kMaxPathBytes = 4096;  // PATH_MAX: no system call takes a longer one

// The name of `inode` in `directory`; "" when it cannot be found.
std::string name_in(Context& c, InodeNo directory, InodeNo inode) {
  std::string name;
  c.visit_kind(directory, Kind::kDentryName, [&](const meta::Item& item) {
    const auto entries = decode_dentries(item.value);
    if (!entries || !name.empty()) return;
    const auto found = std::ranges::find(*entries, inode, &DentryRecord::inode);
    if (found != entries->end()) name = found->name;
  });
  return name;
}

}  // namespace

std::string path_of(Context& c, InodeNo inode) {
  std::string path;
  while (inode != kRootInode) {
    if (path.size() > kMaxPathBytes) return "..." + path;
    const auto names = c.names_of(inode);
    if (names.empty()) return "";
    path = "/" + name_in(c, names.front().directory, inode) + path;
    inode = names.front().directory;
  }
  return path;
}

}  // namespace lazyfs::fsck
