// Where on the platters each sector lies. A value: thread-safe.
//
// Invariants:
//   G1  zones follow each other without a gap, in sectors and in cylinders, from the outer edge on
//   G2  each track of a zone has the same number of sectors
#pragma once

#include <cstdint>
#include <vector>

namespace lazyfs::sim {

struct Zone {
  std::uint32_t first_cylinder = 0, cylinders = 0;
  std::uint32_t track_sectors = 0;
  // How many sectors a track's first sector lies after the first sector of the track before.
  std::uint32_t track_skew = 0, cylinder_skew = 0;
  std::uint64_t spare_sectors = 0;  // that hold no data, spread evenly
};

struct Place {
  std::uint32_t cylinder = 0, surface = 0;
  std::uint32_t track_sectors = 0;
  double angle = 0;  // where the sector begins, in revolutions, 0 <= angle < 1
};

class Geometry {
 public:
  // `sectors`: the drive's capacity; sectors that the zones have beyond it are spares too, in
  // proportion. REQUIRES: the zones hold that many.
  Geometry(std::uint32_t surfaces, std::vector<Zone> zones, std::uint64_t sectors);

  std::uint64_t sectors() const { return sectors_; }
  std::uint32_t cylinders() const { return cylinders_; }
  // REQUIRES (these): sector < sectors().
  Place place(std::uint64_t sector) const;
  std::uint32_t cylinder_of(std::uint64_t sector) const;
  std::uint32_t track_sectors_of(std::uint64_t sector) const;
  // Revolutions that pass from the start of the first sector to the end of the last one, changes
  // of tracks included. REQUIRES: count > 0, first + count <= sectors().
  double revolutions(std::uint64_t first, std::uint64_t count) const;

 private:
  struct Span {  // a zone, and the sectors that lie in it
    Zone zone;
    std::uint64_t first_sector = 0, sectors = 0;
    double stretch = 1;  // tracks' sectors for each sector that holds data
  };
  struct Slot {
    const Span* span;
    std::uint64_t track;  // within the zone
    std::uint64_t offset;  // within the track
  };
  Slot slot(std::uint64_t sector) const;
  double revolutions_in(const Span& span, std::uint64_t first, std::uint64_t count) const;

  const std::uint32_t surfaces_;
  std::uint64_t sectors_;
  std::uint32_t cylinders_ = 0;
  std::vector<Span> spans_;
};

}  // namespace lazyfs::sim
