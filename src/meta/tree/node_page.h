// A tree node: one block with a header, a sorted array of slots and a heap of cells that grows down
// from the block's end. Leaves and inner nodes have the same format; an inner node's values are
// node numbers. docs/format.md section 4.
//
//   offset size field
//        0    4 magic     "LZND"
//        4    4 crc32c    covers bytes [8, 4096)
//        8    8 seq       of the transaction that wrote this image
//       16    8 node      the node's number
//       24    1 level     0: leaf
//       25    1 flags     none has a meaning yet; kept
//       26    2 count     items
//       28    2 heap_at   where the heap of cells begins
//       30    2 holes     unused bytes within the heap
//       32    4 fs_tag    crc32c of the filesystem's uuid
//       36   12 room      written as 0, kept
//       48    2 slots[]   count offsets of cells, in the order of their keys
//   heap_at     cells     owner 8, kind 1, offset 8, length 2, value
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

#include "base/endian.h"
#include "base/result.h"
#include "base/types.h"
#include "meta/tree/key.h"

namespace lazyfs::meta {

inline constexpr std::size_t kNodeHeaderBytes = 48;
inline constexpr std::size_t kNodeRoomBytes = kBlockBytes - kNodeHeaderBytes;
inline constexpr std::size_t kCellHeaderBytes = 19;
inline constexpr std::size_t kSlotBytes = 2;
inline constexpr std::uint8_t kMaxLevel = 15;
// The bytes that a commit stamps while readers use the rest: magic, checksum, seq.
inline constexpr std::size_t kNodeStampBytes = 16;

// The bytes that an item with a value of `value_bytes` takes in a node.
constexpr std::size_t item_room(std::size_t value_bytes) {
  return kSlotBytes + kCellHeaderBytes + value_bytes;
}
inline constexpr std::size_t kInnerItemRoom = item_room(8);
static_assert(3 * item_room(kMaxValueBytes) <= kNodeRoomBytes);

// Checks the whole image. ConstNodePage and NodePage trust an image that has passed.
// Errors: kNodeChecksumBad; kNodeBad when the image is not of `node`, was not written by `seq` in
// this filesystem, or holds impossible values.
Result<> validate_node(std::span<const std::byte, kBlockBytes> image, NodeNo node, Seq seq,
                       std::uint32_t fs_tag);

// A view of a node's 4096 bytes. The caller owns them. REQUIRES: validate_node() has passed them,
// or format() made them.
//
// Invariants:
//   N1  slots are in strictly increasing order of their keys
//   N2  cells lie in [heap_at, 4096) and do not overlap
//   N3  cells and holes together fill the heap exactly
class ConstNodePage {
 public:
  explicit ConstNodePage(const std::byte* bytes) : bytes_(bytes) {}

  NodeNo node() const { return NodeNo{get<std::uint64_t>(16)}; }
  std::uint8_t level() const { return get<std::uint8_t>(24); }
  bool is_leaf() const { return level() == 0; }
  unsigned count() const { return get<std::uint16_t>(26); }
  std::size_t free_bytes() const {
    return heap_at() - kNodeHeaderBytes - kSlotBytes * count() + holes();
  }
  std::size_t used_bytes() const { return kNodeRoomBytes - free_bytes(); }

  Key key(unsigned i) const { return key_at(slot(i)); }
  std::span<const std::byte> value(unsigned i) const {
    const std::size_t cell = slot(i);
    return {bytes_ + cell + kCellHeaderBytes, get<std::uint16_t>(cell + 17)};
  }
  // Inner nodes: the child below item i.
  NodeNo child(unsigned i) const { return NodeNo{get<std::uint64_t>(slot(i) + kCellHeaderBytes)}; }
  std::size_t room_of(unsigned i) const { return item_room(value(i).size()); }

  // Index of the first item whose key is not less than `key`; count() if there is none.
  unsigned lower_bound(Key key) const;
  bool has(unsigned i, Key wanted) const { return i < count() && key(i) == wanted; }

 protected:
  template <class T>
  T get(std::size_t at) const {
    return load_le<T>(std::span<const std::byte, sizeof(T)>(bytes_ + at, sizeof(T)));
  }
  std::size_t slot(unsigned i) const {
    return get<std::uint16_t>(kNodeHeaderBytes + kSlotBytes * i);
  }
  Key key_at(std::size_t cell) const {
    return {get<std::uint64_t>(cell), get<std::uint8_t>(cell + 8), get<std::uint64_t>(cell + 9)};
  }
  std::size_t heap_at() const { return get<std::uint16_t>(28); }
  std::size_t holes() const { return get<std::uint16_t>(30); }

  const std::byte* bytes_;
};

class NodePage : public ConstNodePage {
 public:
  explicit NodePage(std::byte* bytes) : ConstNodePage(bytes), to_(bytes) {}

  // Makes the page an empty node.
  void format(NodeNo node, std::uint8_t level, std::uint32_t fs_tag);
  // Inserts before item i. REQUIRES: item_room(value.size()) <= free_bytes().
  void insert(unsigned i, Key key, std::span<const std::byte> value);
  // Replaces the value of item i. REQUIRES: a longer value has room.
  void replace(unsigned i, std::span<const std::byte> value);
  void set_child(unsigned i, NodeNo child);
  void set_first_key(Key key);  // requires key < key(0)
  void erase(unsigned i);
  // Moves the items [from, count()) to the end of `to`, which has room for them.
  void move_tail(unsigned from, NodePage to);
  // Copies everything except the number from `other`.
  void copy_content(ConstNodePage other, const std::byte* other_bytes);
  // Writes magic, seq and checksum, just before the image goes to the device. Returns the checksum.
  std::uint32_t stamp(Seq seq);

 private:
  void put_key(std::size_t cell, Key key);
  template <class T>
  void put(std::size_t at, T value) {
    store_le<T>(std::span<std::byte, sizeof(T)>(to_ + at, sizeof(T)), value);
  }
  void set_count(std::size_t n) { put(26, static_cast<std::uint16_t>(n)); }
  void set_heap_at(std::size_t at) { put(28, static_cast<std::uint16_t>(at)); }
  void set_holes(std::size_t n) { put(30, static_cast<std::uint16_t>(n)); }
  std::size_t cell_bytes(std::size_t cell) const {
    return kCellHeaderBytes + get<std::uint16_t>(cell + 17);
  }
  std::size_t take_cell(std::size_t bytes);
  void compact();

  std::byte* to_;
};

}  // namespace lazyfs::meta
