#include "tools/scrub_command.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <set>
#include <vector>

#include "base/json.h"
#include "fuse/requests/control.h"
#include "tools/mount_point.h"

namespace lazyfs {
namespace {

using fuse::ScrubPiece;

// Paths of the inodes that have one, found by a walk through the mount.
std::map<std::uint64_t, std::string> names_of(const std::string& mount_point,
                                              const std::set<std::uint64_t>& inodes) {
  namespace files = std::filesystem;
  std::map<std::uint64_t, std::string> names;
  const auto options = files::directory_options::skip_permission_denied;
  std::error_code error;
  files::recursive_directory_iterator at(mount_point, options, error), end;
  struct stat top {};
  if (stat(mount_point.c_str(), &top) != 0) return names;
  for (; !error && at != end && names.size() < inodes.size(); at.increment(error)) {
    struct stat st {};
    if (lstat(at->path().c_str(), &st) != 0) continue;
    if (st.st_dev != top.st_dev) {
      at.disable_recursion_pending();
    } else if (inodes.contains(st.st_ino)) {
      names.emplace(st.st_ino, at->path());
    }
  }
  return names;
}

struct ScrubFindings {
  std::uint64_t blocks = 0;
  std::vector<ScrubPiece::Found> damaged;
};

ScrubFindings scrub_all(const std::string& mount_point) {
  MountPoint mount(mount_point);
  ScrubPiece piece;
  ScrubFindings findings;
  const bool shown = isatty(STDERR_FILENO) != 0;
  while (piece.inode != 0) {
    mount.request(fuse::kScrubRequest, &piece);
    findings.blocks += piece.blocks;
    const std::size_t count = std::min(piece.damaged, ScrubPiece::kMaxFound);
    findings.damaged.insert(findings.damaged.end(), piece.found, piece.found + count);
    if (shown) {
      std::fprintf(stderr, "\r%llu blocks read, %zu damaged\033[K",
                   static_cast<unsigned long long>(findings.blocks), findings.damaged.size());
    }
  }
  if (shown) std::fprintf(stderr, "\r\033[K");
  return findings;
}

}  // namespace

bool scrub_command(const std::string& mount_point, bool json) {
  const ScrubFindings findings = scrub_all(mount_point);
  std::set<std::uint64_t> inodes;
  for (const auto& found : findings.damaged) {
    if (found.what != ScrubPiece::kLostMetadata) inodes.insert(found.inode);
  }
  const auto names = names_of(mount_point, inodes);
  Json list = Json::array();
  for (const auto& found : findings.damaged) {
    const auto name = names.find(found.inode);
    const std::string path = name == names.end() ? "(without a name)" : name->second;
    const char* why =
        found.what == ScrubPiece::kBadChecksum ? "fails its checksum" : "cannot be read";
    if (found.what == ScrubPiece::kLostMetadata) {
      list.push_back(Json::object(
          {{"inode", found.inode}, {"last_inode", found.offset}, {"why", "metadata"}}));
    } else {
      list.push_back(Json::object(
          {{"path", path}, {"inode", found.inode}, {"offset", found.offset}, {"why", why}}));
    }
    if (json) continue;
    if (found.what == ScrubPiece::kLostMetadata) {
      std::printf("%s: metadata of inodes %llu to %llu cannot be read: run fsck.lazyfs\n",
                  mount_point.c_str(), static_cast<unsigned long long>(found.inode),
                  static_cast<unsigned long long>(found.offset));
    } else {
      std::printf("%s: inode %llu, byte %llu: the block %s\n", path.c_str(),
                  static_cast<unsigned long long>(found.inode),
                  static_cast<unsigned long long>(found.offset), why);
    }
  }
  if (json) {
    const Json all = Json::object({{"blocks", findings.blocks}, {"damaged", list}});
    std::puts(all.dump(true).c_str());
  } else {
    std::printf("%s: %llu blocks read, %zu damaged\n", mount_point.c_str(),
                static_cast<unsigned long long>(findings.blocks), findings.damaged.size());
  }
  return findings.damaged.empty();
}

}  // namespace lazyfs
