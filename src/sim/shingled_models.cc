// The shingled disks of the catalogue.
#include <utility>

#include "sim/host_managed.h"
#include "sim/managed.h"
#include "sim/model_parameters.h"

namespace lazyfs::sim {
namespace {

constexpr std::uint64_t kSectorsPerMebibyte = 2048;

constexpr const char* kLazy = "ext4-lazy (Aghayev et al., FAST 2017), sections 2.1 and 4.3";
constexpr const char* kSac = "random 4-KiB writes on the real drive, github.com/cds-ruc/sac";
constexpr const char* kAicodix = "synced writes on the real drive, github.com/aicodix/smr";
constexpr const char* kSheet = "data sheet";

// The parameters that differ from drive to drive.
struct Drive {
  std::uint64_t sectors;
  std::uint32_t surfaces;
  double rpm, outer_track_mib, inner_track_mib;
  double single_ms, mean_ms, full_ms;
  double cache_gib;
  const char* platters_origin;  // of surfaces and revolutions
  const char* tracks_origin;
  const char* seeks_origin;
  const char* cache_origin;
};

constexpr Drive kSt8000as0002{
    .sectors = 15'628'053'168, .surfaces = 12, .rpm = 5980, .outer_track_mib = 2.0,
    .inner_track_mib = 0.9, .single_ms = 1.0, .mean_ms = 12.0, .full_ms = 22.0,
    .cache_gib = 35.5,
    .platters_origin = "published: six platters, 5,980 rpm",
    .tracks_origin = "derived: a sequence outside at 187 to 201 MiB/s (aicodix), bands of 15 to 40 "
                     "MiB (ext4-lazy); half of the outer rate inside is an assumption",
    .seeks_origin = "assumption: usual for such drives",
    .cache_origin = "derived: the knees of the synced writes (aicodix) at s / (s + 1.09) of it; "
                    "agrees with ext4-lazy's 140 MiB/s for 250 s"};

constexpr Drive kSt5000as0011{
    .sectors = 9'767'541'168, .surfaces = 8, .rpm = 5980, .outer_track_mib = 2.0,
    .inner_track_mib = 0.9, .single_ms = 1.0, .mean_ms = 12.0, .full_ms = 22.0,
    .cache_gib = 22.2,
    .platters_origin = "chosen: as the ST8000AS0002, with four platters",
    .tracks_origin = "chosen: as the ST8000AS0002",
    .seeks_origin = "assumption: usual for such drives",
    .cache_origin = "chosen: as the ST8000AS0002, in proportion to the capacity"};

constexpr Drive kSt4000lm016{
    .sectors = 7'814'037'168, .surfaces = 10, .rpm = 5400, .outer_track_mib = 1.45,
    .inner_track_mib = 0.7, .single_ms = 1.0, .mean_ms = 12.0, .full_ms = 24.0,
    .cache_gib = 20,
    .platters_origin = "data sheet: 5,400 rpm, five platters",
    .tracks_origin = "chosen: 120 MiB/s outside, about as its data sheet has; half of it inside",
    .seeks_origin = "assumption: usual for such drives",
    .cache_origin = "chosen: as the ST5000AS0011"};

constexpr Drive kWd40nmzw{
    .sectors = 7'813'971'633, .surfaces = 8, .rpm = 5400, .outer_track_mib = 1.3,
    .inner_track_mib = 0.6, .single_ms = 1.0, .mean_ms = 12.0, .full_ms = 24.0,
    .cache_gib = 20,
    .platters_origin = "chosen: usual for external drives of 2.5 inch",
    .tracks_origin = "chosen: 110 MiB/s outside, half of it inside",
    .seeks_origin = "assumption: usual for such drives",
    .cache_origin = "chosen: as the ST5000AS0011"};

void set_mechanics(ManagedParameters& disk, const Drive& drive, ParameterSheet& sheet) {
  disk.sectors = drive.sectors;
  sheet.add("sectors", static_cast<double>(drive.sectors), "sectors", kSheet);
  disk.surfaces = sheet.count("surfaces", drive.surfaces, "", drive.platters_origin);
  disk.mechanics.revolution_ms =
      sheet.add("revolution", 60'000 / drive.rpm, "ms", drive.platters_origin);
  disk.cache_sectors = static_cast<std::uint64_t>(
      sheet.add("persistent cache", drive.cache_gib / sheet.cache_divisor(), "GiB",
                drive.cache_origin) * 1024 * kSectorsPerMebibyte);
  const double outer =
      sheet.add("outermost track", drive.outer_track_mib, "MiB", drive.tracks_origin);
  const double inner =
      sheet.add("innermost track", drive.inner_track_mib, "MiB", drive.tracks_origin);
  const double track_switch =
      sheet.add("change to the next track", 0.5, "ms",
                "derived: 190 MiB/s of a sequential write on tracks of 2 MiB (ST8000AS0002)");
  disk.zones = even_zones(drive.surfaces, drive.sectors + disk.cache_sectors,
                          static_cast<std::uint32_t>(outer * kSectorsPerMebibyte),
                          static_cast<std::uint32_t>(inner * kSectorsPerMebibyte), track_switch,
                          disk.mechanics.revolution_ms);
  const Zone& last = disk.zones.back();
  disk.mechanics.seeks = SeekCurve::from_figures(
      last.first_cylinder + last.cylinders,
      sheet.add("seek of one track", drive.single_ms, "ms", drive.seeks_origin),
      sheet.add("mean seek", drive.mean_ms, "ms", drive.seeks_origin),
      sheet.add("full stroke", drive.full_ms, "ms", drive.seeks_origin));
  disk.mechanics.head_switch_ms = track_switch;
  disk.mechanics.write_settle_ms = sheet.add("write settle", 0.5, "ms", "chosen");
  disk.buffer.segments = sheet.count("read-ahead streams", 8, "", "chosen");
  disk.buffer.ahead_sectors = sheet.count("read-ahead", 4096, "sectors", "chosen: a track");
  disk.bus_sector_ms = sheet.add("bus transfer of a sector", 512 / 550e3, "ms", "SATA 6 Gb/s");
}

void set_bands(ManagedParameters& disk, ParameterSheet& sheet) {
  disk.band_tracks =
      sheet.count("band", 19, "tracks",
                  "derived: bands of 15 to 40 MiB, more than 260,000 of them (ext4-lazy)");
  disk.stream_bytes = static_cast<std::uint64_t>(
      sheet.add("least stream", 8, "MiB", kLazy) * kMebibyte);
  disk.map_extents = sheet.count("map of the cache", 180'000 / sheet.cache_divisor(), "extents",
                                 "derived: the knees of five ranges at 176 to 184 thousand "
                                 "distinct blocks (sac)");
}

void set_writes(ManagedParameters& disk, ParameterSheet& sheet) {
  disk.command_ms = sheet.add("write into memory", 0.104, "ms", kSac);
  disk.slow_command_ms = sheet.add("slow write into memory", 0.147, "ms", kSac);
  disk.slow_each = sheet.count("writes for each slow one", 8, "", "derived: the p90 (sac)");
  disk.batch_writes = sheet.count("writes in a batch", 64, "",
                                  "derived: 1 in 64 waits 13.2 ms, mean 0.30 ms (sac)");
  disk.batch_bytes = static_cast<std::uint64_t>(
      sheet.add("bytes in a batch", 8, "MiB",
                "derived: 140 MiB/s into the cache (ext4-lazy, figure 12)") * kMebibyte);
  disk.batch_ms = sheet.add("batch, besides its transfer", 11.8, "ms",
                            "derived: a revolution and a short seek; 13.2 ms in all (sac)");
  disk.synced_transfers = sheet.add("transfers of a synced write past its first 1.09 MiB", 2.2, "",
                                    "derived: the rates of synced writes of 8 MiB to 1 GiB "
                                    "(aicodix)");
  disk.flush_waste_sectors = static_cast<std::uint64_t>(
      sheet.add("space lost by a flush", 1.09, "MiB",
                "derived: the knees of the synced writes (aicodix)") * kSectorsPerMebibyte);
  disk.map_write_flushes =
      sheet.count("flushes for each map write-out", 240, "", kAicodix);
  disk.map_write_ms = sheet.add("map write-out", 1000, "ms", kAicodix);
}

void set_cleaning(ManagedParameters& disk, const Drive& drive, ParameterSheet& sheet) {
  disk.cleaning_time = CleaningTime::kIdle;
  disk.idle_ms = sheet.add("idle time before cleaning", 1000, "ms", "chosen");
  disk.slice_ms = sheet.add("slice of cleaning", 100, "ms", "the p90 of the 128-GiB range (sac)");
  disk.long_slice_ms =
      sheet.add("longer slice of cleaning", 130, "ms",
                "between the p99 of the 128-GiB range and the p90 of 4 TiB (sac)");
  disk.long_slice_each = sheet.count("slices for each longer one", 4, "", "chosen");
  CleaningParameters& cleaning = disk.cleaning;
  cleaning.is_static = true;
  sheet.add("mapping is static", 1, "", kLazy);
  cleaning.position_ms =
      sheet.add("positioning of a cleaning step",
                drive.mean_ms + disk.mechanics.revolution_ms / 2, "ms",
                "derived: mean seek and half a revolution");
  cleaning.extent_ms = sheet.add("read a cached extent, sorted", 4.2, "ms",
                                 "derived: slopes of the 128-GiB and 512-GiB ranges (sac)");
  cleaning.sorted_extents = sheet.count("extents that are sorted", 256, "", "chosen");
  cleaning.further_extent_ms =
      sheet.add("read a cached extent, beyond these", 8.3, "ms",
                "derived: slope of the 8-GiB range (sac): half a revolution and a short seek");
  cleaning.scan_ms = sheet.add("read the whole cache for a band",
                               44'000.0 / sheet.cache_divisor(), "ms",
                               "derived: a band takes at most 45 s (ext4-lazy)");
}

ManagedParameters like_st8000as0002(const Drive& drive, ParameterSheet& sheet) {
  ManagedParameters disk;
  set_mechanics(disk, drive, sheet);
  set_bands(disk, sheet);
  set_writes(disk, sheet);
  set_cleaning(disk, drive, sheet);
  return disk;
}

}  // namespace

std::unique_ptr<Disk> make_st8000as0002(ParameterSheet& sheet) {
  return std::make_unique<ManagedDisk>(like_st8000as0002(kSt8000as0002, sheet));
}

std::unique_ptr<Disk> make_st5000as0011(ParameterSheet& sheet) {
  return std::make_unique<ManagedDisk>(like_st8000as0002(kSt5000as0011, sheet));
}

std::unique_ptr<Disk> make_st4000lm016(ParameterSheet& sheet) {
  return std::make_unique<ManagedDisk>(like_st8000as0002(kSt4000lm016, sheet));
}

std::unique_ptr<Disk> make_wd40nmzw(ParameterSheet& sheet) {
  ManagedParameters disk = like_st8000as0002(kWd40nmzw, sheet);
  disk.cleaning.is_static = false;
  sheet.add("mapping is static", 0, "", "ext4-lazy, section 2.1: dynamic mapping, cleans always");
  disk.cleaning.extent_ms = disk.cleaning.further_extent_ms =
      sheet.add("read a cached extent, sorted", 1.0, "ms",
                "chosen: faster than Seagate's once these are full (ext4-lazy, figure 1)");
  sheet.add("read a cached extent, beyond these", 1.0, "ms", "chosen: as those that are sorted");
  disk.cleaning_time = CleaningTime::kAlways;
  disk.always_share = sheet.add("cleaning for each batch, of its time", 4, "",
                                "chosen: slower than Seagate's at first (ext4-lazy, figure 1)");
  return std::make_unique<ManagedDisk>(std::move(disk));
}

std::unique_ptr<Disk> make_host_managed(ParameterSheet& sheet) {
  ManagedParameters managed;
  set_mechanics(managed, kSt8000as0002, sheet);
  sheet.add("persistent cache", 0, "GiB", "none");
  HostManagedParameters disk;
  static_cast<PlatterParameters&>(disk) = managed;
  disk.command_ms = sheet.add("controller, each request", 0.104, "ms",
                              "chosen: as the ST8000AS0002");
  disk.zone_sectors = static_cast<std::uint64_t>(
      sheet.add("zone", 256, "MiB", "usual for host-managed disks") * kSectorsPerMebibyte);
  return std::make_unique<HostManagedDisk>(std::move(disk));
}

}  // namespace lazyfs::sim
