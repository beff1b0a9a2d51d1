#include "meta/log/checkpoint_format.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>

#include "base/crc32c.h"
#include "base/endian.h"

namespace lazyfs::meta {
namespace {

constexpr std::uint32_t kCheckpointMagic = 0x4E535A4C;  // "LZSN" in memory order
constexpr std::size_t kStreamAt = 32;
constexpr std::size_t kHeadBytes = 24, kBandBytes = 12, kPartBytes = 28, kNodeBytes = 12;
constexpr std::size_t kColdPartBytes = 44;
static_assert(kStreamAt + kCheckpointPieceBytes == kBlockBytes);
static_assert(kColdPartBytes + kNodeBytes == kCheckpointBytesOfNode);

// Writes the stream across the boundaries of pieces.
class StreamWriter {
 public:
  explicit StreamWriter(AlignedBuffer& pieces) : to_(pieces) {}

  template <class T>
  void operator()(const T& value) {
    std::array<std::byte, sizeof(T)> bytes;
    store_le(std::span(bytes), value);
    for (std::span<const std::byte> rest(bytes); !rest.empty();) {
      const std::size_t here = std::min(rest.size(), kCheckpointPieceBytes - used_);
      std::memcpy(to_.data() + piece_ * kBlockBytes + kStreamAt + used_, rest.data(), here);
      rest = rest.subspan(here);
      used_ += here;
      if (used_ == kCheckpointPieceBytes) {
        ++piece_;
        used_ = 0;
      }
    }
  }

 private:
  AlignedBuffer& to_;
  std::size_t piece_ = 0, used_ = 0;
};

class StreamReader {
 public:
  explicit StreamReader(std::span<const std::byte> stream) : rest_(stream) {}

  // REQUIRES: the bytes are left.
  template <class T>
  void operator()(T& value) {
    value = load_le<T>(rest_.first<sizeof(T)>());
    rest_ = rest_.subspan(sizeof(T));
  }
  std::size_t left() const { return rest_.size(); }

