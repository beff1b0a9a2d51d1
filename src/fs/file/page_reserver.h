// Reserves space for pages before they become dirty, so that write-back cannot fail for lack of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>

#include "base/result.h"
#include "data/band_table.h"
#include "fs/file/shared_extents.h"
#include "fs/inode/inode.h"
#include "meta/store/store.h"

namespace lazyfs::fs {

// Thread-safe.
class PageReserver {
 public:
  // The functions are called without locks and without an inode's token. `throttle(file, bytes)`
  // may wait for memory and for the collector, and fails if memory is full of data that cannot be
  // written back. `make_space()` is called if no space can be reserved, and returns false if it
  // freed none.
  struct Pressure {
    std::function<Result<>(const Inode&, std::size_t)> throttle;
    std::function<bool()> make_space;
  };
  PageReserver(meta::Store& store, SharedExtents& shared, data::BandTable& bands, Pressure pressure)
      : store_(store), shared_(shared), bands_(bands), pressure_(std::move(pressure)) {}

  // To be called, without locks, before a change that makes `bytes` of the file dirty. Errors:
  // kLogFailed (nothing can be written any more), and those of `throttle`.
  Result<> admit(const Inode& file, std::size_t bytes) {
    if (store_.failed()) return fail(Errc::kLogFailed);
    return pressure_.throttle(file, bytes);
  }
  // Reserves `pages` for blocks [first, end), as many as are not dirty yet. Errors: kNoSpace (there
  // is none for them, or for recording them), and those of reading the map. REQUIRES: the inode has
  // a buffer.
  Result<> reserve(const Inode& inode, std::uint64_t first, std::uint64_t end, std::uint64_t pages)
      REQUIRES_SHARED(inode.mu);
  // Gives back pages that were reserved and did not become dirty.
  void give_back(std::uint64_t pages) { bands_.release(pages); }
  // Calls `change` without locks. While it fails with kNoSpace and space can be made, makes space
  // and calls it again.
  template <class Change>
  std::invoke_result_t<Change> with_space(const Change& change) {
    bool is_full = false;
    for (int tries = 0;; ++tries) {
      auto changed = change();
      if (changed || changed.error() != Errc::kNoSpace) return changed;
      if (is_full || tries == kMostTries) return changed;
      // Space may have become free after the try and before make_space() looked: one more try.
      is_full = !pressure_.make_space();
    }
  }

 private:
  // Others may take the freed space each time.
  static constexpr int kMostTries = 1000;

  Result<std::uint64_t> count_overwritten(const Inode& inode, std::uint64_t first,
                                          std::uint64_t end) const REQUIRES_SHARED(inode.mu);

  meta::Store& store_;
  SharedExtents& shared_;
  data::BandTable& bands_;
  const Pressure pressure_;
};

}  // namespace lazyfs::fs
