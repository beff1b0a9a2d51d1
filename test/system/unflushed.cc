// Simulates a power cut for an installed daemon. This library is preloaded (LD_PRELOAD) and keeps a
// journal of the device's contents before each write that no completed flush covers. After the
// daemon was killed, unflushed.py writes these contents back. No code of lazyfs knows of it.
//
//   LAZYFS_UNFLUSHED_OF        the device or image; writes to other files are not recorded
//   LAZYFS_UNFLUSHED_JOURNAL   path of the journal; a new daemon begins a new journal
//   LAZYFS_UNFLUSHED_DEAF      flushes are not recorded, so dropping undoes flushed writes, too
//   LAZYFS_UNFLUSHED_CUT       path of a file that may appear later, with a number n: the process
//                              kills itself right after the n-th change from then on
//
// The journal is a sequence of records. One write(2) writes one record, so a killed daemon leaves
// at most the last record torn. The operation of a torn record has not begun.
//   offset size field
//        0    8 kind     0 a write begins, 1 it has ended, 2 a flush begins, 3 it has succeeded
//        8    8 number   of the write or the flush
//       16    8 at       of a write that begins: offset on the device
//       24    8 length   of a write that begins: bytes of old contents that follow
// A flush covers the writes that had ended when it began. When all writes are covered the journal
// is emptied.
//
// The library intercepts only the calls with which src/device/backing.cc changes a mounted device.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <set>
#include <span>

#include "base/mutex.h"

namespace {

using lazyfs::Mutex;
using lazyfs::MutexLock;

constexpr std::uint64_t kAlignment = 4096;  // of direct I/O
constexpr std::size_t kHeaderBytes = 32;

enum class Kind : std::uint64_t { kWrite, kWritten, kFlush, kFlushed };

// Ends the process: without a complete journal the test would prove nothing.
[[noreturn]] void give_up(const char* what) {
  static_cast<void>(::write(STDERR_FILENO, what, std::strlen(what)));
  std::abort();
}

const char* variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) give_up("unflushed: LAZYFS_UNFLUSHED_... is not set\n");
  return value;
}

// Returns the function of the C library (or of a sanitizer).
template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

// Invariants:
//   U1  the bytes that a write replaces are in the journal before the write begins
//   U2  only a successful flush that began after the end of a write removes it from uncovered_
// Thread-safe. mu_ is held while the journal is written, so that records do not interleave.
class Journal {
 public:
  Journal()
      : fd_(open(variable("LAZYFS_UNFLUSHED_JOURNAL"),
                 O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600)),
        is_deaf_(std::getenv("LAZYFS_UNFLUSHED_DEAF") != nullptr),
        cut_(std::getenv("LAZYFS_UNFLUSHED_CUT")) {
    if (fd_ < 0 || stat(variable("LAZYFS_UNFLUSHED_OF"), &device_) != 0) {
      give_up("unflushed: neither journal nor device\n");
    }
  }

  bool is_device(int fd) const {
    struct stat st {};
    if (fstat(fd, &st) != 0 || (st.st_mode & S_IFMT) != (device_.st_mode & S_IFMT)) return false;
    if (S_ISBLK(st.st_mode)) return st.st_rdev == device_.st_rdev;
    return st.st_dev == device_.st_dev && st.st_ino == device_.st_ino;
  }

  // Returns the write's number.
  std::uint64_t begin_write(int fd, std::uint64_t at, std::uint64_t length) {
    const std::uint64_t first = at / kAlignment * kAlignment;
    const std::uint64_t end = (at + length + kAlignment - 1) / kAlignment * kAlignment;
    const std::unique_ptr<std::byte, decltype(&std::free)> old(
        static_cast<std::byte*>(std::aligned_alloc(kAlignment, end - first)), &std::free);
    std::memset(old.get(), 0, end - first);
    if (pread(fd, old.get(), end - first, static_cast<off_t>(first)) < 0) {
      give_up("unflushed: old contents cannot be read\n");
    }
    MutexLock lock(mu_);
    const std::uint64_t number = ++last_;
    append_locked(Kind::kWrite, number, at, std::span(old.get() + (at - first), length));
    uncovered_.insert(number);
    return number;
  }
  void end_write(std::uint64_t number) {
    MutexLock lock(mu_);
    append_locked(Kind::kWritten, number, 0, {});
    ended_.insert(number);
    kill_if_due_locked();
  }

