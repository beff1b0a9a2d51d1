#include "meta/tree/node_page.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/crc32c.h"

namespace lazyfs::meta {
namespace {

constexpr std::uint32_t kNodeMagic = 0x444E5A4C;  // "LZND" in memory order
constexpr std::size_t kNodeCrcAt = 4, kNodeCoveredAt = 8, kNodeSeqAt = 8;
constexpr std::size_t kMaxItems = kNodeRoomBytes / item_room(0);

using Image = std::span<const std::byte, kBlockBytes>;

bool is_header_sound(Image image, NodeNo node, Seq seq, std::uint32_t fs_tag) {
  const std::size_t count = load_le_at<std::uint16_t>(image, 26);
  const std::size_t heap_at = load_le_at<std::uint16_t>(image, 28);
  return load_le_at<std::uint32_t>(image, 0) == kNodeMagic &&
         load_le_at<std::uint64_t>(image, kNodeSeqAt) == seq.value &&
         load_le_at<std::uint64_t>(image, 16) == node.value &&
         load_le_at<std::uint8_t>(image, 24) <= kMaxLevel &&
         load_le_at<std::uint32_t>(image, 32) == fs_tag && count <= kMaxItems &&
         heap_at <= kBlockBytes && heap_at >= kNodeHeaderBytes + kSlotBytes * count &&
         load_le_at<std::uint16_t>(image, 30) <= kBlockBytes - heap_at;
}

struct CellRange {
  std::uint16_t begin, end;
};

// N2 and N3. Fills `cells` with the range of each item's cell.
bool are_cells_sound(Image image, std::span<CellRange> cells) {
  const std::size_t heap_at = load_le_at<std::uint16_t>(image, 28);
  const bool leaf = load_le_at<std::uint8_t>(image, 24) == 0;
  std::size_t heap_bytes = load_le_at<std::uint16_t>(image, 30);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::size_t at = load_le_at<std::uint16_t>(image, kNodeHeaderBytes + kSlotBytes * i);
    if (at < heap_at || at + kCellHeaderBytes > kBlockBytes) return false;
    const std::size_t value_bytes = load_le_at<std::uint16_t>(image, at + 17);
    const std::size_t end = at + kCellHeaderBytes + value_bytes;
    if (end > kBlockBytes || value_bytes > kMaxValueBytes) return false;
    if (!leaf && value_bytes != 8) return false;
    cells[i] = {static_cast<std::uint16_t>(at), static_cast<std::uint16_t>(end)};
    heap_bytes += end - at;
  }
  std::ranges::sort(cells, {}, &CellRange::begin);
  for (std::size_t i = 1; i < cells.size(); ++i) {
    if (cells[i].begin < cells[i - 1].end) return false;
  }
  return heap_bytes == kBlockBytes - heap_at;
}

}  // namespace

Result<> validate_node(Image image, NodeNo node, Seq seq, std::uint32_t fs_tag) {
  if (load_le_at<std::uint32_t>(image, kNodeCrcAt) != crc32c(image.subspan(kNodeCoveredAt))) {
    return fail(Errc::kNodeChecksumBad);
  }
  if (!is_header_sound(image, node, seq, fs_tag)) return fail(Errc::kNodeBad);
  const ConstNodePage page(image.data());
  std::array<CellRange, kMaxItems> cells;
  if (!are_cells_sound(image, std::span(cells).first(page.count()))) return fail(Errc::kNodeBad);
  if (!page.is_leaf() && page.count() == 0) return fail(Errc::kNodeBad);
  for (unsigned i = 1; i < page.count(); ++i) {
    if (page.key(i - 1) >= page.key(i)) return fail(Errc::kNodeBad);  // N1
  }
  return ok();
}

unsigned ConstNodePage::lower_bound(Key wanted) const {
  unsigned begin = 0, length = count();
  while (length > 0) {
    const unsigned half = length / 2;
    const bool less = key(begin + half) < wanted;
    begin = less ? begin + half + 1 : begin;
    length = less ? length - half - 1 : half;
  }
  return begin;
}

void NodePage::format(NodeNo node, std::uint8_t level, std::uint32_t fs_tag) {
  std::memset(to_, 0, kBlockBytes);
  put(16, node.value);
  put(24, level);
  put(32, fs_tag);
  set_heap_at(kBlockBytes);
}

