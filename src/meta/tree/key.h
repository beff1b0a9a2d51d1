// Keys of the metadata tree. src/fs/item/schema.h defines what owner, kind and offset mean. Here
// keys only have an order: by owner, then kind, then offset.
#pragma once

#include <boost/container/small_vector.hpp>
#include <compare>
#include <cstdint>
#include <limits>
#include <span>

namespace lazyfs::meta {

struct Key {
  std::uint64_t owner = 0;
  std::uint8_t kind = 0;
  std::uint64_t offset = 0;
  friend constexpr auto operator<=>(const Key&, const Key&) = default;
};

inline constexpr std::uint64_t kMaxOffset = std::numeric_limits<std::uint64_t>::max();
inline constexpr std::size_t kMaxValueBytes = 1024;

// The bytes of one item. Up to the size of an inode's item they need no separate allocation. Boost
// 1.74's vectors do not convert to std::span by themselves.
struct Value : boost::container::small_vector<std::byte, 144> {
  using boost::container::small_vector<std::byte, 144>::small_vector;
  operator std::span<const std::byte>() const { return {data(), size()}; }
};
// (Boost 1.74's small_vector is not a std::ranges::contiguous_range.)
inline std::span<const std::byte> bytes_of(const Value& value) {
  return {value.data(), value.size()};
}

struct Item {
  Key key;
  Value value;
};

}  // namespace lazyfs::meta
