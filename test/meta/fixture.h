// What the tests of the metadata store share: a small device, a model of what must be there, and
// words.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>

#include "device/memory.h"
#include "meta/store/store.h"

namespace lazyfs::meta {

using Model = std::map<Key, std::string>;

inline std::uint64_t test_seed() {
  static const std::uint64_t seed = [] {
    const char* given = std::getenv("LAZYFS_SEED");
    const std::uint64_t s = given ? std::strtoull(given, nullptr, 10) : std::random_device{}();
    std::cout << "LAZYFS_SEED=" << s << std::endl;
    return s;
  }();
  return seed;
}

inline std::span<const std::byte> as_value(std::string_view text) {
  return std::as_bytes(std::span(text));
}
inline std::string as_text(const Value& value) {
  return {reinterpret_cast<const char*>(value.data()), value.size()};
}

// The tests run a second time on devices that keep no write pointers (meta_test_plain). Such a
// device aborts a test that writes a block twice between two resets of its band. It has one band
// more, and so has its log: the rescue band.
inline bool devices_are_plain() {
  static const bool plain = std::getenv("LAZYFS_PLAIN") != nullptr;
  return plain;
}
inline std::uint32_t rescue_bands() { return devices_are_plain() ? 1 : 0; }
inline std::unique_ptr<device::MemoryDevice> memory_device(std::uint32_t bands,
                                                           std::uint32_t band_blocks) {
  if (!devices_are_plain()) return device::MemoryDevice::uniform(bands, band_blocks);
  return device::MemoryDevice::uniform(bands + 1, band_blocks, {.keeps_write_pointers = false});
}

// Super bands 0 and 1; the log in the bands from 2 on.
inline Superblock small_superblock(std::uint32_t log_bands) {
  log_bands += rescue_bands();
  Superblock s;
  for (std::size_t i = 0; i < s.uuid.size(); ++i) s.uuid[i] = static_cast<std::uint8_t>(i + 1);
  s.label = "test";
  s.created_seconds = 1700000000;
  for (std::uint32_t i = 0; i < log_bands; ++i) s.log_bands.push_back(BandId{2 + i});
  return s;
}

inline StoreOptions quiet_options() {
  StoreOptions options;
  options.background = false;
  return options;
}

inline std::vector<std::string> problems_of(Store& store) {
  std::vector<std::string> problems;
  store.check({.problem = [&](std::string text) { problems.push_back(std::move(text)); }});
  return problems;
}

inline const Key kLowest{};
inline const Key kHighest{~0ull, 255, kMaxOffset};

// Everything in the store, read in pieces of `piece` items.
inline Model contents_of(Store& store, std::size_t piece = 100) {
  Model all;
  Key from = kLowest;
  for (;;) {
    const auto items = store.scan(from, kHighest, piece);
    EXPECT_TRUE(items.has_value()) << describe(items.error());
    if (!items) return all;
    for (const Item& item : *items) all[item.key] = as_text(item.value);
    if (items->size() < piece) return all;
    from = items->back().key;
    if (from == kHighest) return all;
    if (from.offset != kMaxOffset) {
      ++from.offset;
    } else {
      from.offset = 0;
      if (++from.kind == 0) ++from.owner;
    }
  }
}

}  // namespace lazyfs::meta
