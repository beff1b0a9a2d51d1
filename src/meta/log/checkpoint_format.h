// The bytes of a map checkpoint: what jmap held just before the transaction that carries it. It is
// one stream of bytes, cut into pieces of a block each. docs/format.md section 3. A piece:
//
//   offset size field
//        0    4 magic         "LZSN"
//        4    4 crc32c        covers bytes [8, 4096)
//        8    8 seq           of the transaction that carries it
//       16    4 piece         its index, from 0
//       20    4 pieces        of the checkpoint
//       24    4 fs_tag        crc32c of the filesystem's uuid
//       28    4 bytes         of the stream in this piece: 4064, fewer in the last one
//       32      stream        then zeros
//
// The stream:
//        0    4 bands         of the chain
//        4    4 cold parts    that hold live nodes
//        8    8 parts         that hold live nodes, or a current index of cold ones
//       16    8 nodes         live ones
//       24   12 bands[]       slot 8, band 4; oldest first
//              28 parts[]     slot 8, seq 8, rba 4, blocks 4, nodes 4; in the order of the log
//              44 cold parts[] slot 8, seq 8, rba 4, blocks 4, nodes 4, band 4, then where its
//                             index is: slot 8, rba 4; in the order of their places
//              12 nodes[]     number 8, rba 4; in the order of the log, then those of cold parts
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"
#include "meta/log/log_format.h"

namespace lazyfs::meta {

inline constexpr std::size_t kCheckpointPieceBytes = kBlockBytes - 32;
// Most bytes of the stream that one node takes: an entry, and a part of its own.
inline constexpr std::size_t kCheckpointBytesOfNode = 12 + 44;

// A band of the log's chain and its place in it.
struct ChainBand {
  std::uint64_t slot = 0;
  BandId band;
  friend bool operator==(const ChainBand&, const ChainBand&) = default;
};

struct MapCheckpoint {
  struct Part {
    PartPlace place;
    std::uint32_t nodes = 0;  // this many of `nodes` lie in it
    friend bool operator==(const Part&, const Part&) = default;
  };
  struct ColdPart {
    PartPlace place;
    std::uint32_t nodes = 0;  // this many of `nodes`, after those of `parts`
    BandId band;
    LogPlace indexed_at;
    friend bool operator==(const ColdPart&, const ColdPart&) = default;
  };
  struct Live {
    NodeNo node;
    std::uint32_t rba = 0;
    friend bool operator==(const Live&, const Live&) = default;
  };
  std::vector<ChainBand> chain;
  std::vector<Part> parts;
  std::vector<ColdPart> cold;
  std::vector<Live> nodes;
  friend bool operator==(const MapCheckpoint&, const MapCheckpoint&) = default;
};

// Number of pieces of a checkpoint.
std::uint64_t checkpoint_pieces(std::uint64_t bands, std::uint64_t parts, std::uint64_t cold_parts,
                              std::uint64_t nodes);
// Returns the pieces in order, without seq and checksum, which stamp_piece() adds.
AlignedBuffer encode(const MapCheckpoint& checkpoint, std::uint32_t fs_tag);
// Writes seq and checksum into a piece, just before it goes to the device. Returns the checksum.
std::uint32_t stamp_piece(BlockBytes piece, Seq seq);

// `pieces`: whole blocks. The returned checkpoint is consistent: chain and parts are in the order
// of the log, every part lies in a band of the chain, and every node within its part. The caller
// checks the bands of cold parts. Error: kLogCheckpointBad.
Result<MapCheckpoint> decode_checkpoint(std::span<const std::byte> pieces, Seq seq,
                                    std::uint32_t fs_tag);

}  // namespace lazyfs::meta
