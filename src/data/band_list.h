// All bands of a volume, listed by state, and the sums over them.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/types.h"
#include "data/band.h"
#include "device/device.h"

namespace lazyfs::data {

// Invariants, for every data band b (check_invariants()):
//   B1  live <= appended <= blocks
//   B2  kFree  =>  appended == 0 and not leased
//   B3  leased  =>  kOpen
//   B4  kResetting  =>  live == 0 and pins == 0
//   B5  free(), free_by_blocks(), open(), empty() and bad() list exactly the bands that their
//       comments name
//   B6  blocks() and log_blocks() are sums over all bands
// Not thread-safe.
class BandList {
 public:
  // Bands that are neither super nor log are free data bands.
  BandList(const device::Geometry& geometry, std::span<const BandId> super_bands,
           std::span<const BandId> log_bands);

  // Adds the bands that the geometry has past the last one of this list, as free data bands.
  // REQUIRES: none of them is larger than the largest one of this list.
  void add_new(const device::Geometry& geometry);

  // Every change of a band goes through here: it keeps B5 and B6.
  template <class Change>
  void change(BandId id, Change change) {
    Band& band = bands_.at(id.value);
    uncount(band);
    change(band);
    count(band);
    list(id.value);
  }
  void pin(BandId id) { ++bands_.at(id.value).pins; }
  void unpin(BandId id);

  const Band& operator[](BandId id) const { return bands_.at(id.value); }
  BandView view(BandId id) const;  // is_suspect and is_given_up are not known here
  std::uint32_t count() const { return static_cast<std::uint32_t>(bands_.size()); }
  std::uint32_t largest_blocks() const { return largest_blocks_; }

  // Numbers of bands.
  using Numbers = std::set<std::uint32_t>;
  using BySize = std::map<std::uint32_t, Numbers>;
  const Numbers& free() const { return free_; }    // kFree
  // The bands of free() by their size. No entry is empty.
  const BySize& free_by_blocks() const { return free_by_blocks_; }
  const Numbers& open() const { return open_; }    // kOpen
  const Numbers& empty() const { return empty_; }  // is_empty()
  const Numbers& bad() const { return bad_; }      // kBad, except bands of size 0

  // Sums over the data bands that are not bad. `unwritten`: of free and of open ones. The rest of a
  // band that was sealed with room is part of the total alone.
  struct Blocks {
    std::uint64_t total = 0, live = 0, dead = 0, unwritten = 0;
    std::uint64_t free = 0;  // of kFree bands, and part of unwritten
    friend bool operator==(const Blocks&, const Blocks&) = default;
  };
  const Blocks& blocks() const { return blocks_; }
  std::uint64_t log_blocks() const { return log_blocks_; }  // of kLog bands

  // The first invariant that does not hold, or empty.
  std::string check_invariants() const;

 private:
  void describe(std::uint32_t index, const device::Geometry& geometry);
  void count(const Band& band);
  void uncount(const Band& band);
  void provide_for(std::span<const Band> bands);
  void put(Numbers& numbers, std::uint32_t index, bool is_member);
  void put_by_size(std::uint32_t index, bool is_free);
  void list(std::uint32_t index);

  static constexpr std::size_t kListsAtOnce = 3;
  std::vector<Band> bands_;
  std::uint32_t largest_blocks_ = 0;
  Numbers free_, open_, empty_, bad_;
  BySize free_by_blocks_;
  // Entries that stand for no band.
  std::vector<Numbers::node_type> spare_;
  std::vector<BySize::node_type> spare_sizes_;
  Blocks blocks_;
  std::uint64_t log_blocks_ = 0;
};

}  // namespace lazyfs::data
