// One atomic change of the metadata: either all of it survives a crash or nothing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "meta/tree/key.h"

namespace lazyfs::meta {

// Collects changes; Store::apply() makes them. Later changes of a key win over earlier ones, except
// that add() adds to the present value. Not thread-safe.
class Batch {
 public:
  enum class Change : std::uint8_t { kPut, kErase, kAdd };
  struct Entry {
    Key key;
    Change change;
    std::uint32_t value_at;  // into bytes()
    std::uint32_t value_bytes;
  };

  // Inserts or replaces. Requires value.size() <= kMaxValueBytes.
  void put(Key key, std::span<const std::byte> value);
  // Removes; nothing happens when there is no such item.
  void erase(Key key);
  // Takes the item as a vector of little-endian 64-bit integers (all 0 when absent) and adds
  // `deltas` to it, modulo 2^64. Counters that many threads change need no lock this way.
  // apply() fails with kItemBad when the item has another length.
  void add(Key key, std::span<const std::int64_t> deltas);

  bool empty() const { return entries_.empty(); }
  std::size_t size() const { return entries_.size(); }
  void clear();
  std::span<const Entry> entries() const { return entries_; }
  std::span<const std::byte> value_of(const Entry& entry) const {
    return std::span(bytes_).subspan(entry.value_at, entry.value_bytes);
  }

 private:
  void record(Key key, Change change, std::span<const std::byte> value);

  std::vector<Entry> entries_;
  std::vector<std::byte> bytes_;
};

}  // namespace lazyfs::meta
