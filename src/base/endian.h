// Converts integers to and from little-endian bytes on any host. Each function compiles to one
// move on a little-endian CPU.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <span>

namespace lazyfs {

// Uses bit_cast rather than shifts: g++ 12 at -O2 does not turn a loop over shifts into a move.
template <std::unsigned_integral T>
constexpr T to_little(T value) {
  if constexpr (std::endian::native == std::endian::big) value = std::byteswap(value);
  return value;
}

template <std::unsigned_integral T>
constexpr void store_le(std::span<std::byte, sizeof(T)> to, T value) {
  const auto bytes = std::bit_cast<std::array<std::byte, sizeof(T)>>(to_little(value));
  std::copy_n(bytes.data(), sizeof(T), to.data());
}

template <std::unsigned_integral T>
constexpr T load_le(std::span<const std::byte, sizeof(T)> from) {
  std::array<std::byte, sizeof(T)> bytes;
  std::copy_n(from.data(), sizeof(T), bytes.data());
  return to_little(std::bit_cast<T>(bytes));
}

// Store and load at an offset. REQUIRES: at + sizeof(T) <= bytes.size().
template <std::unsigned_integral T>
constexpr void store_le_at(std::span<std::byte> bytes, std::size_t at, T value) {
  store_le<T>(bytes.subspan(at).template first<sizeof(T)>(), value);
}

template <std::unsigned_integral T>
constexpr T load_le_at(std::span<const std::byte> bytes, std::size_t at) {
  return load_le<T>(bytes.subspan(at).template first<sizeof(T)>());
}

}  // namespace lazyfs
