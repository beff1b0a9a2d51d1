#include "tools/debug_copy.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <optional>

#include "base/buffer.h"
#include "tools/sparse_file.h"
#include "tools/words.h"

namespace lazyfs {
namespace {

constexpr std::size_t kEntriesAtOnce = 1000;
constexpr int kDepthMax = 1000;  // of directories; a damaged volume may have a circle of them

class CopyOut {
 public:
  CopyOut(fs::Volume& volume, const fsck::RepairReport& repaired) : volume_(volume) {
    for (const fsck::Loss& loss : repaired.losses) {
      losses_.emplace(loss.is_whole() ? loss.directory : loss.inode, loss);
    }
  }

  void copy(const fs::Attributes& from, const std::string& target, int depth = 0) {
    if (depth > kDepthMax) return note(target, "directories without an end");
    switch (from.mode & S_IFMT) {
      case S_IFDIR: copy_directory(from, target, depth); break;
      case S_IFREG: copy_file(from, target); break;
      case S_IFLNK: copy_link(from, target); break;
      default:
        if (mknod(target.c_str(), from.mode, static_cast<dev_t>(from.rdev)) != 0) {
          return note(target, std::strerror(errno));
        }
    }
    set_attributes(from, target);
    note_losses(from.inode, target);
  }
  // Losses of which only the number is known.
  void note_more_losses(std::uint64_t losses, const std::string& target) {
    if (losses > 0) note(target, std::to_string(losses) + " more losses are not listed");
  }
  std::uint64_t damaged() const { return damaged_; }

 private:
  void note(const std::string& path, std::string_view why) {
    if (path != last_noted_) ++damaged_;
    last_noted_ = path;
    std::fprintf(stderr, "lazyfs-debug: %s: %s\n", printable(path).c_str(),
                 printable(why).c_str());
  }

  // Notes the losses of an inode, and of names in it whose inodes are lost.
  void note_losses(InodeNo inode, const std::string& target) {
    const auto losses = losses_.equal_range(inode);
    for (auto at = losses.first; at != losses.second; ++at) {
      const fsck::Loss& loss = at->second;
      if (loss.is_whole()) {
        note(target + loss.path.substr(loss.path.rfind('/')), "lost");
      } else {
        note(target, "lost: " + lost_parts(loss));
      }
    }
  }

  void copy_directory(const fs::Attributes& from, const std::string& target, int depth) {
    if (mkdir(target.c_str(), 0700) != 0) refuse_errno(target);
    std::uint64_t cookie = 0;
    for (;;) {  // each turn reads the entries that follow
      const auto entries =
          volume_.read_directory(from.inode, cookie, kEntriesAtOnce, false);
      if (!entries) return note(target, describe(entries.error()));
      if (entries->empty()) return;
      for (const fs::DirectoryEntry& entry : *entries) {
        const std::string path = target + "/" + entry.name;
        const auto found = volume_.lookup(from.inode, entry.name);
        if (!found) {
          note(path, describe(found.error()));
          continue;
        }
        copy(*found, path, depth + 1);
        volume_.forget(found->inode, 1);
      }
      cookie = entries->back().cookie;
    }
  }

  void copy_file(const fs::Attributes& from, const std::string& target) {
    const int fd = open(target.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) refuse_errno(target);
    std::optional<Errc> first_error;
    AlignedBuffer buffer(kPieceBytes);
    for (std::uint64_t at = 0; at < from.size; at += kPieceBytes) {
      const std::size_t length = std::min<std::uint64_t>(kPieceBytes, from.size - at);
      const auto to = buffer.span().first(length);
      const auto got = volume_.read(from.inode, at, to, false);
      if (got) {
        put_sparse(fd, target, at, to.first(*got));
      } else {
        first_error = got.error();
        copy_blocks(from, at, length, fd, target);
      }
    }
    if (ftruncate(fd, static_cast<off_t>(from.size)) != 0) refuse_errno(target);
    if (close(fd) != 0) refuse_errno(target);
    if (first_error) note(target, describe(*first_error));
  }

  // Copies block by block, around blocks that cannot be read.
  void copy_blocks(const fs::Attributes& from, std::uint64_t at, std::size_t length, int fd,
                   const std::string& target) {
    AlignedBuffer block(kBlockBytes);
    for (const std::uint64_t end = at + length; at < end; at += kBlockBytes) {
      const auto got = volume_.read(from.inode, at, block.span(), false);
      if (got) put_sparse(fd, target, at, block.span().first(*got));
    }
  }

  void copy_link(const fs::Attributes& from, const std::string& target) {
    const auto text = volume_.read_link(from.inode);
    if (!text) return note(target, describe(text.error()));
    if (symlink(text->c_str(), target.c_str()) != 0) refuse_errno(target);
  }

  void set_attributes(const fs::Attributes& from, const std::string& target) {
    const char* const path = target.c_str();
    if (geteuid() == 0 && lchown(path, from.owner.uid, from.owner.gid) != 0) {
      note(target, std::strerror(errno));
    }
    if (!S_ISLNK(from.mode) && chmod(path, from.mode & 07777) != 0) {
      note(target, std::strerror(errno));
    }
    const std::array times{
        timespec{from.access.seconds, static_cast<long>(from.access.nanoseconds)},
        timespec{from.modification.seconds, static_cast<long>(from.modification.nanoseconds)}};
    if (utimensat(AT_FDCWD, path, times.data(), AT_SYMLINK_NOFOLLOW) != 0) {
      note(target, std::strerror(errno));
    }
  }

  fs::Volume& volume_;
  std::multimap<InodeNo, fsck::Loss> losses_;  // by the inode, or the directory of a lost one
  std::uint64_t damaged_ = 0;
  std::string last_noted_;
};

}  // namespace

std::uint64_t copy_out(fs::Volume& volume, const fsck::RepairReport& repaired,
                       const fs::Attributes& from, const std::string& target) {
  CopyOut copy(volume, repaired);
  copy.copy(from, target);
  copy.note_more_losses(repaired.losses_counted - repaired.losses.size(), target);
  return copy.damaged();
}

}  // namespace lazyfs