void NodePage::put_key(std::size_t cell, Key key) {
  put(cell, key.owner);
  put(cell + 8, key.kind);
  put(cell + 9, key.offset);
}

void NodePage::insert(unsigned i, Key key, std::span<const std::byte> value) {
  DCHECK(item_room(value.size()) <= free_bytes());
  const unsigned n = count();
  const std::size_t cell = take_cell(kCellHeaderBytes + value.size());
  put_key(cell, key);
  put(cell + 17, static_cast<std::uint16_t>(value.size()));
  if (!value.empty()) std::memcpy(to_ + cell + kCellHeaderBytes, value.data(), value.size());
  std::byte* slots = to_ + kNodeHeaderBytes;
  std::memmove(slots + kSlotBytes * (i + 1), slots + kSlotBytes * i, kSlotBytes * (n - i));
  put(kNodeHeaderBytes + kSlotBytes * i, static_cast<std::uint16_t>(cell));
  set_count(n + 1);
}

void NodePage::replace(unsigned i, std::span<const std::byte> value) {
  const std::size_t cell = slot(i);
  const std::size_t old_bytes = get<std::uint16_t>(cell + 17);
  if (value.size() > old_bytes) {
    const Key k = key(i);
    erase(i);
    insert(i, k, value);
    return;
  }
  if (!value.empty()) std::memmove(to_ + cell + kCellHeaderBytes, value.data(), value.size());
  put(cell + 17, static_cast<std::uint16_t>(value.size()));
  set_holes(holes() + old_bytes - value.size());
}

void NodePage::set_first_key(Key key) { put_key(slot(0), key); }

void NodePage::set_child(unsigned i, NodeNo child) { put(slot(i) + kCellHeaderBytes, child.value); }

void NodePage::erase(unsigned i) {
  const unsigned n = count();
  const std::size_t cell = slot(i), bytes = cell_bytes(cell);
  if (cell == heap_at()) {
    set_heap_at(cell + bytes);
  } else {
    set_holes(holes() + bytes);
  }
  std::byte* slots = to_ + kNodeHeaderBytes;
  std::memmove(slots + kSlotBytes * i, slots + kSlotBytes * (i + 1), kSlotBytes * (n - i - 1));
  set_count(n - 1);
  if (n == 1) {
    set_heap_at(kBlockBytes);
    set_holes(0);
  }
}

void NodePage::move_tail(unsigned from, NodePage to) {
  for (unsigned i = from; i < count(); ++i) to.insert(to.count(), key(i), value(i));
  while (count() > from) erase(count() - 1);
}

void NodePage::copy_content(ConstNodePage other, const std::byte* other_bytes) {
  const std::uint64_t number = node().value;
  DCHECK(other.node().value != number);
  std::memcpy(to_ + kNodeStampBytes, other_bytes + kNodeStampBytes, kBlockBytes - kNodeStampBytes);
  put(16, number);
}

std::uint32_t NodePage::stamp(Seq seq) {
  put(0, kNodeMagic);
  put(kNodeSeqAt, seq.value);
  const std::uint32_t crc = crc32c({to_ + kNodeCoveredAt, kBlockBytes - kNodeCoveredAt});
  put(kNodeCrcAt, crc);
  return crc;
}

// Room for `bytes` at the heap's lower end, and for one more slot.
std::size_t NodePage::take_cell(std::size_t bytes) {
  const std::size_t slots_end = kNodeHeaderBytes + kSlotBytes * (count() + 1);
  if (heap_at() < slots_end + bytes) compact();
  CHECK(heap_at() >= slots_end + bytes);
  set_heap_at(heap_at() - bytes);
  return heap_at();
}

void NodePage::compact() {
  std::array<std::byte, kBlockBytes> heap;
  std::size_t at = kBlockBytes;
  for (unsigned i = 0; i < count(); ++i) {
    const std::size_t cell = slot(i), bytes = cell_bytes(cell);
    at -= bytes;
    std::memcpy(heap.data() + at, to_ + cell, bytes);
    put(kNodeHeaderBytes + kSlotBytes * i, static_cast<std::uint16_t>(at));
  }
  std::memcpy(to_ + at, heap.data() + at, kBlockBytes - at);
  set_heap_at(at);
  set_holes(0);
}

}  // namespace lazyfs::meta
