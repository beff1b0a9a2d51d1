// Integers to and from little-endian bytes, whatever the host. Compilers turn each into one move.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>

namespace lazyfs {

template <std::unsigned_integral T>
constexpr void store_le(std::span<std::byte, sizeof(T)> to, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) to[i] = static_cast<std::byte>(value >> (8 * i));
}

template <std::unsigned_integral T>
constexpr T load_le(std::span<const std::byte, sizeof(T)> from) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>(value | (static_cast<T>(from[i]) << (8 * i)));
  }
  return value;
}

// The same at a run-time offset. Requires at + sizeof(T) <= bytes.size().
template <std::unsigned_integral T>
constexpr void store_le_at(std::span<std::byte> bytes, std::size_t at, T value) {
  store_le<T>(bytes.subspan(at).template first<sizeof(T)>(), value);
}

template <std::unsigned_integral T>
constexpr T load_le_at(std::span<const std::byte> bytes, std::size_t at) {
  return load_le<T>(bytes.subspan(at).template first<sizeof(T)>());
}

}  // namespace lazyfs
