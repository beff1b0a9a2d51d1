// The Western Digital WD5000YS, a conventional disk of 500 GB for SATA.
#include "sim/conventional.h"
#include "sim/model_parameters.h"

namespace lazyfs::sim {
namespace {

constexpr const char* kWdSheet = "data sheet (WD Caviar RE2)";

}  // namespace

std::unique_ptr<Disk> make_wd5000ys(ParameterSheet& sheet) {
  ConventionalParameters disk;
  disk.surfaces = sheet.count("surfaces", 8, "", kWdSheet);
  disk.sectors = sheet.count("sectors", 976'773'168, "sectors", kWdSheet);
  disk.mechanics.revolution_ms = sheet.add("revolution", 60'000 / 7200.0, "ms", kWdSheet);
  const double track_switch = sheet.add("change to the next track", 1.0, "ms", "chosen");
  const std::uint32_t outer =
      sheet.count("outermost track", 1180, "sectors", "chosen: 65 MB/s in sequence");
  const std::uint32_t inner =
      sheet.count("innermost track", 640, "sectors", "chosen: 55 % of the outermost one");
  disk.zones = even_zones(disk.surfaces, disk.sectors, outer, inner, track_switch,
                          disk.mechanics.revolution_ms);
  const Zone& last = disk.zones.back();
  disk.mechanics.head_switch_ms = track_switch;
  disk.mechanics.write_settle_ms = sheet.add("write settle", 0.5, "ms", "chosen");
  disk.mechanics.seeks = SeekCurve::from_figures(
      last.first_cylinder + last.cylinders,
      sheet.add("seek of one cylinder", 2.0, "ms", kWdSheet),
      sheet.add("mean seek", 8.7, "ms", kWdSheet), sheet.add("full stroke", 21, "ms", "chosen"));
  disk.buffer.segments = sheet.count("buffer segments", 16, "", "chosen");
  disk.buffer.ahead_sectors = sheet.count("read-ahead", 1024, "sectors", "chosen");
  disk.write_sectors = sheet.count("write-back cache", 16'384, "sectors",
                                   "chosen: half of the 16 MiB of the data sheet");
  disk.joins_writes = sheet.count("joins writes in sequence", 1, "", "chosen") != 0;
  disk.bus_sector_ms = sheet.add("bus transfer of a sector", 512 / 300e3, "ms", "SATA 3 Gb/s");
  const double overhead = sheet.add("controller, each request", 0.1, "ms", "chosen");
  disk.read_hit = disk.read_miss = disk.write_hit = disk.write_miss = {overhead, overhead};
  return std::make_unique<ConventionalDisk>(std::move(disk));
}

}  // namespace lazyfs::sim
