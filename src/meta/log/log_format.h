// The bytes of the metadata log's own blocks: band header, descriptor, copy of a descriptor, commit
// record, one block each. docs/format.md section 3. All begin alike:
//
//   offset size field
//        0    4 magic             "LZBH", "LZDE", "LZDC", "LZCM"
//        4    4 crc32c            covers bytes [8, 4096)
//        8   16 uuid              of the filesystem
//       24    8 session           that wrote this block
//       32    8 slot              position in the log of the band's present life
//       40    4 rba               where in the band this block lies
//       44    4 version           5; read as well are 4, which named no data, 3, which repeated
//                                 nothing either, and 2, which knew no cold bands either
//
// Band header, the first block of each log band:
//       48    4 band              its number
//       52    4 blocks            its size
//       56    4 kind              0: parts of transactions follow; 1: cold images of nodes follow,
//                                 and nothing else
//
// Descriptor. Those of a part come before its images, and again after the images as copies, so that
// no single damaged block costs a part. The last copy of a transaction is its commit record.
//       48    8 seq               of the transaction
//       56    8 next_node         the lowest node number never used
//       64    8 previous_slot     where the part before this one begins; 0 at the very first part
//       72    8 previous_seq
//       80    4 previous_rba
//       84    4 tail_rba          the oldest part with a live node, after this transaction
//       88    8 tail_slot
//       96    8 tail_seq
//      104    4 part              index of this part in its transaction, from 0
//      108    4 descriptors       of this part
//      112    4 block             index of this one among them, from 0
//      116    4 images            blocks between descriptors and copies
//      120    4 entries           in this block, at most 247
//      124    4 previous_blocks   size of the part before this one
//      128    4 descriptors_crc   commit record: crc32c over the crc32c fields of the transaction's
//                                 descriptors, in order; 0 in descriptors and other copies
//      132   12 reserved
//      144   16 entries[]         number 8, crc32c of the image or what `kind` says 4, kind 1,
//                                 blocks 3 (0 but for kind 8):
//                                 1 image of node `number`
//                                 2 node `number` was freed
//                                 3 piece `number` of a map checkpoint
//                                 4 cold band: its slot is `number`, its band the 4 bytes
//                                 5 cold part in the band named last: `number` is its transaction,
//                                   the 4 bytes its first block
//                                 6 node `number` lies in the cold part named last, at the block
//                                   that the 4 bytes say
//                                 7 the entries after it, up to the next one of this kind, are
//                                   those of an earlier transaction: the one before, then the one
//                                   before that, ... Its only part begins at the block, in this
//                                   band, that the 4 bytes say; the part before that one, in this
//                                   band too, begins at the lower half of `number`, and has as many
//                                   blocks as the upper half says
//                                 8 data: so many `blocks` from band << 32 | RBA on, which is
//                                   `number`. The 4 bytes are crc32c over the crc32c of each block
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "meta/log/superblock.h"

