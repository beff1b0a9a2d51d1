#include "fs/volume/volume_info.h"

#include <fmt/core.h>

#include <algorithm>
namespace lazyfs::fs {
namespace {

std::string uuid_text(const std::array<std::uint8_t, 16>& uuid) {
  std::string text;
  for (std::size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", uuid[i]);
  }
  return text;
}

std::string_view name_of(AccessTime choice) {
  switch (choice) {
    case AccessTime::kNone: return "noatime";
    case AccessTime::kRelative: return "relatime";
    case AccessTime::kStrict: return "strictatime";
  }
  return "";
}

std::string_view name_of(CleanChoice choice) {
  switch (choice) {
    case CleanChoice::kWhole: return "whole";
    case CleanChoice::kTail: return "tail";
    case CleanChoice::kAuto: return "auto";
    case CleanChoice::kGreedy: return "greedy";
  }
  return "";
}

std::string_view name_of_gc(const MountOptions& options) {
  if (options.gc_idle) return options.gc_space ? "idle+space" : "idle";
  return options.gc_space ? "space" : "off";
}

}  // namespace

VolumeInfo describe_volume(const meta::Superblock& superblock, const device::Geometry& geometry) {
  VolumeInfo info;
  info.uuid = superblock.volume_uuid();
  info.label = superblock.label;
  info.compat = superblock.features.compat;
  info.ro_compat = superblock.features.ro_compat;
  info.incompat = superblock.features.incompat;
  info.block_bytes = geometry.block_bytes;
  info.bands = geometry.band_count();
  info.log_bands = static_cast<std::uint32_t>(superblock.log_bands.size());
  info.largest_band_bytes = std::uint64_t{geometry.block_bytes} *
                            (geometry.band_blocks.empty() ? 0
                                                          : std::ranges::max(geometry.band_blocks));
  info.total_bytes = geometry.total_blocks() * geometry.block_bytes;
  info.created_seconds = superblock.created_seconds;
  info.last_mount_seconds = superblock.last_mount_seconds;
  info.last_check_seconds = superblock.last_check_seconds;
  info.mounts = superblock.mounts;
  info.state = superblock.ended_cleanly() ? "clean" : "not ended cleanly";
  return info;
}

std::string describe_options(const MountOptions& options) {
  std::string text = options.read_only ? "ro" : "rw";
  text += fmt::format(",{}", name_of(options.access_time));
  if (!options.directory_access_time) text += ",nodiratime";
  text += fmt::format(",commit={},cache={}M,dirty={}M,placement={},clean={},gc={}",
                      static_cast<double>(options.commit_interval.count()) / 1000,
                      options.cache_bytes >> 20, options.dirty_bytes >> 20,
                      name_of(options.placement), name_of(options.clean), name_of_gc(options));
  text += fmt::format(",gc_low={},gc_high={},gc_idle={},gc_rate={}", options.gc_low_percent,
                      options.gc_high_percent,
                      static_cast<double>(options.gc_idle_after.count()) / 1000,
                      options.gc_idle_rate);
  text += options.discard ? ",discard" : ",nodiscard";
  return text;
}

Json to_json(const VolumeInfo& info) {
  return Json::object({
      {"uuid", uuid_text(info.uuid)},
      {"label", info.label},
      {"format", meta::kSuperblockFormat},
      {"features", Json::object({{"compat", info.compat},
                                 {"ro_compat", info.ro_compat},
                                 {"incompat", info.incompat}})},
      {"block_size", info.block_bytes},
      {"bands", info.bands},
      {"largest_band_bytes", info.largest_band_bytes},
      {"bytes", info.total_bytes},
      {"log_bands", info.log_bands},
      {"state", info.state},
      {"options", info.options},
      {"created", info.created_seconds},
      {"mounted", info.last_mount_seconds},
      {"checked", info.last_check_seconds},
      {"mounts", info.mounts},
  });
}

}  // namespace lazyfs::fs
