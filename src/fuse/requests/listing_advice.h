// Which entries of a directory are listed with their attributes.
//
// A program that asks for the attributes of each entry, as `ls -l` does, saves a LOOKUP per entry.
// For a program that only wants names they are a cost: each inode is read, and put into the
// kernel's memory. The kernel does not say what a program wants, but it asks for what it lacks. So
// in a long listing a few entries come without attributes. If none of them is looked up, the
// program only wants names.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/mutex.h"
#include "base/types.h"

namespace lazyfs::fuse {

// For each of the directories listed last, counts the entries given since its listing began, or
// since a LOOKUP found a name in it.
//
// Thread-safe; mu_ is a leaf lock.
class ListingAdvice {
 public:
  // This many entries come with attributes before the first one without.
  static constexpr std::uint64_t kBeforeSamples = 1024;
  // After this many entries all others come without attributes: fts(3) of find, rm and du looks at
  // the first 100,000 names of a directory only when it has read all of them.
  static constexpr std::uint64_t kBeforeNames = 131'072;
  static constexpr std::uint64_t kSampleEvery = 64;

  enum class Attributes : std::uint8_t { kAll, kMost, kNone };
  // Whether the entry comes with attributes. `cookie`: of the entry.
  static bool gives(Attributes attributes, std::uint64_t cookie) {
    return attributes == Attributes::kAll ||
           (attributes == Attributes::kMost && cookie % kSampleEvery != 0);
  }

  // Which entries of the next reply come with attributes. `from_start`: the listing begins with it.
  Attributes begin_reply(InodeNo directory, bool from_start) EXCLUDES(mu_);
  // The reply has so many entries.
  void add(InodeNo directory, std::uint64_t entries) EXCLUDES(mu_);
  // A name in the directory was found.
  void note_lookup(InodeNo directory) {
    if (long_listings_.load(std::memory_order_relaxed) > 0) restart(directory);
  }

 private:
  static constexpr std::size_t kListings = 16;
  struct Listing {
    InodeNo directory;
    std::uint64_t entries = 0;
    std::uint64_t used = 0;  // by the latest reply, on turn_
  };

  void restart(InodeNo directory) EXCLUDES(mu_);
  Listing* find(InodeNo directory) REQUIRES(mu_);
  Listing& find_or_replace(InodeNo directory) REQUIRES(mu_);
  void set(Listing& listing, std::uint64_t entries) REQUIRES(mu_);

  Mutex mu_;
  std::array<Listing, kListings> listings_ GUARDED_BY(mu_);
  std::uint64_t turn_ GUARDED_BY(mu_) = 0;
  std::atomic<std::size_t> long_listings_{0};  // with at least kBeforeSamples entries
};

}  // namespace lazyfs::fuse