namespace lazyfs::meta {

using BlockBytes = std::span<std::byte, kBlockBytes>;
using ConstBlockBytes = std::span<const std::byte, kBlockBytes>;

inline constexpr std::size_t kEntriesPerDescriptor = 247;
inline constexpr std::uint32_t kLogVersion = 5, kOldestLogVersion = 2;

// The most data that a transaction may name (kind 8). It bounds what recovery reads to prove the
// newest transaction. A transaction with more data, or more runs of data, is written after a flush.
inline constexpr std::uint32_t kMaxUnprovenBytes = 16 << 20;
inline constexpr std::uint32_t kMaxUnprovenBlocks = kMaxUnprovenBytes / kBlockBytes;
inline constexpr std::size_t kMaxUnprovenRuns = 128;

// Proves that a block is the one sought, and not a leftover from before the band's reset.
struct BlockStamp {
  Uuid uuid{};
  std::uint64_t session = 0;
  std::uint64_t slot = 0;
  std::uint32_t rba = 0;
  std::uint32_t version = kLogVersion;
  friend bool operator==(const BlockStamp&, const BlockStamp&) = default;
};

struct BandHeader {
  BlockStamp stamp;
  BandId band;
  std::uint32_t blocks = 0;
  bool is_cold = false;
  friend bool operator==(const BandHeader&, const BandHeader&) = default;
};

// Where a part begins, and which transaction it belongs to. seq 0: none.
struct PartAddress {
  std::uint64_t slot = 0;
  std::uint32_t rba = 0;
  Seq seq;
  friend bool operator==(const PartAddress&, const PartAddress&) = default;
};

// A block's place in the log.
struct LogPlace {
  std::uint64_t slot = 0;
  std::uint32_t rba = 0;
  friend auto operator<=>(const LogPlace&, const LogPlace&) = default;
};
constexpr LogPlace place_of(const PartAddress& address) { return {address.slot, address.rba}; }

// The same as PartAddress, and how many blocks it has: enough to find its copies when its beginning
// is damaged.
struct PartPlace {
  PartAddress address;
  std::uint32_t blocks = 0;
  friend bool operator==(const PartPlace&, const PartPlace&) = default;
};

enum class EntryKind : std::uint8_t {
  kImage = 1,
  kFreed = 2,
  kCheckpoint = 3,
  kColdBand = 4,
  kColdPart = 5,
  kColdNode = 6,
  kEarlier = 7,
  kData = 8,
};
// Whether the entry has a block of its own among the part's images.
constexpr bool has_block(EntryKind kind) {
  return kind == EntryKind::kImage || kind == EntryKind::kCheckpoint;
}

struct DescriptorEntry {
  std::uint64_t number = 0;  // of the node, or of the checkpoint's piece, or what `kind` says
  std::uint32_t crc = 0;     // of the image; 0 when freed; or what `kind` says
  EntryKind kind = EntryKind::kImage;
  std::uint32_t blocks = 0;  // of kData, below 2^24

  NodeNo node() const { return NodeNo{number}; }
  friend bool operator==(const DescriptorEntry&, const DescriptorEntry&) = default;
};

// The checksum of a run of data, continued from `run` with the CRC-32C of its next block. A run of
// no block has 0.
std::uint32_t add_block_crc(std::uint32_t run, std::uint32_t block);

// The entries that descriptor `block` of a part with all these entries holds.
inline std::span<const DescriptorEntry> entries_of(std::span<const DescriptorEntry> all,
                                                   std::uint32_t block) {
  const std::size_t from = std::min(std::size_t{block} * kEntriesPerDescriptor, all.size());
  return all.subspan(from, std::min(kEntriesPerDescriptor, all.size() - from));
}

struct Descriptor {
  BlockStamp stamp;
  Seq seq;
  NodeNo next_node;
  PartPlace previous;
  PartAddress tail;
  std::uint32_t part = 0;
  std::uint32_t descriptors = 0;
  std::uint32_t block = 0;
  std::uint32_t images = 0;
  std::uint32_t descriptors_crc = 0;
  std::vector<DescriptorEntry> entries;  // at most kEntriesPerDescriptor

  std::uint64_t part_blocks() const { return 2 * std::uint64_t{descriptors} + images; }
  friend bool operator==(const Descriptor&, const Descriptor&) = default;
};

// The role of a block with a descriptor's content. A commit record is the copy of the last
// descriptor of a transaction's last part, and the last block of both.
enum class DescriptorRole : std::uint8_t { kFront, kCopy, kCommit };

void encode(const BandHeader& header, BlockBytes to);
void encode(const Descriptor& descriptor, DescriptorRole role, BlockBytes to);

// These check everything that the block alone can show. Errors: kLogBandHeaderBad;
// kLogDescriptorBad, for a commit record kLogTorn.
Result<BandHeader> decode_band_header(ConstBlockBytes from);
Result<Descriptor> decode_descriptor(DescriptorRole role, ConstBlockBytes from);

// The transaction that wrote this block, if it is a node image or a piece of a checkpoint of the
// filesystem with this tag; else nullopt. The log knows only how both begin (magic 4, crc32c of
// bytes [8, 4096) 4, seq 8) and where the tag is.
std::optional<Seq> seq_of_image(ConstBlockBytes block, std::uint32_t fs_tag);

// The checksum that an encoded block carries.
std::uint32_t stored_crc(ConstBlockBytes block);

}  // namespace lazyfs::meta
