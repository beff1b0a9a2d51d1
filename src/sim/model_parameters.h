// The models of the catalogue, and what they share.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sim/disk.h"
#include "sim/models.h"

namespace lazyfs::sim {

std::unique_ptr<Disk> make_cheetah9lp(ParameterSheet& sheet);
std::unique_ptr<Disk> make_wd5000ys(ParameterSheet& sheet);
std::unique_ptr<Disk> make_st8000as0002(ParameterSheet& sheet);
std::unique_ptr<Disk> make_st5000as0011(ParameterSheet& sheet);
std::unique_ptr<Disk> make_st4000lm016(ParameterSheet& sheet);
std::unique_ptr<Disk> make_wd40nmzw(ParameterSheet& sheet);
std::unique_ptr<Disk> make_host_managed(ParameterSheet& sheet);

// Zones for a disk of which only the outermost and the innermost track are known. All zones have
// the same number of cylinders, tracks shrink evenly, and the skew takes `switch_ms` a track.
std::vector<Zone> even_zones(std::uint32_t surfaces, std::uint64_t sectors,
                             std::uint32_t outer_track_sectors, std::uint32_t inner_track_sectors,
                             double switch_ms, double revolution_ms);

}  // namespace lazyfs::sim
