// What lazyfsctl stats prints of the volume.
#include <nlohmann/json.hpp>

#include "fs/volume/mounted_volume.h"

namespace lazyfs::fs {

std::string MountedVolume::stats_json() {
  const meta::StoreStats meta = store_->stats();
  const data::SpaceCounts space = bands_.space();
  const std::uint64_t user = counters_.user_blocks, collector = counters_.collector_blocks;
  nlohmann::ordered_json json;
  json["state"] = shut_down_           ? "shut down"
                  : store_->failed()   ? "read-only after an error"
                  : options_.read_only ? "read-only"
                                       : "writable";
  json["metadata"] = {{"transactions", meta.transactions},
                      {"log_bytes_written", meta.log_blocks_written * kBlockBytes},
                      {"nodes_written", meta.nodes_written},
                      {"nodes_cleaned", meta.nodes_cleaned},
                      {"nodes_cooled", meta.nodes_cooled},
                      {"bands_adopted", meta.bands_adopted},
                      {"log_write_amplification", meta.log_write_amplification()},
                      {"snapshots", meta.snapshots},
                      {"log_blocks_behind_snapshot", meta.log_blocks_behind_snapshot},
                      {"log_live_blocks", meta.log_live_blocks},
                      {"log_total_blocks", meta.log_total_blocks},
                      {"log_bands", meta.log_bands},
                      {"log_free_bands", meta.log_free_bands},
                      {"log_cold_bands", meta.log_cold_bands},
                      {"log_cold_live_blocks", meta.log_cold_live_blocks},
                      {"jmap_entries", meta.jmap_entries},
                      {"jmap_bytes", meta.jmap_bytes},
                      {"nodes_cached", meta.nodes_cached},
                      {"nodes_dirty", meta.nodes_dirty},
                      {"node_reads", meta.node_reads},
                      {"tree_height", meta.tree_height},
                      {"commit_ns_max", meta.commit_ns_max},
                      {"failed", store_->failed()}};
  json["data"] = {
      {"user_blocks_written", user},
      {"collector_blocks_written", collector},
      {"write_amplification",
       user == 0 ? 1.0 : static_cast<double>(user + collector) / static_cast<double>(user)},
      {"placement", data::name_of(appender_.policy())},
      {"inline_files_written", counters_.inline_files.load()},
      {"shared_blocks", counters_.shared_blocks.load()},
      {"copy_steps", counters_.copy_steps.load()},
      {"dirty_bytes", pages_.used() * kBlockBytes},
      {"dirty_inodes", dirty_.size()},
      {"bands_reset", counters_.bands_reset.load()},
      {"bands_cleaned", counters_.bands_cleaned.load()},
      {"tails_cleaned", counters_.tails_cleaned.load()},
      {"bands_waited_for", collector_.bands_waited_for()},
      {"checksum_errors", counters_.checksum_errors.load()},
      {"read_errors", counters_.read_errors.load()},
      {"write_back_errors", counters_.write_back_errors.load()},
      {"bad_bands", bands_.bad_bands().size()},
      {"stalls", counters_.stalls.count()},
      {"stall_ns_p50", counters_.stalls.percentile_ns(0.5)},
      {"stall_ns_p99", counters_.stalls.percentile_ns(0.99)},
      {"stall_ns_p999", counters_.stalls.percentile_ns(0.999)},
      {"stall_ns_max", counters_.stalls.max_ns()}};
  json["space"] = {{"total_blocks", space.total},         {"live_blocks", space.live},
                   {"dead_blocks", space.dead},           {"unwritten_blocks", space.unwritten},
                   {"reserved_blocks", space.reserved},   {"kept_back_blocks", space.kept_back},
                   {"available_blocks", space.available}, {"free_bands", space.free_bands}};
  json["inodes_in_memory"] = inodes_.size();
  json["inodes_to_delete"] = reaper_.waiting();
  return json.dump();
}

}  // namespace lazyfs::fs
