// One atomic change of the metadata: either all of it survives a crash or nothing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"
#include "meta/tree/key.h"

namespace lazyfs::meta {

// Collects changes; Store::apply() makes them. A later change of a key replaces an earlier one,
// except that add() adds to the present value. Not thread-safe.
class Batch {
 public:
  enum class Change : std::uint8_t { kPut, kErase, kAdd };
  struct Entry {
    Key key;
    Change change;
    std::uint32_t value_at;  // into bytes()
    std::uint32_t value_bytes;
  };

  // Inserts or replaces. REQUIRES: value.size() <= kMaxValueBytes.
  void put(Key key, std::span<const std::byte> value);
  // Removes the item, if it exists.
  void erase(Key key);
  // Adds `deltas`, modulo 2^64, to an item of little-endian 64-bit integers (all 0 when absent). So
  // counters that many threads change need no lock.
  // apply() fails with kItemBad when the item has another length.
  void add(Key key, std::span<const std::int64_t> deltas);

  // ---- the data that the batch refers to (docs/metadata-log.md, "Data") ----
  // States that the batch is the first to refer to these blocks, which were appended outside of the
  // log. `crcs`: the CRC-32C of each block.
  void brings(BandAddress at, std::span<const std::uint32_t> crcs);
  // States that after the batch nothing refers to these blocks.
  void drops(BandAddress at, std::uint32_t blocks) { dropped_.push_back({at, blocks}); }
  // Makes the transaction wait for a flush before it is written: the batch refers to appended
  // blocks whose checksums are not known, or that are dead from the start.
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
