// What disks with platters have in common: places, arm, rotation, and the buffer of what was read.
// Not thread-safe.
#pragma once

#include <vector>

#include "sim/disk.h"
#include "sim/geometry.h"
#include "sim/mechanics.h"
#include "sim/read_buffer.h"

namespace lazyfs::sim {

struct PlatterParameters {
  std::uint32_t surfaces = 0;
  std::vector<Zone> zones;
  std::uint64_t sectors = 0;  // that the host sees
  MechanicsParameters mechanics;
  ReadBufferParameters buffer;
  double bus_sector_ms = 0;
};

class MechanicalDisk : public Disk {
 public:
  // The first `hidden_sectors` of the platters are the disk's own: the host's follow.
  MechanicalDisk(const PlatterParameters& platters, std::uint64_t hidden_sectors)
      : sectors_(platters.sectors),
        hidden_sectors_(hidden_sectors),
        geometry_(platters.surfaces, platters.zones, platters.sectors + hidden_sectors),
        mechanics_(geometry_, platters.mechanics),
        buffer_(platters.buffer, mechanics_) {}
  // mechanics_ and buffer_ refer to members.
  MechanicalDisk(const MechanicalDisk&) = delete;
  MechanicalDisk& operator=(const MechanicalDisk&) = delete;

  std::uint64_t sectors() const override { return sectors_; }
  std::uint32_t cylinder() const override { return mechanics_.cylinder(); }
  std::uint32_t cylinder_of(std::uint64_t sector) const override {
    return geometry_.cylinder_of(hidden_sectors_ + sector);
  }
  const Mechanics& mechanics() const { return mechanics_; }

 private:
  const std::uint64_t sectors_, hidden_sectors_;
  const Geometry geometry_;

 protected:
  Mechanics mechanics_;
  ReadBuffer buffer_;
};

}  // namespace lazyfs::sim
