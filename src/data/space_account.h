// How many blocks users may still write: all blocks minus the live ones, those reserved for data in
// memory, and those kept back for the collector and the metadata log.
#pragma once

#include <cstdint>

#include "data/band_list.h"

namespace lazyfs::data {

struct SpaceCounts {        // in blocks, of data bands
  std::uint64_t total = 0;  // all but bad ones
  std::uint64_t live = 0;
  std::uint64_t dead = 0;
  std::uint64_t unwritten = 0;  // free bands and the rest of open ones
  std::uint64_t reserved = 0;   // accepted, not yet written
  std::uint64_t kept_back = 0;  // for the collector and the log, never given to users
  std::uint64_t capacity = 0;   // what users can have at most; the same whatever the log takes
  std::uint64_t available = 0;  // what users can still reserve
  std::uint32_t free_bands = 0;
  friend bool operator==(const SpaceCounts&, const SpaceCounts&) = default;
};

// Invariants:
//   S1  reserved is what the reserve functions gave and release() has not taken back
//   S2  users are given at most what is available, except by reserve_to_overwrite()
// Not thread-safe.
class SpaceAccount {
 public:
  // Only the collector and the log may begin bands of the reserve, so that cleaning can always
  // proceed. The reserve is free bands with as many blocks as so many of the largest size have:
  // as many short bands would not take what is live in a long one.
  static constexpr std::uint32_t kReserveBands = 3;
  // Blocks of free bands that remain when users begin a band. Cleaning a band takes at most a third
  // of the reserve, and gives it back.
  static std::uint64_t kept_from_users(const BandList& bands) {
    return std::uint64_t{kReserveBands - 1} * bands.largest_blocks();
  }

  explicit SpaceAccount(const BandList& bands) : bands_(bands) {}

  // See BandTable.
  bool reserve(std::uint64_t blocks);
  bool reserve_to_overwrite(std::uint64_t fresh, std::uint64_t overwriting);
  void release(std::uint64_t blocks);

  SpaceCounts counts() const;
  // Blocks that users can append without cleaning: to the rest of their open bands, and to the free
  // bands that they may begin.
  std::uint64_t user_room() const;
  // Whether the metadata log may take a band of `blocks` blocks: from what is kept back for the log
  // or for dead blocks, or from what is available.
  bool log_may_take(std::uint64_t blocks) const;
  bool has_reserve() const { return bands_.blocks().free >= reserve_blocks(); }
  std::uint64_t reserve_blocks() const {
    return std::uint64_t{kReserveBands} * bands_.largest_blocks();
  }

 private:
  std::uint64_t log_at_most() const;
  std::uint64_t kept_back() const;
  std::uint64_t capacity() const;

  const BandList& bands_;
  std::uint64_t reserved_ = 0;
};

}  // namespace lazyfs::data
