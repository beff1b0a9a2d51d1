// Images made to break their readers: blocks of metadata with bytes changed at random and their
// checksums corrected, so that the code after the checksums is reached. Whatever the images hold,
// readers and writers neither crash nor loop without end, a check ends, and a check after a repair
// finds nothing.
//
// LAZYFS_HOSTILE says how many images to try (2,000 unless it is set), LAZYFS_SEED which ones
// (always the same unless it is set).
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include "base/log.h"
#include "base/endian.h"
#include "test/fsck/readable.h"
#include "fsck/repair.h"
#include "test/fsck/sample_volume.h"
#include "support/rounds.h"
#include "support/seed.h"

namespace lazyfs::fsck {
namespace {

std::uint64_t images_wanted() {
  const char* given = std::getenv("LAZYFS_HOSTILE");
  return given ? std::strtoull(given, nullptr, 0) : rounds_of_build(2000, 250);
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

// Changes all that a volume's root directory leads to, as programs might on a mount without a check
// before. Results are not compared.
class User {
 public:
  explicit User(Volume& volume) : volume_(volume) {}

  void run() {
    const auto entries = volume_.read_directory(kRootInode, 0, 1000);
    make("before");
    if (entries) {
      for (const DirectoryEntry& entry : *entries) change(entry);
    }
    sync();
    if (entries) {
      for (const DirectoryEntry& entry : *entries) remove(entry.name);
    }
    make("after");
    sync();
    ScrubPlace place;
    for (int step = 0; step < 100; ++step) {
      const auto scrubbed = volume_.scrub(place, 1000);
      if (!scrubbed || !scrubbed->next) break;
      place = *scrubbed->next;
    }
    volume_.stats_json();
  }

 private:
  static constexpr std::string_view kWhy = "the volume is damaged";

  void sync() {
    ignore_error(volume_.sync(), kWhy);
    volume_.tick();
    ignore_error(volume_.collect_garbage(), kWhy);
  }
  void write(InodeNo inode, std::uint64_t offset, std::size_t length) {
    const std::string text(length, 'w');
    ignore_error(volume_.write(inode, offset, std::as_bytes(std::span(text))), kWhy);
  }
  void make(const std::string& name) {
    const auto made = volume_.create(kRootInode, name, 0644, {});
    if (made) {
      write(made->attributes.inode, 0, 30'000);
      ignore_error(volume_.fsync(made->attributes.inode, made->file, false), kWhy);
      volume_.release(made->file);
      volume_.forget(made->attributes.inode, 1);
    }
    const auto directory = volume_.make_directory(kRootInode, name + " directory", 0755, {});
    if (directory) volume_.forget(directory->inode, 1);
    const auto link = volume_.make_symlink(kRootInode, name + " link", std::string(2000, 't'), {});
    if (link) volume_.forget(link->inode, 1);
  }
  void change(const DirectoryEntry& entry) {
    const auto found = volume_.lookup(kRootInode, entry.name);
    if (!found) return;
    const InodeNo inode = found->inode;
    ignore_error(volume_.set_xattr(inode, "user.x", "value", XattrMode::kAny), kWhy);
    ignore_error(volume_.remove_xattr(inode, "user.long"), kWhy);
    const auto linked = volume_.link(inode, kRootInode, entry.name + " too");
    if (linked) volume_.forget(inode, 1);
    ignore_error(volume_.rename(kRootInode, entry.name, kRootInode, entry.name + " moved", {}),
                 kWhy);
    if (S_ISREG(found->mode)) {
      write(inode, 5000, 10'000);
      const auto copied = volume_.copy_range(inode, 0, inode, 1 << 20, 4 * kBlockBytes, false);
      ignore_error(copied ? ok() : fail(copied.error()), kWhy);
      ignore_error(volume_.punch(inode, kBlockBytes, kBlockBytes, {.keep_size = true}), kWhy);
    }
    volume_.forget(inode, 1);
  }
  void remove(const std::string& name) {
    for (const char* suffix : {"", " too", " moved"}) {
      ignore_error(volume_.unlink(kRootInode, name + suffix), kWhy);
      ignore_error(volume_.remove_directory(kRootInode, name + suffix), kWhy);
    }
  }

  Volume& volume_;
};

class HostileTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::getenv("LAZYFS_HOSTILE_LOG")) log::set_level(log::Level::kOff);
  }

  static void check(device::Device& device) {
    const auto store = meta::Store::open(device, {.background = false, .read_only = true});
    if (!store) return;
    ignore_error(fsck::check(**store, device, {.data = true}, [](const std::string&) {}),
                 "what it finds is its business");
  }

  static void use(device::Device& device) {
    FixedClock clock;
    const auto volume = Volume::mount(device, {.background = false}, clock);
    if (!volume) return;
    User(**volume).run();
    ignore_error((*volume)->unmount(), "what could not be written is its business");
  }

  // Closes the volume and changes it, as the number says.
  static void corrupt(SampleVolume& volume, std::uint64_t image) {
    EXPECT_TRUE(volume.store->close());
    volume.store.reset();
    Mutator(*volume.device, seed() * 1'000'003 + image).run();
  }

  // Returns whether it was repaired; some have nothing left that could be.
  static bool repair(device::Device& device) {
    FixedClock clock;
    std::vector<std::string> changes, left;
    const auto listener = [&](const std::string& text) { changes.push_back(text); };
    const auto store = open_for_repair(device, listener);
    if (!store) return false;
    if (!fsck::repair(**store, device, clock, listener).result) return false;
    EXPECT_TRUE(
        fsck::check(**store, device, {}, [&](const std::string& text) { left.push_back(text); }));
    EXPECT_EQ(left, std::vector<std::string>{}) << testing::PrintToString(changes);
    EXPECT_TRUE((*store)->close());
    return true;
  }
};

TEST_F(HostileTest, WhateverTheyHoldTheyAreUsedAndRepairedAfterwards) {
  const std::uint64_t images = images_wanted() / 4;  // a mount for writing costs more than a check
  for (std::uint64_t i = 0; i < images && !HasFailure(); ++i) {
    SCOPED_TRACE("image " + std::to_string(i) + " of LAZYFS_SEED=" + std::to_string(seed()));
    SampleVolume volume;
    corrupt(volume, i);
    use(*volume.device);
    repair(*volume.device);
  }
}

TEST_F(HostileTest, WhateverTheyHoldTheyAreReadCheckedAndRepaired) {
  std::uint64_t repaired = 0;
  const std::uint64_t images = images_wanted();
  for (std::uint64_t i = 0; i < images && !HasFailure(); ++i) {
    SCOPED_TRACE("image " + std::to_string(i) + " of LAZYFS_SEED=" + std::to_string(seed()));
    SampleVolume volume;
    corrupt(volume, i);
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
}  // namespace lazyfs::fsck
