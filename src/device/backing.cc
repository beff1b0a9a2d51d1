#include "device/backing.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/blkzoned.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <boost/container/static_vector.hpp>
#include <cerrno>
#include <fstream>
#include <string>
#include <utility>

#include "base/before_wait.h"
#include "device/undo_file.h"

namespace lazyfs::device {
namespace {

Errc open_error(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
    case ENXIO:
    case ENODEV:
    case ENOMEDIUM: return Errc::kDeviceMissing;
    case EACCES:
    case EPERM: return Errc::kDeviceAccess;
    case EBUSY:
    case ETXTBSY: return Errc::kDeviceBusy;
    case EROFS: return Errc::kDeviceReadOnly;
    case EEXIST: return Errc::kEdiExists;
    case ENOSPC:
    case EDQUOT: return Errc::kDeviceNoSpace;
    case EISDIR: return Errc::kIsDirectory;
    default: return Errc::kDeviceRead;
  }
}

Errc write_error(int error) {
  return error == ENOSPC || error == EDQUOT || error == EFBIG ? Errc::kDeviceNoSpace
                                                              : Errc::kDeviceWrite;
}

// Tries to claim a block device, and releases it at once: a mount as fuseblk makes the kernel claim
// the device itself.
Result<> probe_block_device(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_EXCL);
  if (fd < 0) return fail(open_error(errno));
  ::close(fd);
  return ok();
}

// Discarded by one system call. An append to the band may have to wait for one call.
constexpr std::uint64_t kDiscardBytes = std::uint64_t{64} << 20;

// Linux opens a read-only block device for writing without an error. Only the writes fail.
bool is_write_protected(int fd) {
  int protection = 0;
  return ::ioctl(fd, BLKROGET, &protection) == 0 && protection != 0;
}

// As many as one system call takes. Memory need not be found during a write.
using Vector = boost::container::static_vector<iovec, IOV_MAX>;

// Returns the next pieces as an iovec and joins pieces that are adjacent in memory. `skip` bytes of
// the first piece are already written.
Vector gather(std::span<const Piece> pieces, std::size_t skip) {
  Vector out;
  for (const Piece& piece : pieces) {
    if (piece.size() <= skip) {
      skip -= piece.size();
      continue;
    }
    auto* start = const_cast<std::byte*>(piece.data()) + skip;
    const std::size_t length = piece.size() - std::exchange(skip, 0);
    const auto* end =
        out.empty() ? nullptr : static_cast<std::byte*>(out.back().iov_base) + out.back().iov_len;
    if (end == start) {
      out.back().iov_len += length;
    } else if (out.size() == IOV_MAX) {
      break;
    } else {
      out.push_back({.iov_base = start, .iov_len = length});
    }
  }
  return out;
}

}  // namespace

Backing::Backing(Backing&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), is_block_device_(other.is_block_device_),
      undo_(other.undo_) {}

Backing::~Backing() {
  if (fd_ >= 0) ::close(fd_);
}

Result<Backing> Backing::adopt(int fd, Claim claim) {
  Backing backing(fd, false);
  struct stat st;
  if (::fstat(fd, &st) != 0) return fail(Errc::kDeviceRead);
  if (S_ISDIR(st.st_mode)) return fail(Errc::kIsDirectory);
  if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode)) return fail(Errc::kNotADisk);
  backing.is_block_device_ = S_ISBLK(st.st_mode);
  if (!backing.is_block_device_ && claim == Claim::kExclusive &&
      ::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    return fail(Errc::kDeviceBusy);
  }
  return backing;
}

Result<Backing> Backing::open(const std::string& path, bool read_only, Claim claim) {
  // O_NONBLOCK: opening a FIFO must not block.
  const int flags = (read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NONBLOCK;
  const int fd = ::open(path.c_str(), flags);
  if (fd < 0) return fail(open_error(errno));
  ASSIGN_OR_RETURN(Backing backing, adopt(fd, claim));
  if (backing.is_block_device_ && !read_only && is_write_protected(fd)) {
    return fail(Errc::kDeviceReadOnly);
  }
  if (backing.is_block_device_ && claim == Claim::kExclusive) TRY(probe_block_device(path));
  return backing;
}

Result<Backing> Backing::open(const std::string& path, const OpenOptions& options) {
  const Claim claim = options.exclusive ? Claim::kExclusive : Claim::kNone;
  ASSIGN_OR_RETURN(Backing backing, options.held ? options.held->duplicate()
                                                 : open(path, options.read_only, claim));
  if (options.undo) backing.keep_in(options.undo);
  return backing;
}

Result<Backing> Backing::make(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) return fail(open_error(errno));
  return adopt(fd, Claim::kExclusive);
}

