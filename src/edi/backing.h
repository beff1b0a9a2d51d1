// The file or block device that holds an image: opening it, claiming it, moving bytes. errno ends
// here. Direct I/O where it can be had and the block size allows it.
#pragma once

#include <string>

#include "base/buffer.h"
#include "base/result.h"
#include "device/device.h"

namespace lazyfs::edi {

// Owns the descriptor, and with it the lock on an image file. Thread-safe after opening.
class Backing {
 public:
  enum class Claim {
    kNone,       // for looking: others may use the image
    kExclusive,  // nobody else may claim it; held for as long as this lives
  };

  // Errors: kDeviceMissing, kDeviceAccess, kDeviceBusy, kDeviceReadOnly, kDeviceRead; kEdiBadMagic
  // for what is neither a file nor a block device.
  static Result<Backing> open(const std::string& path, bool read_only, Claim claim);
  // Makes a new file, claimed. Errors: kEdiExists besides those of open(), kDeviceNoSpace.
  static Result<Backing> make(const std::string& path);

  // Another owner of the same file, claim and all; the claim ends with the last one.
  Result<Backing> duplicate() const;

  Backing(Backing&& other) noexcept;
  Backing& operator=(Backing&&) = delete;
  ~Backing();

  bool is_block_device() const { return is_block_device_; }
  Result<std::uint64_t> size_bytes() const;
  // A file of exactly `size_bytes`, all of it a hole. Errors: kDeviceNoSpace, kDeviceWrite.
  Result<> become_hole(std::uint64_t size_bytes);
  // Asks for direct I/O; where it cannot be had I/O stays buffered.
  void prefer_direct();

  // Reads up to to.size() bytes; fewer only at the end of the file. Error: kDeviceRead.
  Result<std::size_t> read_some(std::uint64_t at, std::span<std::byte> to) const;
  // Errors: kDeviceRead, kDeviceTruncated.
  Result<> read(std::uint64_t at, std::span<std::byte> to) const;

  // How far a write came, and why it ended there.
  struct Written {
    std::uint64_t bytes = 0;
    Result<> result;
  };
  // Errors: kDeviceWrite, kDeviceNoSpace.
  Written write(std::uint64_t at, std::span<const device::Piece> pieces) const;
  Result<> write(std::uint64_t at, device::Piece piece) const {
    return write(at, std::span(&piece, 1)).result;
  }
  // Gives the room of a range back to the file system below; a wish only.
  void punch(std::uint64_t at, std::uint64_t length_bytes) const;
  // Error: kDeviceFlush.
  Result<> sync() const;

 private:
  explicit Backing(int fd, bool is_block_device) : fd_(fd), is_block_device_(is_block_device) {}
  static Result<Backing> adopt(int fd, Claim claim);

  int fd_ = -1;
  bool is_block_device_ = false;
};

}  // namespace lazyfs::edi
