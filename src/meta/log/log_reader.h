// Reads parts of the log at known places, for recovery: each descriptor, or its copy if the
// descriptor is damaged. Trusts nothing that it reads.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"
#include "device/device.h"
#include "meta/log/recovered_log.h"
#include "meta/log/superblock.h"

namespace lazyfs::meta {

// Reads blocks for a caller that goes backwards: a read shortly before the last one also reads the
// blocks before it. A caller that takes longer steps gets only the blocks that it asks for.
class BackwardReader {
 public:
  static constexpr std::uint32_t kWindowBlocks = 256;
  explicit BackwardReader(device::Device& device)
      : device_(device), window_(std::size_t{kWindowBlocks} * kBlockBytes) {}

  // The block, valid until the next call. `blocks`: the number of blocks from `at` on that the
  // caller will ask for.
  Result<ConstBlockBytes> block(BandAddress at, std::uint32_t blocks = 1);
  // Makes the next call read from the medium.
  void forget(BandId band) {
    device_.forget_copies(band);
    begin_ = end_ = 0;
  }
  // What `decode` makes of the block. If that is an error the block is read again, from the medium.
  template <class Decode>
  auto decode_twice(BandAddress at, std::uint32_t blocks, Decode decode)
      -> decltype(decode(std::declval<ConstBlockBytes>())) {
    if (const auto bytes = block(at, blocks); bytes) {
      if (auto decoded = decode(*bytes); decoded) return decoded;
    }
    device_.forget_copies(at.band);
    TRY(fill(at, 1));
    return decode(ConstBlockBytes(window_.data(), kBlockBytes));
  }

 private:
  static constexpr std::uint32_t kNearBlocks = 32;  // cheaper than another read
  Result<> fill(BandAddress first, std::uint32_t blocks);

  device::Device& device_;
  AlignedBuffer window_;
  BandId band_{};
  std::uint32_t begin_ = 0, end_ = 0;  // of what window_ holds
};

struct FoundBand {
  BandId band;
  std::uint64_t slot = 0;
  std::uint32_t write_pointer = 0;  // the log ends there at the latest; see LogEnd
};

struct FoundPart {
  RecoveredPart part;
  std::uint64_t session = 0;  // that wrote it
  std::uint32_t version = kLogVersion;
  PartPlace previous;
  PartAddress tail;
  NodeNo next_node;
  std::uint32_t index = 0;  // in its transaction
  std::uint32_t images = 0;
  std::vector<DescriptorEntry> history;  // entries that repeat earlier transactions

  PartAddress address() const { return part.place.address; }
  Seq seq() const { return part.place.address.seq; }
};

// Not thread-safe.
class LogReader {
 public:
  LogReader(device::Device& device, const Superblock& superblock)
      : device_(device), superblock_(superblock), blocks_(device) {}

  // Finds the bands that are in use. REQUIRES: called before the other functions. If the header of
  // a band is damaged, reads its first blocks until a block of a part gives the band's slot: at
  // most `search_blocks`, but not fewer than two.
  Result<> find_bands(std::uint32_t search_blocks);
  const std::vector<FoundBand>& bands() const { return bands_; }  // highest slot first
  const FoundBand* band_of(std::uint64_t slot) const;
  // Bands whose slot find_bands() did not find, because the device cannot read blocks of them.
  const std::vector<BandId>& unread_bands() const { return unread_; }
  // Gives a written band of the log the slot that a checkpoint names, if find_bands() found nothing
  // in the band that gives its slot.
  void believe(const ChainBand& band);

  // Whether the session that wrote the block can have committed `seq`. Transactions of earlier
  // sessions count up to session_start_seq. Later ones were given up when the present session
  // began.
  bool is_believable(const BlockStamp& stamp, Seq seq) const;
  // Reads the descriptors of the part at this place. Errors: kLogTailLost when no part can lie
  // there; kLogDescriptorBad; those of the device.
  Result<FoundPart> part(const PartPlace& place);
  // The transactions that the part's history repeats, newest first. Each is one part, and none of
  // them carries a checkpoint. Empty when the history makes no sense.
  std::vector<FoundPart> earlier(const FoundPart& part) const;
  // Reads the images [first, first + count) of the part into `to`.
  Result<> images(const FoundPart& part, std::uint32_t first, std::span<std::byte> to);
  // crc32c over the checksums of the part's descriptors, which may be damaged themselves, continued
  // from `crc`.
  std::uint32_t descriptors_crc(const FoundPart& part, std::uint32_t crc) const;
  // Whether all node images of the part are what its descriptors say. Does not read pieces of a
  // checkpoint, which the transaction can do without. Errors: kLogTorn, and what the device
  // returns.
  Result<> verify_nodes(const FoundPart& part);
  // Whether all data that the transaction of these parts names is what its descriptors say. Reads
  // at most kMaxUnprovenBytes. Errors: kLogTorn, and what the device returns.
  Result<> verify_data(std::span<const FoundPart> transaction);

 private:
  std::optional<std::uint64_t> slot_of(BandId band, std::uint32_t end);
  Result<std::uint64_t> slot_at(BandAddress at, std::uint32_t blocks_ahead);
  Result<> verify_run(const DescriptorEntry& run, std::span<std::byte> buffer);
  Result<std::uint32_t> crc_of_run(BandAddress at, std::uint32_t blocks,
                                   std::span<std::byte> buffer);
  Result<Descriptor> descriptor(const FoundBand& band, const FoundPart& part, std::uint32_t block);
  bool is_outdated(const FoundBand& band, const PartPlace& place, const Descriptor& front);
  Result<Descriptor> first_descriptor(const FoundBand& band, const FoundPart& part);
  Result<Descriptor> front(const FoundBand& band, const PartPlace& place, std::uint32_t block);
  Result<Descriptor> read_copy(const FoundBand& band, const PartPlace& place,
                               std::uint32_t from_end);
  Result<Descriptor> copy(const FoundBand& band, const PartPlace& place, std::uint32_t from_end);
  Result<> verify_node(const FoundPart& part, std::uint32_t index, std::span<std::byte> image);
  bool fits(const Descriptor& d, const FoundBand& band, const PartPlace& place, std::uint32_t rba);

  device::Device& device_;
  const Superblock& superblock_;
  BackwardReader blocks_;
  std::vector<FoundBand> bands_;
  std::vector<FoundBand> unknown_;  // written, but no block gives their slot, which is 0
  std::vector<BandId> unread_;
};

}  // namespace lazyfs::meta
