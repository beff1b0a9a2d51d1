// The banded device: the only way to the disk. A contract that the emulator (src/edi), zoned disks
// and the test devices all keep; test/device/contract.h runs against every one of them.
//
// Modelled on the T13 Banded Device Command Set as the ShingledFS thesis, section 4, has it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace lazyfs::device {

enum class BandKind : std::uint8_t {
  kShingled,      // written from its start to its end, at the write pointer only
  kConventional,  // takes writes anywhere; has no write pointer (it reads as the band's size)
};

enum class BandCondition : std::uint8_t {
  kEmpty,     // write pointer is 0
  kOpen,      // partly written
  kFull,      // write pointer is at the end
  kReadOnly,  // can be read, never again written
  kOffline,   // can be neither read nor written
};

// What never changes while a device is open.
struct Geometry {
  std::uint32_t block_bytes = kBlockBytes;
  // Size of every band, in blocks. Bands that are linked are one band of their joint size with the
  // number of the first; the others keep their numbers, have size 0 and are offline.
  std::vector<std::uint32_t> band_blocks;
  std::vector<BandKind> band_kinds;        // as many

  std::uint32_t band_count() const { return static_cast<std::uint32_t>(band_blocks.size()); }
  std::uint64_t total_blocks() const;
  bool has(BandId band) const { return band.value < band_count(); }
  std::uint32_t blocks_of(BandId band) const { return band_blocks[band.value]; }
  friend bool operator==(const Geometry&, const Geometry&) = default;
};

// What a device can do; asked for, never assumed.
struct Capabilities {
  bool set_write_pointer = false;    // a write pointer can be set back to the middle of a band
  std::uint32_t max_open_bands = 0;  // bands that may be partly written at once; 0: no limit
  bool read_only = false;
};

struct BandReport {
  BandKind kind = BandKind::kShingled;
  BandCondition condition = BandCondition::kEmpty;
  std::uint32_t blocks = 0;
  std::uint32_t write_pointer = 0;  // RBA of the next append
  friend bool operator==(const BandReport&, const BandReport&) = default;
};

// A piece of memory to write: whole blocks, aligned to kBlockBytes.
using Piece = std::span<const std::byte>;

// Durability: what a completed flush() covered survives a power cut, data and write pointers alike.
// What was appended, set or reset after it may be kept, lost or torn: a write pointer may then
// stand anywhere from its flushed place to the last append (after a reset: at 0, at its old place,
// or anywhere that appends after the reset have brought it), and blocks between its flushed place
// and there may hold anything.
//
// Thread-safe. Appends to one band must not run at the same time: the second may then find the
// write pointer elsewhere and fail with kNotAtWritePointer. All else may run at once.
class Device {
 public:
  virtual ~Device() = default;
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  virtual const Geometry& geometry() const = 0;
  virtual Capabilities capabilities() const = 0;
  virtual std::string name() const = 0;  // path or description, for messages

  // Reads whole blocks from `from`; `to` is aligned to kBlockBytes.
  // Errors: kBadBand, kBadAlignment, kPastBandEnd, kPastWritePointer, kBandOffline, kDeviceRead,
  // kDeviceTruncated (the image has been cut short since it was opened).
  virtual Result<> read(BandAddress from, std::span<std::byte> to) = 0;

  // Writes the pieces one behind the other, as one contiguous append, at `to`, which must be the
  // write pointer (conventional bands: anywhere). Nothing is written when it fails with kBadBand,
  // kBadAlignment, kNotAtWritePointer, kPastBandEnd, kBandReadOnly, kBandOffline, kBandFailed or
  // kDeviceReadOnly. After kDeviceWrite or kDeviceNoSpace the write pointer stands where the device
  // left it: between `to` and the end of the append; ask write_pointer(). The band then refuses
  // appends with kBandFailed until it is reset or its write pointer is set.
  virtual Result<> append(BandAddress to, std::span<const Piece> pieces) = 0;
  Result<> append(BandAddress to, Piece piece) { return append(to, std::span(&piece, 1)); }

  // Errors: kBadBand, kBandOffline.
  virtual Result<std::uint32_t> write_pointer(BandId band) = 0;
  // Moves the write pointer back to `rba`; what lies at it and behind it is forgotten.
  // Errors: kUnsupported where the device cannot or the band is conventional, kBadBand,
  // kPastWritePointer when `rba` is ahead of the write pointer, kBandReadOnly, kBandOffline,
  // kDeviceReadOnly, kDeviceWrite.
  virtual Result<> set_write_pointer(BandId band, std::uint32_t rba) = 0;
  // Sets the write pointer to 0. Errors: kBadBand, kBandReadOnly, kBandOffline, kUnsupported for a
  // conventional band, kDeviceReadOnly, kDeviceWrite.
  virtual Result<> reset(BandId band) = 0;
  Result<> reset_all();  // every shingled band that has a size

  virtual Result<BandReport> report(BandId band) = 0;

  // Makes everything that has completed before durable. Cheap when nothing is to be done.
  // Error: kDeviceFlush; what was appended since the last good flush must then be taken as lost.
  virtual Result<> flush() = 0;
};

std::string to_string(BandKind kind);
std::string to_string(BandCondition condition);

// The checks that every device makes before it touches a band; kept here so that all agree.
// `write_pointer` is the band's. They cover kBadBand, kBadAlignment, kNotAtWritePointer,
// kPastBandEnd and kPastWritePointer; conditions of the band (offline, failed) come before them.
Result<> check_read(const Geometry& geometry, BandAddress from, std::span<const std::byte> to,
                    std::uint32_t write_pointer);
// The same for a caller who has a length but no buffer.
Result<> check_read(const Geometry& geometry, BandAddress from, std::size_t length_bytes,
                    std::uint32_t write_pointer);
Result<> check_append(const Geometry& geometry, BandAddress to, std::span<const Piece> pieces,
                      std::uint32_t write_pointer);
std::size_t bytes_of(std::span<const Piece> pieces);
// kEmpty, kOpen or kFull.
BandCondition condition_of(std::uint32_t write_pointer, std::uint32_t blocks);

}  // namespace lazyfs::device
