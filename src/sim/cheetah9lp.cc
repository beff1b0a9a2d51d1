// The Seagate Cheetah 9LP (ST39102LW), a conventional disk of 9.1 GB for SCSI.
#include <algorithm>

#include "sim/conventional.h"
#include "sim/model_parameters.h"

namespace lazyfs::sim {
namespace {

constexpr const char* kDiskSim = "DiskSim 4's parameters of the ST39102LW (BSD-3-Clause), measured";
constexpr std::uint32_t kSurfaces = 12;

// Measured, so the times do not rise everywhere.
SeekCurve cheetah_seeks() {
  return SeekCurve({
      {1, 0.831}, {2, 1.003}, {3, 1.089}, {4, 1.092}, {5, 1.268}, {6, 1.263}, {7, 1.271},
      {8, 1.439}, {9, 1.433}, {10, 1.448}, {12, 1.449}, {14, 1.447}, {16, 1.453}, {18, 1.533},
      {20, 1.534}, {25, 1.625}, {30, 1.624}, {35, 1.712}, {40, 1.715}, {45, 1.765}, {50, 1.804},
      {60, 1.893}, {70, 1.945}, {80, 1.983}, {90, 2.072}, {100, 2.145}, {125, 2.161}, {150, 2.259},
      {175, 2.51}, {200, 2.517}, {225, 2.519}, {250, 2.607}, {275, 2.701}, {300, 2.699},
      {325, 2.841}, {350, 2.874}, {375, 2.962}, {400, 3.051}, {425, 3.014}, {450, 3.104},
      {475, 3.098}, {500, 3.23}, {600, 3.399}, {700, 3.638}, {800, 3.823}, {900, 3.995},
      {1000, 4.118}, {1100, 4.271}, {1200, 4.397}, {1300, 4.427}, {1400, 4.573}, {1500, 4.757},
      {1600, 4.833}, {1700, 4.93}, {1800, 4.993}, {1900, 5.19}, {2000, 5.282}, {2100, 5.428},
      {2200, 5.541}, {2300, 5.624}, {2400, 5.726}, {2500, 5.815}, {2600, 5.963}, {2700, 6.082},
      {2800, 6.163}, {2900, 6.245}, {3000, 6.345}, {3100, 6.423}, {3200, 6.665}, {3300, 6.737},
      {3400, 6.847}, {3500, 6.887}, {3600, 6.977}, {3700, 7.068}, {3800, 7.164}, {3900, 7.328},
      {4000, 7.419}, {4100, 7.507}, {4200, 7.649}, {4300, 7.691}, {4400, 7.831}, {4500, 7.959},
      {4600, 8.087}, {4700, 8.135}, {4800, 8.223}, {4900, 8.311}, {5000, 8.492}, {5100, 8.626},
      {5200, 8.659}, {5300, 8.805}, {5400, 8.987}, {5500, 8.962}, {5600, 9.106}, {5700, 9.201},
      {5800, 9.296}, {5900, 9.524}, {6000, 9.698}, {6100, 9.702}, {6200, 9.83}, {6300, 9.878},
      {6400, 10.009}, {6500, 10.147}, {6600, 10.23}, {6700, 10.363}, {6800, 10.54}, {6894, 10.627}
  });
}

std::vector<Zone> cheetah_zones() {
  struct Row {
    std::uint32_t first, last, track_sectors, track_skew, cylinder_skew, spares;
  };
  constexpr Row kRows[] = {
      {0, 846, 254, 97, 133, 1270},    {848, 1643, 245, 97, 133, 980},
      {1645, 2392, 238, 97, 117, 952}, {2394, 3096, 227, 97, 116, 908},
      {3098, 3757, 217, 97, 108, 651}, {3759, 4379, 209, 97, 108, 627},
      {4381, 4964, 201, 97, 108, 402}, {4966, 5515, 189, 88, 94, 2268},
      {5516, 6031, 181, 88, 93, 1991}, {6032, 6517, 174, 88, 93, 1914},
      {6518, 6961, 167, 88, 80, 218}};
  std::vector<Zone> zones;
  for (const Row& row : kRows) {
    zones.push_back({row.first, row.last - row.first + 1, row.track_sectors, row.track_skew,
                     row.cylinder_skew, row.spares});
  }
  return zones;
}

void set_overheads(ConventionalParameters& disk, ParameterSheet& sheet) {
  disk.bus_sector_ms = sheet.add("bus transfer of a sector", 0.105, "ms", kDiskSim);
  disk.read_hit = {sheet.add("read hit after a read", 0.066, "ms", kDiskSim),
                   sheet.add("read hit after a write", 0.273, "ms", kDiskSim)};
  disk.read_miss = {sheet.add("read miss after a read", 0.28362, "ms", kDiskSim),
                    sheet.add("read miss after a write", 0.08673, "ms", kDiskSim)};
  disk.write_hit = {sheet.add("write hit after a read", 0.748, "ms", kDiskSim),
                    sheet.add("write hit after a write", 0.500, "ms", kDiskSim)};
  disk.write_miss = {sheet.add("write miss after a read", 0.90692, "ms", kDiskSim),
                     sheet.add("write miss after a write", 0.8964, "ms", kDiskSim)};
  disk.skip_ms = sheet.add("read hit that skips sectors, more", 0.181, "ms",
                           "derived from DiskSim's validation trace: hits of 4 sectors take 0.487 "
                           "ms in sequence and 0.668 ms otherwise");
}

}  // namespace

std::unique_ptr<Disk> make_cheetah9lp(ParameterSheet& sheet) {
  ConventionalParameters disk;
  disk.surfaces = sheet.count("surfaces", kSurfaces, "", kDiskSim);
  disk.zones = cheetah_zones();
  sheet.count("zones", static_cast<std::uint32_t>(disk.zones.size()), "", kDiskSim);
  disk.sectors = sheet.count("sectors", 17'783'240, "sectors", kDiskSim);
  disk.mechanics.revolution_ms = sheet.add("revolution", 60'000 / 10'045.0, "ms", kDiskSim);
  disk.mechanics.head_switch_ms = sheet.add("head switch", 0.030, "ms", kDiskSim);
  disk.mechanics.write_settle_ms = sheet.add("write settle", 0.461, "ms", kDiskSim);
  disk.mechanics.least_read_ms =
      sheet.add("least positioning for a read", 0.45, "ms",
                "derived from DiskSim's validation trace: reads that begin shortly before the end "
                "of the last one take 0.45 ms more than rotation and overhead");
  disk.mechanics.seeks = cheetah_seeks();
  sheet.add("seek of one cylinder", disk.mechanics.seeks.time_ms(1), "ms", kDiskSim);
  sheet.add("mean seek", disk.mechanics.seeks.mean_ms(6962), "ms",
            "from DiskSim's curve of 106 points, all pairs of cylinders");
  sheet.add("full stroke", disk.mechanics.seeks.time_ms(6961), "ms", kDiskSim);
  disk.buffer.segments = sheet.count("buffer segments", 3, "", kDiskSim);
  disk.buffer.ahead_sectors = sheet.count("read-ahead", 561, "sectors", kDiskSim);
  disk.write_sectors = sheet.count("write-back cache", 3 * 561, "sectors",
                                   "DiskSim: writes may take all segments");
  disk.joins_writes = sheet.count("joins writes in sequence", 0, "",
                                  "derived: HotOS 2005, figure 4: writes in sequence are about as "
                                  "slow as random ones") != 0;
  set_overheads(disk, sheet);
  return std::make_unique<ConventionalDisk>(std::move(disk));
}

}  // namespace lazyfs::sim
