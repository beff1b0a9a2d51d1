// The banded device: lazyfs reads and writes a disk only through this interface. src/edi,
// src/plain, src/zoned and the test devices implement it; test/device/contract.h tests each of
// them.
//
// Modelled on the T13 Banded Device Command Set as section 4 of the ShingledFS thesis describes it.
#pragma once

#include <array>
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
  kReadOnly,  // reads work, writes fail for ever
  kOffline,   // neither reads nor writes work
};

// While a device is open, bands may be added at its end (Device::grow()), and nothing else changes.
struct Geometry {
  std::uint32_t block_bytes = kBlockBytes;
  // Size of every band, in blocks. Linked bands act as one band: the first has the size of all of
  // them. The others keep their numbers, have size 0 and are offline.
  std::vector<std::uint32_t> band_blocks;
  std::vector<BandKind> band_kinds;  // as many as band_blocks
  // The bands of the filesystem's superblocks: the two that the device's own header names, else the
  // first two shingled bands.
  std::array<BandId, 2> super_bands{BandId{0}, BandId{1}};

  std::uint32_t band_count() const { return static_cast<std::uint32_t>(band_blocks.size()); }
  std::uint64_t total_blocks() const;
  // The first two shingled bands that have blocks; bands 0 and 1 if there are fewer.
  std::array<BandId, 2> first_shingled() const;
  bool has(BandId band) const { return band.value < band_count(); }
  std::uint32_t blocks_of(BandId band) const { return band_blocks[band.value]; }
  friend bool operator==(const Geometry&, const Geometry&) = default;
};

// Optional features of a device.
struct Capabilities {
  // The device remembers write pointers. If not, the host does: see "Write pointers" below.
  bool keeps_write_pointers = true;
  bool set_write_pointer = false;    // a write pointer can move back to the middle of a band
  bool discards = true;              // discard() may do more than reset() has done
  // Maximum number of partly written shingled bands; 0: no limit. See seal().
  std::uint32_t max_open_bands = 0;
  bool read_only = false;
};

struct BandReport {
  BandKind kind = BandKind::kShingled;
  BandCondition condition = BandCondition::kEmpty;
  std::uint32_t blocks = 0;
  std::uint32_t write_pointer = 0;  // RBA of the next append
  friend bool operator==(const BandReport&, const BandReport&) = default;
};

// Memory to write: whole blocks, aligned to kBlockBytes.
using Piece = std::span<const std::byte>;

// Durability:
//   D1  the data and write pointers that a completed flush() covers survive a power cut
//   D2  a power cut may keep, lose or tear any later append, set or reset. Afterwards the write
//       pointer is anywhere from its flushed position to the end of the last append. After a reset
//       it is 0, its old position, or any position that later appends have reached. Blocks from the
//       flushed position on may have any contents.
//   D3  until it is written again, each block of a discarded band holds its earlier contents or
//       zeros: before and after a power cut, with or without a flush
//
// Write pointers of a device without keeps_write_pointers, a plain block device:
//   W1  when the device is opened, also after a power cut, the end of each shingled band is
//       unknown. Then write_pointer() is the band's size, report() says kFull, every block can be
//       read, and every append fails
//   W2  reset() makes the end known: 0. So does set_write_pointer(), which states the end. It is
//       allowed once for each band after opening, before the band's first reset. It writes nothing
//   W3  the device writes only where the host appends. So the host keeps this rule: between two
//       resets of a band it writes no block twice, not even after a power cut. Blocks that a crash
//       leaves past the end that the host knows are not overwritten before the band's reset
//   W4  a reset need not change the blocks. Afterwards, and after a power cut, blocks that were not
//       written again may hold what they held before, or zeros
// Such a device has Capabilities::set_write_pointer == false: an end that is known does not move
// back to the middle of a band.
//
// Thread-safe. REQUIRES: no two appends to one band run at the same time. Otherwise the second may
// fail with kNotAtWritePointer.
class Device {
 public:
  virtual ~Device() = default;
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // After grow() a reference from an earlier call stays valid, without the new bands.
  virtual const Geometry& geometry() const = 0;
  virtual Capabilities capabilities() const = 0;
  virtual std::string name() const = 0;  // path or description, for messages

  // Reads whole blocks from `from`. REQUIRES: `to` is aligned to kBlockBytes.
  // Errors: kBadBand, kBadAlignment, kPastBandEnd, kPastWritePointer, kBandOffline, kDeviceRead,
  // kDeviceTruncated (the image file became shorter after it was opened).
  virtual Result<> read(BandAddress from, std::span<std::byte> to) = 0;

