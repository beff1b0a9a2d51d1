#include "fs/volume/volume_stats.h"

#include <vector>

#include "base/json.h"
#include "base/time_histogram_json.h"

namespace lazyfs::fs {
namespace {

Json metadata_json(const meta::Store& store) {
  const meta::StoreStats stats = store.stats();
  return Json::object({
      {"transactions", stats.transactions},
      {"log_bytes_written", stats.log_blocks_written * kBlockBytes},
      {"nodes_written", stats.nodes_written},
      {"nodes_cleaned", stats.nodes_cleaned},
      {"nodes_cooled", stats.nodes_cooled},
      {"bands_adopted", stats.bands_adopted},
      {"log_write_amplification", stats.log_write_amplification()},
      {"checkpoints", stats.checkpoints},
      {"log_blocks_after_checkpoint", stats.log_blocks_after_checkpoint},
      {"log_live_blocks", stats.log_live_blocks},
      {"log_total_blocks", stats.log_total_blocks},
      {"log_bands", stats.log_bands},
      {"log_free_bands", stats.log_free_bands},
      {"log_cold_bands", stats.log_cold_bands},
      {"log_cold_live_blocks", stats.log_cold_live_blocks},
      {"jmap_entries", stats.jmap_entries},
      {"jmap_bytes", stats.jmap_bytes},
      {"nodes_cached", stats.nodes_cached},
      {"nodes_dirty", stats.nodes_dirty},
      {"node_reads", stats.node_reads},
      {"plans_repeated", stats.plans_repeated},
      {"tree_height", stats.tree_height},
      {"commit_ns_max", stats.commit_ns_max},
      {"failed", store.failed()},
  });
}

Json space_json(const data::SpaceCounts& space) {
  return Json::object({
      {"total_blocks", space.total},
      {"live_blocks", space.live},
      {"dead_blocks", space.dead},
      {"unwritten_blocks", space.unwritten},
      {"reserved_blocks", space.reserved},
      {"kept_back_blocks", space.kept_back},
      {"available_blocks", space.available},
      {"free_bands", space.free_bands},
  });
}

}  // namespace

std::string VolumeStats::json(std::string_view state) const {
  const std::uint64_t user = counters_.user_blocks;
  const gc::Counters& gc = collector_.counters();
  const std::uint64_t collector = gc.blocks_moved;
  std::vector<std::uint32_t> bad;
  for (const data::BandView& band : bands_.bad_bands()) bad.push_back(band.band.value);
  Json json;
  json["state"] = state;
  json["metadata"] = metadata_json(store_);
  json["data"] = Json::object({
      {"user_blocks_written", user},
      {"collector_blocks_written", collector},
      {"write_amplification",
       user == 0 ? 1.0 : static_cast<double>(user + collector) / static_cast<double>(user)},
      {"user_blocks_since_mkfs", at_mount_.user_blocks + user},
      {"collector_blocks_since_mkfs", at_mount_.collector_blocks + collector},
      {"placement", data::name_of(appender_.policy())},
      {"inline_files_written", counters_.inline_files.load()},
      {"shared_blocks", counters_.shared_blocks.load()},
      {"copy_steps", counters_.copy_steps.load()},
      {"dirty_bytes", pages_.used() * kBlockBytes},
      {"dirty_inodes", dirty_.size()},
      {"bands_reset", gc.bands_reset.load()},
      {"bands_cleaned", gc.bands_cleaned.load()},
      {"tails_cleaned", gc.tails_cleaned.load()},
      {"bands_waited_for", gc.bands_waited_for.load()},
      {"bytes_discarded", disk_.bytes_discarded()},
      {"checksum_errors", counters_.checksum_errors.load()},
      {"read_errors", counters_.read_errors.load()},
      {"write_back_errors", counters_.write_back_errors.load()},
      {"bad_bands", bad.size()},
      {"bad_band_numbers", bad},
      {"stalls", stalls_.count()},
      {"stall_ns_p50", stalls_.percentile_ns(0.5)},
      {"stall_ns_p99", stalls_.percentile_ns(0.99)},
      {"stall_ns_p999", stalls_.percentile_ns(0.999)},
      {"stall_ns_max", stalls_.max_ns()},
      {"stall_times", to_json(stalls_)},
  });
  json["space"] = space_json(bands_.space());
  json["inodes_in_memory"] = inodes_.size();
  json["inodes_to_delete"] = orphans_.waiting().inodes;
  return json.dump();
}

}  // namespace lazyfs::fs
