#include "tools/drive_contents.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

namespace lazyfs {
namespace {

constexpr std::uint64_t kBlock = 4096;

bool repeats(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [&](std::byte b) { return b == bytes.front(); });
}

// 0, or a negative errno; -EIO where the file is shorter.
int read_all(int fd, std::uint64_t offset, std::span<std::byte> to) {
  while (!to.empty()) {
    const ssize_t got = ::pread(fd, to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got < 0 ? -errno : -EIO;
    offset += static_cast<std::uint64_t>(got);
    to = to.subspan(static_cast<std::size_t>(got));
  }
  return 0;
}

int write_all(int fd, std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return put < 0 ? -errno : -EIO;
    offset += static_cast<std::uint64_t>(put);
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
  return 0;
}

int punch_hole(int fd, std::uint64_t offset, std::uint64_t length) {
  if (length == 0) return 0;
  const int done = ::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                               static_cast<off_t>(offset), static_cast<off_t>(length));
  return done == 0 ? 0 : -errno;
}

// Opens a file, which gets or has the size.
std::expected<int, std::string> open_sized(const std::string& path, std::uint64_t size_bytes) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return std::unexpected(path + ": cannot be opened for writing");
  struct stat status {};
  const auto size = static_cast<off_t>(size_bytes);
  std::string wrong;
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    wrong = path + ": not a regular file";
  } else if (status.st_size != 0 && status.st_size != size) {
    wrong = path + ": has another size; remove it, or give its size by --size";
  } else if (::ftruncate(fd, size) != 0) {
    wrong = path + ": cannot get the size of the disk";
  }
  if (wrong.empty()) return fd;
  ::close(fd);
  return std::unexpected(wrong);
}

}  // namespace

std::expected<std::unique_ptr<DriveContents>, std::string> DriveContents::open(
    const std::string& path, std::uint64_t size_bytes, bool keeps_fills) {
  const auto fd = open_sized(path, size_bytes);
  if (!fd) return std::unexpected(fd.error());
  const std::string fills_path = path + ".fills";
  if (!keeps_fills && ::access(fills_path.c_str(), F_OK) != 0) {
    return std::unique_ptr<DriveContents>(new DriveContents(*fd, -1));
  }
  const auto fills = open_sized(fills_path, (size_bytes + kBlock - 1) / kBlock);
  if (!fills) {
    ::close(*fd);
    return std::unexpected(fills.error());
  }
  return std::unique_ptr<DriveContents>(new DriveContents(*fd, *fills));
}

DriveContents::~DriveContents() {
  ::close(fd_);
  if (fills_fd_ >= 0) ::close(fills_fd_);
}

int DriveContents::read(std::uint64_t offset, std::span<std::byte> to) {
  if (const int status = read_all(fd_, offset, to); status != 0) return status;
  if (fills_fd_ < 0 || to.empty()) return 0;
  const std::uint64_t first = offset / kBlock, end = (offset + to.size() + kBlock - 1) / kBlock;
  std::vector<std::byte> fills(end - first);
  if (const int status = read_all(fills_fd_, first, fills); status != 0) return status;
  for (std::uint64_t block = first; block < end; ++block) {
    const std::byte fill = fills[block - first];
    if (fill == std::byte{0}) continue;
    const std::uint64_t from = std::max(offset, block * kBlock) - offset;
    const std::uint64_t until = std::min(offset + to.size(), (block + 1) * kBlock) - offset;
    std::ranges::fill(to.subspan(from, until - from), fill);
  }
  return 0;
}

int DriveContents::spell_out(std::uint64_t offset) {
  const std::uint64_t block = offset / kBlock;
  std::byte fill{};
  const int found = read_all(fills_fd_, block, std::span(&fill, 1));
  if (found != 0 || fill == std::byte{0}) return found;
  const std::vector<std::byte> content(kBlock, fill);
  if (const int status = write_all(fd_, block * kBlock, content); status != 0) return status;
  fill = std::byte{0};
  return write_all(fills_fd_, block, std::span(&fill, 1));
}

// Whole blocks only: runs of blocks that are kept in the same way are written at once.
int DriveContents::write_in_runs(std::uint64_t offset, std::span<const std::byte> bytes) {
  std::vector<std::byte> fills;
  for (std::size_t at = 0; at < bytes.size(); at += kBlock) {
    const auto block = bytes.subspan(at, kBlock);
    fills.push_back(repeats(block) ? block.front() : std::byte{0});
  }
  for (std::size_t i = 0, end = 0; i < fills.size(); i = end) {
    const auto is_fill = [](std::byte fill) { return fill != std::byte{0}; };
    while (end < fills.size() && is_fill(fills[end]) == is_fill(fills[i])) ++end;
    const auto run = bytes.subspan(i * kBlock, (end - i) * kBlock);
    const int status = is_fill(fills[i]) ? punch_hole(fd_, offset + i * kBlock, run.size())
                                         : write_out(offset + i * kBlock, run);
    if (status != 0) return status;
  }
  return write_all(fills_fd_, offset / kBlock, fills);
}

int DriveContents::write_out(std::uint64_t offset, std::span<const std::byte> bytes) {
  const bool is_zero = bytes.front() == std::byte{0} && repeats(bytes);
  return is_zero ? punch_hole(fd_, offset, bytes.size()) : write_all(fd_, offset, bytes);
}

int DriveContents::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  if (bytes.empty()) return 0;
  if (fills_fd_ < 0) return write_out(offset, bytes);
  const std::uint64_t end = offset + bytes.size();
  const std::uint64_t first = (offset + kBlock - 1) / kBlock * kBlock, last = end / kBlock * kBlock;
  if (offset % kBlock != 0) {
    if (const int status = spell_out(offset); status != 0) return status;
  }
  if (end % kBlock != 0) {
    if (const int status = spell_out(end - 1); status != 0) return status;
  }
  if (first >= last) return write_all(fd_, offset, bytes);
  const auto head = bytes.first(first - offset), tail = bytes.last(end - last);
  if (const int status = write_all(fd_, offset, head); status != 0) return status;
  if (const int status = write_all(fd_, last, tail); status != 0) return status;
  return write_in_runs(first, bytes.subspan(first - offset, last - first));
}

int DriveContents::punch(std::uint64_t offset, std::uint64_t length) {
  if (length == 0) return 0;
  if (fills_fd_ < 0) return punch_hole(fd_, offset, length);
  const std::uint64_t end = offset + length;
  const std::uint64_t first = (offset + kBlock - 1) / kBlock, last = end / kBlock;
  if (offset % kBlock != 0) {
    if (const int status = spell_out(offset); status != 0) return status;
  }
  if (end % kBlock != 0) {
    if (const int status = spell_out(end - 1); status != 0) return status;
  }
  if (const int status = punch_hole(fd_, offset, length); status != 0) return status;
  return first < last ? punch_hole(fills_fd_, first, last - first) : 0;
}

}  // namespace lazyfs
