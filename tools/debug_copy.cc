#include "tools/debug_copy.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <set>
#include <stdexcept>
#include <vector>

#include "base/buffer.h"
#include "device/backing.h"
#include "edi/image.h"
#include "meta/store/store.h"
#include "plain/plain_device.h"

namespace lazyfs {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{1} << 20;
constexpr std::size_t kEntriesAtOnce = 1000;
constexpr int kDepthMax = 1000;  // of directories; a damaged volume may have a circle of them

[[noreturn]] void refuse_errno(const std::string& what) {
  throw std::runtime_error(what + ": " + std::strerror(errno));
}

bool is_zero(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; });
}

// Zeros become holes.
void put(int fd, const std::string& path, std::uint64_t at, std::span<const std::byte> bytes) {
  if (is_zero(bytes)) return;
  while (!bytes.empty()) {
    const ssize_t n = pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (n <= 0) refuse_errno(path);
    at += static_cast<std::uint64_t>(n);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

// ---- Files --------------------------------------------------------------------------------------

class CopyOut {
 public:
  explicit CopyOut(fs::Volume& volume) : volume_(volume) {}

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
  }
  std::uint64_t damaged() const { return damaged_; }

 private:
  void note(const std::string& path, std::string_view why) {
    ++damaged_;
    std::fprintf(stderr, "lazyfs-debug: %s: %.*s\n", path.c_str(), static_cast<int>(why.size()),
                 why.data());
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
        put(fd, target, at, to.first(*got));
      } else {
        first_error = got.error();
        copy_blocks(from, at, length, fd, target);
      }
    }
    if (ftruncate(fd, static_cast<off_t>(from.size)) != 0) refuse_errno(target);
    if (close(fd) != 0) refuse_errno(target);
    if (first_error) note(target, describe(*first_error));
  }

  // Around a block that cannot be read.
  void copy_blocks(const fs::Attributes& from, std::uint64_t at, std::size_t length, int fd,
                   const std::string& target) {
    AlignedBuffer block(kBlockBytes);
    for (const std::uint64_t end = at + length; at < end; at += kBlockBytes) {
      const auto got = volume_.read(from.inode, at, block.span(), false);
      if (got) put(fd, target, at, block.span().first(*got));
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
  std::uint64_t damaged_ = 0;
};

// ---- Metadata -----------------------------------------------------------------------------------

// Bands whose contents are metadata; of a volume that cannot be opened, those that its superblock
// names.
std::set<std::uint32_t> metadata_bands(device::Device& device) {
  std::set<std::uint32_t> bands;
  for (const BandId band : device.geometry().super_bands) bands.insert(band.value);
  if (const auto superblock = meta::read_superblock(device)) {
    for (const BandId band : superblock->log_bands) bands.insert(band.value);
  }
  return bands;
}

// Where the band begins in the file or block device.
std::uint64_t place_of(const device::Device& device, BandId band) {
  if (const auto* const image = dynamic_cast<const edi::Image*>(&device)) {
    return image->layout().band_starts[band.value];
  }
  if (const auto* const plain = dynamic_cast<const plain::PlainDevice*>(&device)) {
    return plain->band_at(band);
  }
  throw std::runtime_error(device.name() + ": an image of a zoned device cannot be made");
}

struct ByteRange {
  std::uint64_t begin = 0, end = 0;
};

// What is left out, in the order of the device.
std::vector<ByteRange> data_ranges(device::Device& device) {
  const std::set<std::uint32_t> kept = metadata_bands(device);
  const device::Geometry& geometry = device.geometry();
  std::vector<ByteRange> ranges;
  for (std::uint32_t i = 0; i < geometry.band_count(); ++i) {
    if (kept.contains(i) || geometry.band_blocks[i] == 0) continue;
    const std::uint64_t begin = place_of(device, BandId{i});
    ranges.push_back({begin, begin + std::uint64_t{geometry.band_blocks[i]} *
                                         geometry.block_bytes});
  }
  std::ranges::sort(ranges, {}, &ByteRange::begin);
  return ranges;
}

std::uint64_t copy_bytes(const device::Backing& from, int fd, const std::string& target,
                         ByteRange range) {
  AlignedBuffer buffer(kPieceBytes);
  for (std::uint64_t at = range.begin; at < range.end; at += kPieceBytes) {
    const auto to =
        buffer.span().first(std::min<std::uint64_t>(kPieceBytes, range.end - at));
    const auto got = from.read_some(at, to);
    if (!got) {
      std::fprintf(stderr, "lazyfs-debug: bytes %llu to %llu cannot be read: left out\n",
                   static_cast<unsigned long long>(at),
                   static_cast<unsigned long long>(at + to.size()));
      continue;
    }
    put(fd, target, at, to.first(*got));
  }
  return range.end - range.begin;
}

}  // namespace

std::uint64_t copy_out(fs::Volume& volume, const fs::Attributes& from,
                       const std::string& target) {
  CopyOut copy(volume);
  copy.copy(from, target);
  return copy.damaged();
}

std::uint64_t copy_metadata(device::Device& device, const std::string& path,
                            const std::string& target) {
  const auto ranges = data_ranges(device);
  const auto backing = device::Backing::open(path, true, device::Backing::Claim::kNone);
  if (!backing) throw std::runtime_error(path + ": " + std::string(describe(backing.error())));
  const auto size = backing->size_bytes();
  if (!size) throw std::runtime_error(path + ": " + std::string(describe(size.error())));
  const int fd = open(target.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) refuse_errno(target);
  if (ftruncate(fd, static_cast<off_t>(*size)) != 0) refuse_errno(target);
  std::uint64_t at = 0, copied = 0;
  for (const ByteRange& left_out : ranges) {
    copied += copy_bytes(*backing, fd, target, {at, left_out.begin});
    at = left_out.end;
  }
  copied += copy_bytes(*backing, fd, target, {at, *size});
  if (fsync(fd) != 0 || close(fd) != 0) refuse_errno(target);
  return copied;
}

}  // namespace lazyfs
