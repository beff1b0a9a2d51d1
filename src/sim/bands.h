// The bands of a shingled disk: runs of whole tracks, so that bands shrink inward as tracks do.
// A value: thread-safe.
//
// Invariants:
//   A1  bands follow each other without a gap and cover the disk; the last one may be shorter
//   A2  all bands of a zone have the same size
#pragma once

#include <cstdint>
#include <vector>

namespace lazyfs::sim {

struct Band {
  std::uint64_t number = 0, first_sector = 0, sectors = 0;
  std::uint64_t end() const { return first_sector + sectors; }
};

class Bands {
 public:
  struct Zone {
    std::uint64_t first_sector = 0, band_sectors = 0;
  };
  // REQUIRES: zones begin at 0 and rise; `sectors` is past the start of the last one.
  Bands(std::vector<Zone> zones, std::uint64_t sectors);

  // REQUIRES: sector < the disk's.
  Band of(std::uint64_t sector) const;
  std::uint64_t count() const { return count_; }

 private:
  struct Span {
    Zone zone;
    std::uint64_t end, first_band;
  };
  std::vector<Span> spans_;
  std::uint64_t count_ = 0;
};

}  // namespace lazyfs::sim
