#include "meta/tree/batch.h"

#include <array>

#include "base/endian.h"

namespace lazyfs::meta {

void Batch::put(Key key, std::span<const std::byte> value) { record(key, Change::kPut, value); }

void Batch::erase(Key key) { record(key, Change::kErase, {}); }

void Batch::add(Key key, std::span<const std::int64_t> deltas) {
  const auto at = static_cast<std::uint32_t>(bytes_.size());
  for (const std::int64_t delta : deltas) {
    std::array<std::byte, 8> bytes;
    store_le<std::uint64_t>(bytes, static_cast<std::uint64_t>(delta));
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  entries_.push_back({key, Change::kAdd, at, static_cast<std::uint32_t>(bytes_.size() - at)});
}

void Batch::brings(BandAddress at, std::span<const std::uint32_t> crcs) {
  brought_.push_back({at, static_cast<std::uint32_t>(crcs.size()), crcs_.size()});
  crcs_.insert(crcs_.end(), crcs.begin(), crcs.end());
}

void Batch::clear() { *this = Batch(); }

void Batch::record(Key key, Change change, std::span<const std::byte> value) {
  const auto at = static_cast<std::uint32_t>(bytes_.size());
  bytes_.insert(bytes_.end(), value.begin(), value.end());
  entries_.push_back({key, change, at, static_cast<std::uint32_t>(value.size())});
}

}  // namespace lazyfs::meta