  struct Flush {
    std::uint64_t number;
    std::set<std::uint64_t> covers;
  };
  Flush begin_flush() {
    MutexLock lock(mu_);
    const std::uint64_t number = ++last_;
    append_locked(Kind::kFlush, number, 0, {});
    return {number, ended_};
  }
  void end_flush(const Flush& flush) {
    if (is_deaf_) return;
    MutexLock lock(mu_);
    append_locked(Kind::kFlushed, flush.number, 0, {});
    for (const std::uint64_t number : flush.covers) {
      ended_.erase(number);
      uncovered_.erase(number);  // U2
    }
    if (uncovered_.empty() && ftruncate(fd_, 0) != 0) give_up("unflushed: ftruncate\n");
  }

 private:
  void append_locked(Kind kind, std::uint64_t number, std::uint64_t at,
                     std::span<std::byte> contents) REQUIRES(mu_) {
    std::array<std::uint64_t, 4> header{static_cast<std::uint64_t>(kind), number, at,
                                        contents.size()};
    static_assert(sizeof(header) == kHeaderBytes);
    const std::array<iovec, 2> record{iovec{header.data(), kHeaderBytes},
                                      iovec{contents.data(), contents.size()}};
    const auto length = static_cast<ssize_t>(kHeaderBytes + contents.size());
    if (writev(fd_, record.data(), record.size()) != length) {
      give_up("unflushed: the journal cannot be written\n");
    }
  }

  void kill_if_due_locked() REQUIRES(mu_) {
    if (cut_ == nullptr) return;
    if (left_ == 0) {
      const int file = open(cut_, O_RDONLY | O_CLOEXEC);
      if (file < 0) return;
      std::array<char, 16> text{};
      if (::read(file, text.data(), text.size() - 1) > 0) left_ = std::atoi(text.data());
      close(file);
    }
    if (left_ > 0 && --left_ == 0) static_cast<void>(raise(SIGKILL));
  }

  const int fd_;
  const bool is_deaf_;
  const char* const cut_;
  struct stat device_ {};
  Mutex mu_;
  std::uint64_t last_ GUARDED_BY(mu_) = 0;
  std::set<std::uint64_t> uncovered_ GUARDED_BY(mu_);
  std::set<std::uint64_t> ended_ GUARDED_BY(mu_);  // of these
  int left_ GUARDED_BY(mu_) = 0;                   // changes until the end; 0: not known yet
};

Journal& journal() {
  static Journal the_journal;
  return the_journal;
}

// REQUIRES: the descriptor has no earlier writes, and no other thread runs.
[[gnu::constructor]] void begin() { static_cast<void>(journal()); }

}  // namespace

extern "C" {

ssize_t pwritev(int fd, const iovec* pieces, int count, off_t at) {
  static auto* const real = next<ssize_t(int, const iovec*, int, off_t)>("pwritev");
  if (!journal().is_device(fd)) return real(fd, pieces, count, at);
  const std::span all(pieces, static_cast<std::size_t>(count));
  const std::uint64_t length =
      std::accumulate(all.begin(), all.end(), std::uint64_t{0},
                      [](std::uint64_t sum, const iovec& piece) { return sum + piece.iov_len; });
  const std::uint64_t number = journal().begin_write(fd, static_cast<std::uint64_t>(at), length);
  const ssize_t written = real(fd, pieces, count, at);
  journal().end_write(number);
  return written;
}

int fallocate(int fd, int mode, off_t at, off_t length) {
  static auto* const real = next<int(int, int, off_t, off_t)>("fallocate");
  if (!journal().is_device(fd)) return real(fd, mode, at, length);
  const std::uint64_t number =
      journal().begin_write(fd, static_cast<std::uint64_t>(at), static_cast<std::uint64_t>(length));
  const int result = real(fd, mode, at, length);
  journal().end_write(number);
  return result;
}

int fdatasync(int fd) {
  static auto* const real = next<int(int)>("fdatasync");
  if (!journal().is_device(fd)) return real(fd);
  const Journal::Flush flush = journal().begin_flush();
  const int result = real(fd);
  if (result == 0) journal().end_flush(flush);
  return result;
}

}  // extern "C"
