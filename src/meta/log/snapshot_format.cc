#include "meta/log/snapshot_format.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/endian.h"

namespace lazyfs::meta {
namespace {

constexpr std::uint32_t kMagic = 0x4E535A4C;  // "LZSN" in memory order
constexpr std::size_t kStreamAt = 32;
constexpr std::size_t kHeadBytes = 24, kBandBytes = 12, kPartBytes = 28, kNodeBytes = 12;
constexpr std::size_t kColdPartBytes = 44;
static_assert(kStreamAt + kSnapshotPieceBytes == kBlockBytes);
static_assert(kColdPartBytes + kNodeBytes == kSnapshotBytesOfNode);

// Bytes of the stream one after the other, wherever pieces end.
class StreamWriter {
 public:
  explicit StreamWriter(AlignedBuffer& pieces) : to_(pieces) {}

  template <class T>
  void put(T value) {
    std::array<std::byte, sizeof(T)> bytes;
    store_le(std::span(bytes), value);
    for (std::span<const std::byte> rest(bytes); !rest.empty();) {
      const std::size_t here = std::min(rest.size(), kSnapshotPieceBytes - used_);
      std::memcpy(to_.data() + piece_ * kBlockBytes + kStreamAt + used_, rest.data(), here);
      rest = rest.subspan(here);
      used_ += here;
      if (used_ == kSnapshotPieceBytes) {
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

  // Requires that the bytes are there.
  template <class T>
  T take() {
    const T value = load_le<T>(rest_.first<sizeof(T)>());
    rest_ = rest_.subspan(sizeof(T));
    return value;
  }
  std::size_t left() const { return rest_.size(); }

 private:
  std::span<const std::byte> rest_;
};

std::uint64_t stream_bytes(std::uint64_t bands, std::uint64_t parts, std::uint64_t cold_parts,
                           std::uint64_t nodes) {
  return kHeadBytes + bands * kBandBytes + parts * kPartBytes + cold_parts * kColdPartBytes +
         nodes * kNodeBytes;
}

Result<std::vector<std::byte>> join_pieces(std::span<const std::byte> pieces, Seq seq,
                                           std::uint32_t fs_tag) {
  const std::size_t count = pieces.size() / kBlockBytes;
  std::vector<std::byte> stream;
  stream.reserve(count * kSnapshotPieceBytes);
  for (std::size_t i = 0; i < count; ++i) {
    const auto piece = pieces.subspan(i * kBlockBytes, kBlockBytes);
    const auto u32 = [&](std::size_t at) { return load_le_at<std::uint32_t>(piece, at); };
    const std::uint32_t bytes = u32(28);
    const bool right = u32(0) == kMagic && u32(4) == crc32c(piece.subspan(8)) &&
                       load_le_at<std::uint64_t>(piece, 8) == seq.value && u32(16) == i &&
                       u32(20) == count && u32(24) == fs_tag && bytes <= kSnapshotPieceBytes &&
                       (i + 1 == count || bytes == kSnapshotPieceBytes) &&
                       std::ranges::all_of(piece.subspan(kStreamAt + bytes),
                                           [](std::byte b) { return b == std::byte{0}; });
    if (!right) return fail(Errc::kLogSnapshotBad);
    const auto part = piece.subspan(kStreamAt, bytes);
    stream.insert(stream.end(), part.begin(), part.end());
  }
  return stream;
}

// Whether the `nodes` nodes from `at` on lie one behind the other within the part, whose own blocks
// are `own`, or more.
bool lie_within(const MapSnapshot& s, std::size_t at, std::uint32_t nodes, const PartPlace& place,
                std::uint32_t own) {
  const PartAddress& address = place.address;
  if (address.rba == 0 || address.seq.value == 0 || nodes > s.nodes.size() - at) return false;
  for (std::size_t i = at; i < at + nodes; ++i) {
    const MapSnapshot::Live& live = s.nodes[i];
    const bool behind = i == at || s.nodes[i - 1].rba < live.rba;
    const bool within = live.rba >= address.rba && live.rba - address.rba >= own &&
                        live.rba - address.rba < place.blocks;
    if (live.node.value == 0 || !behind || !within) return false;
  }
  return true;
}

// Whether chain and parts are in order, parts lie in bands of the chain, and nodes in their parts.
bool is_consistent(const MapSnapshot& s) {
  const auto place = [](const auto& part) { return place_of(part.place.address); };
  const auto chain_end =
      std::ranges::adjacent_find(s.chain, std::greater_equal{}, &ChainBand::slot);
  const auto parts_end = std::ranges::adjacent_find(s.parts, std::greater_equal{}, place);
  const auto cold_end = std::ranges::adjacent_find(s.cold, std::greater_equal{}, place);
  if (chain_end != s.chain.end() || parts_end != s.parts.end() || cold_end != s.cold.end()) {
    return false;
  }
  std::size_t at = 0;
  for (const MapSnapshot::Part& part : s.parts) {
    const std::uint64_t slot = part.place.address.slot;
    const bool known = std::ranges::binary_search(s.chain, slot, {}, &ChainBand::slot);
    if (!known || !lie_within(s, at, part.nodes, part.place, 1)) return false;
    at += part.nodes;
  }
  for (const MapSnapshot::ColdPart& part : s.cold) {
    if (part.nodes == 0 || !lie_within(s, at, part.nodes, part.place, 0)) return false;
    at += part.nodes;
  }
  return at == s.nodes.size();
}

}  // namespace

std::uint64_t snapshot_pieces(std::uint64_t bands, std::uint64_t parts, std::uint64_t cold_parts,
                              std::uint64_t nodes) {
  const std::uint64_t bytes = stream_bytes(bands, parts, cold_parts, nodes);
  return (bytes + kSnapshotPieceBytes - 1) / kSnapshotPieceBytes;
}

AlignedBuffer encode(const MapSnapshot& s, std::uint32_t fs_tag) {
  const std::size_t total =
      stream_bytes(s.chain.size(), s.parts.size(), s.cold.size(), s.nodes.size());
  const std::size_t count =
      snapshot_pieces(s.chain.size(), s.parts.size(), s.cold.size(), s.nodes.size());
  AlignedBuffer pieces = AlignedBuffer::zeroed(count * kBlockBytes);
  for (std::size_t i = 0; i < count; ++i) {
    const auto piece = pieces.span().subspan(i * kBlockBytes, kBlockBytes);
    store_le_at(piece, 0, kMagic);
    store_le_at(piece, 16, static_cast<std::uint32_t>(i));
    store_le_at(piece, 20, static_cast<std::uint32_t>(count));
    store_le_at(piece, 24, fs_tag);
    const std::size_t left = total - i * kSnapshotPieceBytes;
    store_le_at(piece, 28, static_cast<std::uint32_t>(std::min(left, kSnapshotPieceBytes)));
  }
  StreamWriter to(pieces);
  to.put(static_cast<std::uint32_t>(s.chain.size()));
  to.put(static_cast<std::uint32_t>(s.cold.size()));
  to.put(static_cast<std::uint64_t>(s.parts.size()));
  to.put(static_cast<std::uint64_t>(s.nodes.size()));
  for (const ChainBand& band : s.chain) {
    to.put(band.slot);
    to.put(band.band.value);
  }
  for (const MapSnapshot::Part& part : s.parts) {
    to.put(part.place.address.slot);
    to.put(part.place.address.seq.value);
    to.put(part.place.address.rba);
    to.put(part.place.blocks);
    to.put(part.nodes);
  }
  for (const MapSnapshot::ColdPart& part : s.cold) {
    to.put(part.place.address.slot);
    to.put(part.place.address.seq.value);
    to.put(part.place.address.rba);
    to.put(part.place.blocks);
    to.put(part.nodes);
    to.put(part.band.value);
    to.put(part.listed_at.slot);
    to.put(part.listed_at.rba);
  }
  for (const MapSnapshot::Live& live : s.nodes) {
    to.put(live.node.value);
    to.put(live.rba);
  }
  return pieces;
}

std::uint32_t stamp_piece(BlockBytes piece, Seq seq) {
  store_le_at(piece, 8, seq.value);
  const std::uint32_t crc = crc32c(piece.subspan(8));
  store_le_at(piece, 4, crc);
  return crc;
}

Result<MapSnapshot> decode_snapshot(std::span<const std::byte> pieces, Seq seq,
                                    std::uint32_t fs_tag) {
  ASSIGN_OR_RETURN(const std::vector<std::byte> stream, join_pieces(pieces, seq, fs_tag));
  StreamReader from(stream);
  if (from.left() < kHeadBytes) return fail(Errc::kLogSnapshotBad);
  const auto bands = from.take<std::uint32_t>();
  const auto cold_parts = from.take<std::uint32_t>();
  const auto parts = from.take<std::uint64_t>(), nodes = from.take<std::uint64_t>();
  const bool possible = bands > 0 && parts <= stream.size() && nodes <= stream.size() &&
                        stream_bytes(bands, parts, cold_parts, nodes) == stream.size();
  if (!possible) return fail(Errc::kLogSnapshotBad);
  MapSnapshot s;
  s.chain.resize(bands);
  for (ChainBand& band : s.chain) {
    band.slot = from.take<std::uint64_t>();
    band.band.value = from.take<std::uint32_t>();
  }
  s.parts.resize(parts);
  for (MapSnapshot::Part& part : s.parts) {
    part.place.address.slot = from.take<std::uint64_t>();
    part.place.address.seq.value = from.take<std::uint64_t>();
    part.place.address.rba = from.take<std::uint32_t>();
    part.place.blocks = from.take<std::uint32_t>();
    part.nodes = from.take<std::uint32_t>();
  }
  s.cold.resize(cold_parts);
  for (MapSnapshot::ColdPart& part : s.cold) {
    part.place.address.slot = from.take<std::uint64_t>();
    part.place.address.seq.value = from.take<std::uint64_t>();
    part.place.address.rba = from.take<std::uint32_t>();
    part.place.blocks = from.take<std::uint32_t>();
    part.nodes = from.take<std::uint32_t>();
    part.band.value = from.take<std::uint32_t>();
    part.listed_at.slot = from.take<std::uint64_t>();
    part.listed_at.rba = from.take<std::uint32_t>();
  }
  s.nodes.resize(nodes);
  for (MapSnapshot::Live& live : s.nodes) {
    live.node.value = from.take<std::uint64_t>();
    live.rba = from.take<std::uint32_t>();
  }
  if (!is_consistent(s)) return fail(Errc::kLogSnapshotBad);
  return s;
}

}  // namespace lazyfs::meta
