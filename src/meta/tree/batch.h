// One atomic change of the metadata: either all of it survives a crash or nothing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"
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

  // ---- the data that the batch refers to (docs/metadata-log.md, "Data") ----
  // The batch is the first one that refers to these blocks, which were appended outside of the log.
  // `crcs`: the CRC-32C of each.
  void brings(BandAddress at, std::span<const std::uint32_t> crcs);
  // After the batch nothing refers to these blocks.
  void drops(BandAddress at, std::uint32_t blocks) { dropped_.push_back({at, blocks}); }
  // The batch refers to appended blocks whose checksums are not known, or that are dead from the
  // start: the transaction is written after a flush.
  void flush_first() { flushes_first_ = true; }

  // Blocks in a band. `crcs`: of those that the batch brings, else empty.
  struct Blocks {
    BandAddress at;
    std::uint32_t blocks = 0;
    std::span<const std::uint32_t> crcs = {};
  };
  // Calls visit(const Blocks&) for everything that the batch brings.
  void visit_brought(auto visit) const {
    for (const Brought& b : brought_) {
      visit(Blocks{b.at, b.blocks, std::span(crcs_).subspan(b.first_crc, b.blocks)});
    }
  }
  std::span<const Blocks> dropped() const { return dropped_; }
  bool flushes_first() const { return flushes_first_; }

  bool empty() const { return entries_.empty(); }
  std::size_t size() const { return entries_.size(); }
  void clear();
  std::span<const Entry> entries() const { return entries_; }
  std::span<const std::byte> value_of(const Entry& entry) const {
    return std::span(bytes_).subspan(entry.value_at, entry.value_bytes);
  }

 private:
  struct Brought {
    BandAddress at;
    std::uint32_t blocks = 0;
    std::size_t first_crc = 0;  // into crcs_
  };
  void record(Key key, Change change, std::span<const std::byte> value);

  std::vector<Entry> entries_;
  std::vector<std::byte> bytes_;
  std::vector<Brought> brought_;
  std::vector<std::uint32_t> crcs_;
  std::vector<Blocks> dropped_;
  bool flushes_first_ = false;
};

}  // namespace lazyfs::meta
