// The bytes of the metadata log's own blocks: band header, descriptor block, commit record, one
// block each. docs/format.md section 3. All three begin alike:
//
//   offset size field
//        0    4 magic             "LZBH", "LZDE", "LZCM"
//        4    4 crc32c            covers bytes [8, 4096)
//        8   16 uuid              of the filesystem
//       24    8 session           that wrote this block
//       32    8 slot              position in the log of the band's present life
//       40    4 rba               where in the band this block lies
//       44    4 version           1
//
// Band header, the first block of each log band:
//       48    4 band              its number
//       52    4 blocks            its size
//
// Descriptor block; those of a part stand before its node images:
//       48    8 seq               of the transaction
//       56    8 next_node         the lowest node number never used
//       64    8 previous_slot     where the part before this one begins; 0 at the very first part
//       72    8 previous_seq
//       80    4 previous_rba
//       84    4 tail_rba          the oldest part with a live node, after this transaction
//       88    8 tail_slot
//       96    8 tail_seq
//      104    4 part              index of this part in its transaction, from 0
//      108    4 descriptor_blocks of this part
//      112    4 block             index of this block among them, from 0
//      116    4 images            node images in this part
//      120    4 entries           in this block, at most 248
//      124    4 reserved
//      128   16 entries[]         node 8, crc32c of the image 4, kind 4 (1 image, 2 freed)
//
// Commit record, the last block of a transaction:
//       48    8 seq
//       56    4 part_rba          first block of the transaction's last part, in this band
//       60    4 parts             of the transaction
//       64    4 descriptors_crc   crc32c over the crc32c fields of its descriptor blocks, in order
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "meta/superblock.h"

namespace lazyfs::meta {

using BlockBytes = std::span<std::byte, kBlockBytes>;
using ConstBlockBytes = std::span<const std::byte, kBlockBytes>;

inline constexpr std::size_t kEntriesPerDescriptor = 248;

// What proves that a block is the one sought and not a leftover of another life.
struct BlockStamp {
  Uuid uuid{};
  std::uint64_t session = 0;
  std::uint64_t slot = 0;
  std::uint32_t rba = 0;
  friend bool operator==(const BlockStamp&, const BlockStamp&) = default;
};

struct BandHeader {
  BlockStamp stamp;
  BandId band;
  std::uint32_t blocks = 0;
  friend bool operator==(const BandHeader&, const BandHeader&) = default;
};

// Where a part begins, and which transaction it belongs to. seq 0: none.
struct PartAddress {
  std::uint64_t slot = 0;
  std::uint32_t rba = 0;
  Seq seq;
  friend bool operator==(const PartAddress&, const PartAddress&) = default;
};

struct DescriptorEntry {
  NodeNo node;
  std::uint32_t crc = 0;  // of the image; 0 when freed
  bool freed = false;
  friend bool operator==(const DescriptorEntry&, const DescriptorEntry&) = default;
};

struct Descriptor {
  BlockStamp stamp;
  Seq seq;
  NodeNo next_node;
  PartAddress previous, tail;
  std::uint32_t part = 0;
  std::uint32_t descriptor_blocks = 0;
  std::uint32_t block = 0;
  std::uint32_t images = 0;
  std::vector<DescriptorEntry> entries;  // at most kEntriesPerDescriptor
  friend bool operator==(const Descriptor&, const Descriptor&) = default;
};

struct CommitRecord {
  BlockStamp stamp;
  Seq seq;
  std::uint32_t part_rba = 0;
  std::uint32_t parts = 0;
  std::uint32_t descriptors_crc = 0;
  friend bool operator==(const CommitRecord&, const CommitRecord&) = default;
};

void encode(const BandHeader& header, BlockBytes to);
void encode(const Descriptor& descriptor, BlockBytes to);
void encode(const CommitRecord& record, BlockBytes to);

// These check everything that the block alone can show. Errors: kLogBandHeaderBad;
// kLogDescriptorBad; kLogTorn.
Result<BandHeader> decode_band_header(ConstBlockBytes from);
Result<Descriptor> decode_descriptor(ConstBlockBytes from);
Result<CommitRecord> decode_commit(ConstBlockBytes from);

// The checksum that an encoded block carries.
std::uint32_t stored_crc(ConstBlockBytes block);

}  // namespace lazyfs::meta