Result<Backing> Backing::duplicate() const {
  const int fd = ::fcntl(fd_, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return fail(open_error(errno));
  Backing copy(fd, is_block_device_);
  copy.undo_ = undo_;
  return copy;
}

bool Backing::is_same(const Backing& other) const {
  struct stat st, of_other;
  if (::fstat(fd_, &st) != 0 || ::fstat(other.fd_, &of_other) != 0) return false;
  if (is_block_device_ != other.is_block_device_) return false;
  if (is_block_device_) return st.st_rdev == of_other.st_rdev;
  return st.st_dev == of_other.st_dev && st.st_ino == of_other.st_ino;
}

bool Backing::is_zoned() const {
  std::uint32_t zone_sectors = 0;
  return is_block_device_ && ::ioctl(fd_, BLKGETZONESZ, &zone_sectors) == 0 && zone_sectors > 0;
}

bool Backing::is_loop_over_file() const {
  struct stat st;
  if (!is_block_device_ || ::fstat(fd_, &st) != 0) return false;
  // A loop device's partition has no such file.
  std::ifstream file("/sys/dev/block/" + std::to_string(major(st.st_rdev)) + ":" +
                     std::to_string(minor(st.st_rdev)) + "/loop/offset");
  std::uint64_t offset = 0;
  return file >> offset && offset == 0;
}

Result<std::uint64_t> Backing::size_bytes() const {
  if (is_block_device_) {
    std::uint64_t bytes = 0;
    if (::ioctl(fd_, BLKGETSIZE64, &bytes) != 0) return fail(Errc::kDeviceRead);
    return bytes;
  }
  struct stat st;
  if (::fstat(fd_, &st) != 0) return fail(Errc::kDeviceRead);
  return static_cast<std::uint64_t>(st.st_size);
}

Result<> Backing::become_hole(std::uint64_t size_bytes) {
  if (::ftruncate(fd_, 0) != 0 || ::ftruncate(fd_, static_cast<off_t>(size_bytes)) != 0) {
    return fail(write_error(errno));
  }
  return ok();
}

Result<> Backing::enlarge(std::uint64_t size_bytes) const {
  if (size_bytes > std::uint64_t{INT64_MAX}) return fail(Errc::kDeviceNoSpace);
  if (::ftruncate(fd_, static_cast<off_t>(size_bytes)) != 0) return fail(write_error(errno));
  return ok();
}

void Backing::prefer_direct() {
  const int flags = ::fcntl(fd_, F_GETFL);
  if (flags >= 0) static_cast<void>(::fcntl(fd_, F_SETFL, flags | O_DIRECT));
}

Result<std::size_t> Backing::read_some(std::uint64_t at, std::span<std::byte> to) const {
  about_to_wait();
  std::size_t done = 0;
  while (done < to.size()) {
    const ssize_t n =
        ::pread(fd_, to.data() + done, to.size() - done, static_cast<off_t>(at + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail(Errc::kDeviceRead);
    if (n == 0) break;
    done += static_cast<std::size_t>(n);
    // Direct I/O cannot continue at an unaligned offset. A read stops there only at the file's end.
    if (done % kBlockBytes != 0) break;
  }
  return done;
}

Result<> Backing::read(std::uint64_t at, std::span<std::byte> to) const {
  ASSIGN_OR_RETURN(const std::size_t done, read_some(at, to));
  return done == to.size() ? ok() : fail(Errc::kDeviceTruncated);
}

Backing::Written Backing::write(std::uint64_t at, std::span<const Piece> pieces) const {
  if (undo_) {
    if (auto kept = undo_->keep(*this, at, bytes_of(pieces)); !kept) return {0, kept};
  }
  return write_pieces(at, pieces);
}

Backing::Written Backing::write_pieces(std::uint64_t at, std::span<const Piece> pieces) const {
  about_to_wait();
  const std::size_t total = bytes_of(pieces);
  std::size_t done = 0, in_front = 0;  // in_front: bytes already written of the first piece
  while (done < total) {
    const Vector vector = gather(pieces, in_front);
    const ssize_t n = ::pwritev(fd_, vector.data(), static_cast<int>(vector.size()),
                                static_cast<off_t>(at + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return {done, fail(write_error(errno))};
    if (n == 0) return {done, fail(Errc::kDeviceWrite)};
    done += static_cast<std::size_t>(n);
    in_front += static_cast<std::size_t>(n);
    while (!pieces.empty() && in_front >= pieces.front().size()) {
      in_front -= pieces.front().size();
      pieces = pieces.subspan(1);
    }
  }
  return {done, ok()};
}

Result<> Backing::discard_piece(std::uint64_t at, std::uint64_t length_bytes) const {
  int result = 0;
  do {
    std::uint64_t range[2] = {at, length_bytes};
    result = is_block_device_ ? ::ioctl(fd_, BLKDISCARD, range)
                              : ::fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                            static_cast<off_t>(at),
                                            static_cast<off_t>(length_bytes));
  } while (result != 0 && errno == EINTR);
  if (result == 0) return ok();
  const bool is_unknown = errno == EOPNOTSUPP || errno == ENOTTY || errno == ENOSYS;
  return fail(is_unknown ? Errc::kUnsupported : Errc::kDeviceWrite);
}

Result<std::uint64_t> Backing::discard(std::uint64_t at, std::uint64_t length_bytes,
                                       const std::function<bool()>& may_continue) const {
  if (undo_) return fail(Errc::kUnsupported);
  std::uint64_t done = 0;
  while (done < length_bytes && may_continue()) {
    const std::uint64_t piece = std::min(length_bytes - done, kDiscardBytes);
    TRY(discard_piece(at + done, piece));
    done += piece;
  }
  return done;
}

Result<> Backing::sync() const {
  about_to_wait();
  int result = 0;
  do {
    result = ::fdatasync(fd_);
  } while (result != 0 && errno == EINTR);
  return result == 0 ? ok() : fail(Errc::kDeviceFlush);
}

}  // namespace lazyfs::device
