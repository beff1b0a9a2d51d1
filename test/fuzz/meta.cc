// Fuzz targets for what the metadata log consists of (fuzz/targets.h).
#include "base/crc32c.h"
#include "base/endian.h"
#include "fuzz/input.h"
#include "meta/log/log_format.h"
#include "meta/tree/node_page.h"
#include "meta/log/checkpoint_format.h"
#include "meta/log/superblock_format.h"

namespace lazyfs::fuzz {
namespace {

// All blocks of metadata begin alike: magic, crc32c of the bytes from 8 on.
void seal(std::span<std::byte> block, std::string_view magic) {
  std::ranges::copy(std::as_bytes(std::span(magic)), block.data());
  store_le_at(block, 4, crc32c(block.subspan(8)));
}

void band_header(Bytes input) {
  AlignedBuffer block = block_of(input);
  seal(block.span(), "LZBH");
  const auto header = meta::decode_band_header(block.span().first<kBlockBytes>());
  if (!header) return;
  AlignedBuffer again(kBlockBytes);
  meta::encode(*header, again.span().first<kBlockBytes>());
  const auto decoded = meta::decode_band_header(again.span().first<kBlockBytes>());
  require(decoded && *decoded == *header, "a band header is encoded as it was decoded");
}

void descriptor(meta::DescriptorRole role, std::string_view magic, Bytes input) {
  AlignedBuffer block = block_of(input);
  seal(block.span(), magic);
  const auto descriptor = meta::decode_descriptor(role, block.span().first<kBlockBytes>());
  if (!descriptor) return;
  require(descriptor->entries.size() <= meta::kEntriesPerDescriptor, "the entries are bounded");
  AlignedBuffer again(kBlockBytes);
  meta::encode(*descriptor, role, again.span().first<kBlockBytes>());
  const auto decoded = meta::decode_descriptor(role, again.span().first<kBlockBytes>());
  require(decoded && *decoded == *descriptor, "a descriptor is encoded as it was decoded");
}

// The input is the stream; the pieces around it are right.
void checkpoint(Bytes input) {
  constexpr std::size_t kPiecesMax = 4;
  constexpr Seq kSeq{7};
  constexpr std::uint32_t kTag = 5;
  input = input.first(std::min(input.size(), kPiecesMax * meta::kCheckpointPieceBytes));
  const std::size_t count = std::max<std::size_t>(
      1, (input.size() + meta::kCheckpointPieceBytes - 1) / meta::kCheckpointPieceBytes);
  AlignedBuffer pieces = AlignedBuffer::zeroed(count * kBlockBytes);
  Input from(input);
  for (std::size_t i = 0; i < count; ++i) {
    const auto piece = pieces.span().subspan(i * kBlockBytes).first<kBlockBytes>();
    const Bytes stream = from.take(meta::kCheckpointPieceBytes);
    store_le_at(piece, 16, static_cast<std::uint32_t>(i));
    store_le_at(piece, 20, static_cast<std::uint32_t>(count));
    store_le_at(piece, 24, kTag);
    store_le_at(piece, 28, static_cast<std::uint32_t>(stream.size()));
    std::ranges::copy(stream, piece.data() + 32);
    std::ranges::copy(std::as_bytes(std::span("LZSN", 4)), piece.data());
    meta::stamp_piece(piece, kSeq);
  }
  const auto checkpoint = meta::decode_checkpoint(pieces.span(), kSeq, kTag);
  if (!checkpoint) return;
  AlignedBuffer again = meta::encode(*checkpoint, kTag);
  for (std::size_t at = 0; at < again.size(); at += kBlockBytes) {
    meta::stamp_piece(again.span().subspan(at).first<kBlockBytes>(), kSeq);
  }
  const auto decoded = meta::decode_checkpoint(again.span(), kSeq, kTag);
  require(decoded && *decoded == *checkpoint, "a checkpoint is encoded as it was decoded");
}

// Sets a node's count of bytes in its heap that no cell takes.
void make_holes_right(std::span<std::byte> node) {
  const auto u16 = [&](std::size_t at) -> std::size_t {
    return at + 2 <= node.size() ? load_le_at<std::uint16_t>(node, at) : 0;
  };
  std::size_t holes = kBlockBytes - std::min<std::size_t>(kBlockBytes, u16(28));
  for (std::size_t i = 0; i < u16(26); ++i) {
    const std::size_t cell = u16(meta::kNodeHeaderBytes + meta::kSlotBytes * i);
    holes -= std::min(holes, meta::kCellHeaderBytes + u16(cell + 17));
  }
  store_le_at(node, 30, static_cast<std::uint16_t>(holes));
}

// Everything that a tree does with a node that has been validated.
void change(AlignedBuffer& bytes, std::uint32_t tag) {
  meta::NodePage page(bytes.data());
  const auto check = [&](const char* what) {
    page.stamp(Seq{1});
    require(meta::validate_node(bytes.span().first<kBlockBytes>(), page.node(), Seq{1}, tag)
                .has_value(),
            what);
  };
  for (unsigned i = 0; i < page.count(); ++i) {
    require(page.lower_bound(page.key(i)) == i, "each key is found");
    require(page.value(i).size() <= meta::kMaxValueBytes, "values are bounded");
  }
  const std::byte value[8] = {std::byte{1}};
  const meta::Key wanted{5, 1, 7};
  const unsigned at = page.lower_bound(wanted);
  if (!page.has(at, wanted) && page.free_bytes() >= meta::item_room(8) && page.is_leaf()) {
    page.insert(at, wanted, value);
    check("an item can be put into a node");
    page.erase(at);
  }
  if (page.count() < 2) return;
  AlignedBuffer second = AlignedBuffer::zeroed(kBlockBytes);
  meta::NodePage tail(second.data());
  tail.format(NodeNo{page.node().value + 1}, page.level(), tag);
  page.move_tail(page.count() / 2, tail);
  check("a node can be cut in two");
  if (page.is_leaf() && page.room_of(0) + 8 <= page.free_bytes()) page.replace(0, value);
  while (page.count() > 0) page.erase(page.count() - 1);
}

}  // namespace

void superblock(Bytes input) {
  AlignedBuffer block = block_of(input);
  seal(block.span(), "LZSB");
  const auto superblock = meta::decode_superblock(block.span().first<kBlockBytes>());
  if (!superblock) return;
  require(superblock->label.size() <= meta::kMaxLabelBytes, "the label is bounded");
  require(superblock->log_bands.size() <= meta::kMaxLogBands, "the log's bands are bounded");
  AlignedBuffer again(kBlockBytes);
  meta::encode(*superblock, again.span().first<kBlockBytes>());
  const auto decoded = meta::decode_superblock(again.span().first<kBlockBytes>());
  require(decoded && *decoded == *superblock, "a superblock is encoded as it was decoded");
}

void log(Bytes input) {
  Input from(input);
  switch (from.number(1) % 5) {
    case 0: return band_header(from.rest());
    case 1: return descriptor(meta::DescriptorRole::kFront, "LZDE", from.rest());
    case 2: return descriptor(meta::DescriptorRole::kCopy, "LZDC", from.rest());
    case 3: return descriptor(meta::DescriptorRole::kCommit, "LZCM", from.rest());
    default: return checkpoint(from.rest());
  }
}

// The first two bytes say how much of the rest is the node's front; what is left is its end. When
// their highest bit is set the count of unused bytes is made right.
void node(Bytes input) {
  Input from(input);
  const std::uint32_t layout = from.number(2);
  const std::size_t front_bytes = layout % kBlockBytes;
  AlignedBuffer bytes = block_of(from.take(front_bytes));
  const Bytes end = from.take(kBlockBytes - front_bytes);
  std::ranges::copy(end, bytes.data() + kBlockBytes - end.size());
  if ((layout & 0x8000) != 0) make_holes_right(bytes.span());
  seal(bytes.span(), "LZND");
  const NodeNo number{load_le_at<std::uint64_t>(bytes.span(), 16)};
  const Seq seq{load_le_at<std::uint64_t>(bytes.span(), 8)};
  const auto tag = load_le_at<std::uint32_t>(bytes.span(), 32);
  if (meta::validate_node(bytes.span().first<kBlockBytes>(), number, seq, tag)) change(bytes, tag);
}

}  // namespace lazyfs::fuzz
