// The file or block device that holds the bytes of a banded device: opens it, claims it, reads and
// writes bytes. No other file that knows how a device is laid out handles errno.
#pragma once

#include <functional>
#include <string>

#include "base/buffer.h"
#include "base/result.h"
#include "device/device.h"

namespace lazyfs::device {

class Backing;
class UndoFile;

// How to open a device of any kind.
struct OpenOptions {
  bool read_only = false;
  bool exclusive = true;  // claim it; kDeviceBusy if another process has done so
  // A file or device that is already open, with its claim if it has one. `path` is not opened then.
  // It must outlive the call. Null: open `path`.
  const Backing* held = nullptr;
  // Saves what writes replace (undo_file.h). It must outlive the device. Null: nothing is saved.
  UndoFile* undo = nullptr;
  // Logs a warning of damage that a second copy makes good. False: the caller reports such damage.
  bool warns = true;
};

// Owns the file descriptor and the lock on an image file. Thread-safe once it is open. Reads,
// writes and sync() call about_to_wait() first (base/before_wait.h).
class Backing {
 public:
  enum class Claim {
    kNone,       // other processes may use the image
    kExclusive,  // no other process may claim the image while this object exists
  };

  // Errors: kDeviceMissing, kDeviceAccess, kDeviceBusy, kDeviceReadOnly, kDeviceRead;
  // kIsDirectory; kNotADisk if the path is a character device, a pipe or a socket.
  static Result<Backing> open(const std::string& path, bool read_only, Claim claim);
  // Returns a second owner of `options.held`, or opens `path` if that is null. Errors: as above.
  static Result<Backing> open(const std::string& path, const OpenOptions& options);
  // Makes a new file and claims it. Errors: kEdiExists, kDeviceNoSpace, and those of open().
  static Result<Backing> make(const std::string& path);

  // Returns a second owner of the same file and claim. The claim ends with the last owner.
  Result<Backing> duplicate() const;
  // From now on `undo` saves what writes replace, and discard() fails with kUnsupported. `undo`
  // must outlive this object and its duplicates.
  void keep_in(UndoFile* undo) { undo_ = undo; }

  Backing(Backing&& other) noexcept;
  Backing& operator=(Backing&&) = delete;
  ~Backing();

  bool is_block_device() const { return is_block_device_; }
  // Whether both are one file, or one block device.
  bool is_same(const Backing& other) const;
  bool is_zoned() const;  // a block device whose zones take writes at their write pointers only
  bool is_loop_over_file() const;  // a loop device that begins where its file begins
  // For ioctls that only one kind of device has.
  int descriptor() const { return fd_; }
  Result<std::uint64_t> size_bytes() const;
  // Makes the file one hole of `size_bytes`. Errors: kDeviceNoSpace, kDeviceWrite.
  Result<> become_hole(std::uint64_t size_bytes);
  // Makes the file `size_bytes` long. REQUIRES: it is not longer. Errors: kDeviceNoSpace,
  // kDeviceWrite.
  Result<> enlarge(std::uint64_t size_bytes) const;
  // Enables direct I/O. If the file system does not support it, I/O stays buffered.
  void prefer_direct();

  // Reads up to to.size() bytes; fewer only at the end of the file. Error: kDeviceRead.
  Result<std::size_t> read_some(std::uint64_t at, std::span<std::byte> to) const;
  // Errors: kDeviceRead, kDeviceTruncated.
  Result<> read(std::uint64_t at, std::span<std::byte> to) const;

  // The number of bytes written, and the error if not all were written.
  struct Written {
    std::uint64_t bytes = 0;
    Result<> result;
  };
  // Errors: kDeviceWrite, kDeviceNoSpace.
  Written write(std::uint64_t at, std::span<const Piece> pieces) const;
  Result<> write(std::uint64_t at, Piece piece) const {
    return write(at, std::span(&piece, 1)).result;
  }
  // Discards a range of a block device (TRIM), or makes it a hole of a file, piece by piece until
  // `may_continue` says no. Returns the number of bytes that were discarded.
  // Errors: kUnsupported if neither works here, kDeviceWrite.
  Result<std::uint64_t> discard(std::uint64_t at, std::uint64_t length_bytes,
                                const std::function<bool()>& may_continue) const;
  // Error: kDeviceFlush.
  Result<> sync() const;

 private:
  explicit Backing(int fd, bool is_block_device) : fd_(fd), is_block_device_(is_block_device) {}
  static Result<Backing> adopt(int fd, Claim claim);
  Written write_pieces(std::uint64_t at, std::span<const Piece> pieces) const;
  Result<> discard_piece(std::uint64_t at, std::uint64_t length_bytes) const;

  int fd_ = -1;
  bool is_block_device_ = false;
  UndoFile* undo_ = nullptr;
};

}  // namespace lazyfs::device