  // Writes the pieces in sequence, as one append at `to`. REQUIRES: `to` is the write pointer (in a
  // conventional band: any address).
  // Errors that write nothing: kBadBand, kBadAlignment, kNotAtWritePointer, kPastBandEnd,
  // kBandReadOnly, kBandOffline, kBandFailed, kDeviceReadOnly; kTooManyOpenBands if the band is
  // empty, and as many others as the device allows are partly written and not sealed.
  // Errors that may write a part: kDeviceWrite, kDeviceNoSpace. write_pointer() then returns a
  // position from `to` to the end of the append. The band refuses appends with kBandFailed until it
  // is reset or its write pointer is set.
  virtual Result<> append(BandAddress to, std::span<const Piece> pieces) = 0;
  Result<> append(BandAddress to, Piece piece) { return append(to, std::span(&piece, 1)); }

  // Errors: kBadBand, kBandOffline.
  virtual Result<std::uint32_t> write_pointer(BandId band) = 0;
  // Moves the write pointer back to `rba` and discards the blocks from `rba` on. Where the end is
  // unknown (W1), states the end instead.
  // Errors: kUnsupported if the device lacks the feature or the band is conventional, kBadBand,
  // kPastWritePointer if `rba` is past the write pointer, kBandReadOnly, kBandOffline,
  // kDeviceReadOnly, kDeviceWrite.
  virtual Result<> set_write_pointer(BandId band, std::uint32_t rba) = 0;
  // Sets the write pointer to 0. Errors: kBadBand, kBandReadOnly, kBandOffline, kUnsupported for a
  // conventional band, kDeviceReadOnly, kDeviceWrite.
  virtual Result<> reset(BandId band) = 0;
  Result<> reset_all();  // resets every shingled band with a size above 0

  // States that the host appends no more to the band until its reset. A device with max_open_bands
  // may then move the write pointer to the end, at any time, to begin another band. The skipped
  // blocks can be read, and may hold anything; the band refuses appends. The call itself does no
  // I/O. It has no effect on a conventional or an empty band.
  virtual void seal(BandId /*band*/) {}

  // Drops copies of the band's blocks that the device holds in memory, so that the next reads come
  // from the medium. Called when a block that was read is not what the host has written.
  virtual void forget_copies(BandId /*band*/) {}

  // Advises the medium that the blocks of an empty band are not needed (D3): a block device
  // discards them (TRIM), a file gets a hole. An append to the band makes the discard end early,
  // and waits for its end. Returns the number of bytes discarded: 0 if the band is not empty.
  // REQUIRES: if the end of the band is unknown (W1), the host needs none of its blocks.
  // Errors: kUnsupported if the medium takes no discards or the band is conventional, kBadBand,
  // kBandReadOnly, kBandOffline, kDeviceReadOnly, kDeviceWrite.
  virtual Result<std::uint64_t> discard(BandId band) = 0;

  virtual Result<BandReport> report(BandId band) = 0;

  // Adds as many bands at the end as the file or block device has room for. `bytes`: the size to
  // which a file is enlarged first; 0: it keeps its size. Durable on return. After a power cut the
  // device has all of the new bands, or none. A new band holds nothing; its end may be unknown
  // (W1).
  // Errors that leave the device as it is: kUnsupported, kDeviceReadOnly, kGrowNoRoom,
  // kGrowSmaller, kGrowSize, kEdiTableFull, kDeviceNoSpace. After other errors the device has its
  // earlier bands until it is opened again.
  virtual Result<> grow(std::uint64_t /*bytes*/) { return fail(Errc::kUnsupported); }

  // Makes all completed calls durable. Costs little when nothing has changed.
  // Error: kDeviceFlush. Appends since the last successful flush may then be lost.
  virtual Result<> flush() = 0;
};

std::string to_string(BandKind kind);
std::string to_string(BandCondition condition);

// The checks that every device makes before it reads or writes a band whose write pointer is
// `write_pointer`. A device checks the condition of the band (offline, failed) first.
// Errors: kBadBand, kBadAlignment, kNotAtWritePointer, kPastBandEnd, kPastWritePointer.
Result<> check_read(const Geometry& geometry, BandAddress from, std::span<const std::byte> to,
                    std::uint32_t write_pointer);
// The same check for a caller that has a length but no buffer.
Result<> check_read(const Geometry& geometry, BandAddress from, std::size_t length_bytes,
                    std::uint32_t write_pointer);
Result<> check_append(const Geometry& geometry, BandAddress to, std::span<const Piece> pieces,
                      std::uint32_t write_pointer);
std::size_t bytes_of(std::span<const Piece> pieces);
// Returns kEmpty, kOpen or kFull.
BandCondition condition_of(std::uint32_t write_pointer, std::uint32_t blocks);

}  // namespace lazyfs::device
