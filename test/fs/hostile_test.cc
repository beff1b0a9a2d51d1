// Images made to break their reader: blocks of metadata with bytes changed at random and their
// checksums made right again, so that what lies behind the checksums is reached. Whatever they
// hold: nobody crashes or goes on for ever, a check ends, and a repair leaves what a check finds
// clean.
//
// LAZYFS_HOSTILE says how many images to try (2,000 unless it is set), LAZYFS_SEED which ones
// (always the same unless it is set).
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include "base/endian.h"
#include "fs/readable.h"
#include "fs/repair.h"
#include "fs/sample_volume.h"
#include "support/seed.h"

namespace lazyfs::fs {
namespace {

std::uint64_t images_wanted() {
  const char* given = std::getenv("LAZYFS_HOSTILE");
  return given ? std::strtoull(given, nullptr, 0) : 2000;
}

std::uint64_t seed() { return std::getenv("LAZYFS_SEED") ? test_seed() : 1; }

// Changes blocks of metadata. They all begin alike: magic, CRC-32C of the bytes [8, 4096).
class Mutator {
 public:
  Mutator(device::MemoryDevice& device, std::uint64_t which) : device_(device), random_(which) {}

  void run() {
    find_blocks();
    for (std::uint64_t n = 1 + random_() % 4; n > 0 && !blocks_.empty(); --n) {
      const BandAddress at = blocks_[random_() % blocks_.size()];
      AlignedBuffer block(kBlockBytes);
      device_.peek(at, block.span());
      for (std::uint64_t i = 1 + random_() % 3; i > 0; --i) change(block.span());
      store_le_at(block.span(), 4, crc32c(block.span().subspan(8)));
      device_.poke(at, block.span());
    }
  }

 private:
  void find_blocks() {
    AlignedBuffer block(kBlockBytes);
    for (std::uint32_t band = 0; band < device_.geometry().band_count(); ++band) {
      for (std::uint32_t rba = 0; rba < *device_.write_pointer(BandId{band}); ++rba) {
        device_.peek({BandId{band}, rba}, block.span());
        if (block.data()[0] != std::byte{'L'} || block.data()[1] != std::byte{'Z'}) continue;
        blocks_.push_back({BandId{band}, rba});
        // Nodes hold the most: they are met more often.
        if (block.data()[2] == std::byte{'N'}) blocks_.insert(blocks_.end(), 3, blocks_.back());
      }
    }
  }

  // Where something is: of a block that is mostly zeros, the rest is of little use.
  std::size_t place(std::span<const std::byte> block) {
    for (int tries = 0; tries < 20; ++tries) {
      const std::size_t at = 8 + random_() % (kBlockBytes - 16);
      if (block[at] != std::byte{0}) return at;
    }
    return 8 + random_() % 192;
  }

  void change(std::span<std::byte> block) {
    constexpr std::uint64_t kValues[] = {0,
                                         1,
                                         2,
                                         7,
                                         255,
                                         4096,
                                         65535,
                                         0x7FFFFFFF,
                                         0xFFFFFFFF,
                                         std::uint64_t{1} << 62,
                                         std::uint64_t{1} << 63,
                                         ~std::uint64_t{0}};
    const std::size_t at = place(block);
    const std::uint64_t value = kValues[random_() % std::size(kValues)];
    switch (random_() % 6) {
      case 0: block[at] ^= std::byte{1} << random_() % 8; return;
      case 1: block[at] = static_cast<std::byte>(value); return;
      case 2: return store_le_at(block, at, static_cast<std::uint16_t>(value));
      case 3: return store_le_at(block, at, static_cast<std::uint32_t>(value));
      case 4: return store_le_at(block, at, value);
      default:  // a piece of the block, elsewhere
        const std::size_t length = std::min<std::size_t>(1 + random_() % 64, kBlockBytes - at);
        const std::size_t from = 8 + random_() % (kBlockBytes - 8 - length);
        std::memmove(block.data() + at, block.data() + from, length);
    }
  }

  device::MemoryDevice& device_;
  std::mt19937_64 random_;
  std::vector<BandAddress> blocks_;
};

class HostileTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::getenv("LAZYFS_HOSTILE_LOG")) spdlog::set_level(spdlog::level::off);
  }

  static void check(device::Device& device) {
    const auto store = meta::Store::open(device, {.background = false, .read_only = true});
    if (!store) return;
    ignore_error(fs::check(**store, device, {.data = true}, [](const std::string&) {}),
                 "what it finds is its business");
  }

  // Returns whether it was repaired; some have nothing left that could be.
  static bool repair(device::Device& device) {
    FixedClock clock;
    std::vector<std::string> told, left;
    const auto tell = [&](const std::string& text) { told.push_back(text); };
    const auto store = open_for_repair(device, tell);
    if (!store) return false;
    if (!fs::repair(**store, device, clock, tell)) return false;
    EXPECT_TRUE(
        fs::check(**store, device, {}, [&](const std::string& text) { left.push_back(text); }));
    EXPECT_EQ(left, std::vector<std::string>{}) << testing::PrintToString(told);
    EXPECT_TRUE((*store)->close());
    return true;
  }
};

TEST_F(HostileTest, WhateverTheyHoldTheyAreReadCheckedAndRepaired) {
  std::uint64_t repaired = 0;
  const std::uint64_t images = images_wanted();
  for (std::uint64_t i = 0; i < images && !HasFailure(); ++i) {
    SCOPED_TRACE("image " + std::to_string(i) + " of LAZYFS_SEED=" + std::to_string(seed()));
    SampleVolume volume;
    ASSERT_TRUE(volume.store->close());
    volume.store.reset();
    Mutator(*volume.device, seed() * 1'000'003 + i).run();
    check(*volume.device);
    Readable::of(*volume.device);
    if (!repair(*volume.device)) continue;
    ++repaired;
    Readable::of(*volume.device);
  }
  std::printf("%lu of %lu images could be repaired\n", repaired, images);
  EXPECT_GT(repaired, images / 2);
}

}  // namespace
}  // namespace lazyfs::fs
