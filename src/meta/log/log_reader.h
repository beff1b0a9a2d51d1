// Reads parts of the log, whose places are known, for recovery: each descriptor, or its copy where
// it is damaged. Nothing that was read is trusted.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
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

  // The block, which is one of `blocks` that the caller is going to ask for, the first of them;
  // valid until the next call.
  Result<ConstBlockBytes> block(BandAddress at, std::uint32_t blocks = 1);

 private:
  static constexpr std::uint32_t kNearBlocks = 32;  // that cost less than another read
  Result<> fill(BandAddress first, std::uint32_t blocks);

  device::Device& device_;
  AlignedBuffer window_;
  BandId band_{};
  std::uint32_t begin_ = 0, end_ = 0;  // of what window_ holds
};

struct FoundBand {
  BandId band;
  std::uint64_t slot = 0;
  std::uint32_t write_pointer = 0;  // the log does not reach further; see LogEnd
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

  // Finds out which bands are in use; to be called first. Where the header of a band is damaged, at
  // most `search_blocks` of its first blocks are read, but no fewer than two, until a block of a
  // part gives the band's slot.
  Result<> find_bands(std::uint32_t search_blocks);
  const std::vector<FoundBand>& bands() const { return bands_; }  // highest slot first
  const FoundBand* band_of(std::uint64_t slot) const;
  // A band of the log that is written, and in which find_bands() has met nothing that gives its
  // slot, gets the slot that a checkpoint gives it.
  void believe(const ChainBand& band);

  // Whether the session that wrote the block can have committed `seq`. Whatever the sessions before
  // the present one wrote after the transaction with which it began was given up then.
  bool is_believable(const BlockStamp& stamp, Seq seq) const;
  // Errors: kLogTailLost when there can be no part at this place; kLogDescriptorBad; what the
  // device returns.
  Result<FoundPart> part(const PartPlace& place);
  // The transactions that the part's history repeats, newest first. Each is one part, and none of
  // them carries a checkpoint. Empty when the history makes no sense.
  std::vector<FoundPart> earlier(const FoundPart& part) const;
  // Reads the images [first, first + count) of the part into `to`.
  Result<> images(const FoundPart& part, std::uint32_t first, std::span<std::byte> to);
  // crc32c over the checksums of the part's descriptors, which may be damaged themselves, continued
  // from `crc`.
  std::uint32_t descriptors_crc(const FoundPart& part, std::uint32_t crc) const;
  // Whether all node images of the part are what its descriptors say. Error: kLogTorn.
  Result<> verify_nodes(const FoundPart& part);
  // Whether all data that the transaction of these parts names is what its descriptors say. Reads
  // at most kMaxUnprovenBytes. Errors: kLogTorn, and what the device returns.
  Result<> verify_data(std::span<const FoundPart> transaction);

 private:
  std::optional<std::uint64_t> slot_of(BandId band, std::uint32_t end);
  std::optional<std::uint64_t> slot_at(BandAddress at, std::uint32_t blocks_ahead);
  Result<> verify_run(const DescriptorEntry& run, std::span<std::byte> buffer);
  Result<Descriptor> descriptor(const FoundBand& band, const FoundPart& part, std::uint32_t block);
  bool is_outdated(const FoundBand& band, const PartPlace& place, const Descriptor& front);
  Result<Descriptor> first_descriptor(const FoundBand& band, const FoundPart& part);
  Result<Descriptor> front(const FoundBand& band, const PartPlace& place, std::uint32_t block);
  Result<Descriptor> copy(const FoundBand& band, const PartPlace& place, std::uint32_t from_end);
  bool fits(const Descriptor& d, const FoundBand& band, const PartPlace& place, std::uint32_t rba);

  device::Device& device_;
  const Superblock& superblock_;
  BackwardReader blocks_;
  std::vector<FoundBand> bands_;
  std::vector<FoundBand> unknown_;  // written, but no block gives their slot, which is 0
};

}  // namespace lazyfs::meta