 private:
  std::span<const std::byte> rest_;
};

// The fields of each record, in the order of the stream: for both directions.

struct Head {
  std::uint32_t bands = 0, cold_parts = 0;
  std::uint64_t parts = 0, nodes = 0;
};

template <class H>
void visit_head(H& head, auto& field) {
  field(head.bands);
  field(head.cold_parts);
  field(head.parts);
  field(head.nodes);
}

template <class P>
void visit_part(P& part, auto& field) {
  field(part.place.address.slot);
  field(part.place.address.seq.value);
  field(part.place.address.rba);
  field(part.place.blocks);
  field(part.nodes);
}

template <class M>
void visit_records(M& map, auto& field) {
  for (auto& band : map.chain) {
    field(band.slot);
    field(band.band.value);
  }
  for (auto& part : map.parts) visit_part(part, field);
  for (auto& part : map.cold) {
    visit_part(part, field);
    field(part.band.value);
    field(part.indexed_at.slot);
    field(part.indexed_at.rba);
  }
  for (auto& live : map.nodes) {
    field(live.node.value);
    field(live.rba);
  }
}

std::uint64_t stream_bytes(std::uint64_t bands, std::uint64_t parts, std::uint64_t cold_parts,
                           std::uint64_t nodes) {
  return kHeadBytes + bands * kBandBytes + parts * kPartBytes + cold_parts * kColdPartBytes +
         nodes * kNodeBytes;
}

Result<std::vector<std::byte>> join_pieces(std::span<const std::byte> pieces, Seq seq,
                                           std::uint32_t fs_tag) {
  const std::size_t count = pieces.size() / kBlockBytes;
  std::vector<std::byte> stream;
  stream.reserve(count * kCheckpointPieceBytes);
  for (std::size_t i = 0; i < count; ++i) {
    const auto piece = pieces.subspan(i * kBlockBytes, kBlockBytes);
    const auto u32 = [&](std::size_t at) { return load_le_at<std::uint32_t>(piece, at); };
    const std::uint32_t bytes = u32(28);
    const bool right = u32(0) == kCheckpointMagic && u32(4) == crc32c(piece.subspan(8)) &&
                       load_le_at<std::uint64_t>(piece, 8) == seq.value && u32(16) == i &&
                       u32(20) == count && u32(24) == fs_tag && bytes <= kCheckpointPieceBytes &&
                       (i + 1 == count || bytes == kCheckpointPieceBytes) &&
                       std::ranges::all_of(piece.subspan(kStreamAt + bytes),
                                           [](std::byte b) { return b == std::byte{0}; });
    if (!right) return fail(Errc::kLogCheckpointBad);
    const auto part = piece.subspan(kStreamAt, bytes);
    stream.insert(stream.end(), part.begin(), part.end());
  }
  return stream;
}

// Whether the `nodes` nodes from `at` on lie in ascending order within the part, past its first
// `own` blocks.
bool lie_within(const MapCheckpoint& s, std::size_t at, std::uint32_t nodes, const PartPlace& place,
                std::uint32_t own) {
  const PartAddress& address = place.address;
  if (address.rba == 0 || address.seq.value == 0 || nodes > s.nodes.size() - at) return false;
  for (std::size_t i = at; i < at + nodes; ++i) {
    const MapCheckpoint::Live& live = s.nodes[i];
    const bool ascends = i == at || s.nodes[i - 1].rba < live.rba;
    const bool within = live.rba >= address.rba && live.rba - address.rba >= own &&
                        live.rba - address.rba < place.blocks;
    if (live.node.value == 0 || !ascends || !within) return false;
  }
  return true;
}

// Whether chain and parts are in order, parts lie in bands of the chain, and nodes in their parts.
bool is_consistent(const MapCheckpoint& s) {
  const auto place = [](const auto& part) { return place_of(part.place.address); };
  const auto chain_end =
      std::ranges::adjacent_find(s.chain, std::greater_equal{}, &ChainBand::slot);
  const auto parts_end = std::ranges::adjacent_find(s.parts, std::greater_equal{}, place);
  const auto cold_end = std::ranges::adjacent_find(s.cold, std::greater_equal{}, place);
  if (chain_end != s.chain.end() || parts_end != s.parts.end() || cold_end != s.cold.end()) {
    return false;
  }
  std::size_t at = 0;
  for (const MapCheckpoint::Part& part : s.parts) {
    const std::uint64_t slot = part.place.address.slot;
    const bool known = std::ranges::binary_search(s.chain, slot, {}, &ChainBand::slot);
    if (!known || !lie_within(s, at, part.nodes, part.place, 1)) return false;
    at += part.nodes;
  }
  for (const MapCheckpoint::ColdPart& part : s.cold) {
    if (part.nodes == 0 || !lie_within(s, at, part.nodes, part.place, 0)) return false;
    at += part.nodes;
  }
  return at == s.nodes.size();
}

}  // namespace

std::uint64_t checkpoint_pieces(std::uint64_t bands, std::uint64_t parts, std::uint64_t cold_parts,
                              std::uint64_t nodes) {
  const std::uint64_t bytes = stream_bytes(bands, parts, cold_parts, nodes);
  return (bytes + kCheckpointPieceBytes - 1) / kCheckpointPieceBytes;
}

AlignedBuffer encode(const MapCheckpoint& s, std::uint32_t fs_tag) {
  const std::size_t total =
      stream_bytes(s.chain.size(), s.parts.size(), s.cold.size(), s.nodes.size());
  const std::size_t count =
      checkpoint_pieces(s.chain.size(), s.parts.size(), s.cold.size(), s.nodes.size());
  AlignedBuffer pieces = AlignedBuffer::zeroed(count * kBlockBytes);
  for (std::size_t i = 0; i < count; ++i) {
    const auto piece = pieces.span().subspan(i * kBlockBytes, kBlockBytes);
    store_le_at(piece, 0, kCheckpointMagic);
    store_le_at(piece, 16, static_cast<std::uint32_t>(i));
    store_le_at(piece, 20, static_cast<std::uint32_t>(count));
    store_le_at(piece, 24, fs_tag);
    const std::size_t left = total - i * kCheckpointPieceBytes;
    store_le_at(piece, 28, static_cast<std::uint32_t>(std::min(left, kCheckpointPieceBytes)));
  }
  StreamWriter to(pieces);
  const Head head{.bands = static_cast<std::uint32_t>(s.chain.size()),
                  .cold_parts = static_cast<std::uint32_t>(s.cold.size()),
                  .parts = s.parts.size(),
                  .nodes = s.nodes.size()};
  visit_head(head, to);
  visit_records(s, to);
  return pieces;
}

std::uint32_t stamp_piece(BlockBytes piece, Seq seq) {
  store_le_at(piece, 8, seq.value);
  const std::uint32_t crc = crc32c(piece.subspan(8));
  store_le_at(piece, 4, crc);
  return crc;
}

Result<MapCheckpoint> decode_checkpoint(std::span<const std::byte> pieces, Seq seq,
                                    std::uint32_t fs_tag) {
  ASSIGN_OR_RETURN(const std::vector<std::byte> stream, join_pieces(pieces, seq, fs_tag));
  StreamReader from(stream);
  if (from.left() < kHeadBytes) return fail(Errc::kLogCheckpointBad);
  Head head;
  visit_head(head, from);
  const bool possible =
      head.bands > 0 && head.parts <= stream.size() && head.nodes <= stream.size() &&
      stream_bytes(head.bands, head.parts, head.cold_parts, head.nodes) == stream.size();
  if (!possible) return fail(Errc::kLogCheckpointBad);
  MapCheckpoint s;
  s.chain.resize(head.bands);
  s.parts.resize(head.parts);
  s.cold.resize(head.cold_parts);
  s.nodes.resize(head.nodes);
  visit_records(s, from);
  if (!is_consistent(s)) return fail(Errc::kLogCheckpointBad);
  return s;
}

}  // namespace lazyfs::meta
