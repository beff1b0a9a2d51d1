#include "tools/stats_page.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/size.h"
#include "base/types.h"
#include "tools/words.h"

namespace lazyfs {
namespace {

// One group of the statistics. A figure that an older daemon does not have is 0.
class Group {
 public:
  Group(const Json& stats, std::string_view name)
      : json_(stats.contains(name) ? stats[name] : Json::object()) {}
  std::uint64_t operator[](std::string_view key) const {
    return json_.contains(key) ? json_[key].number() : 0;
  }
  std::string size(std::string_view key) const { return size_text((*this)[key]); }
  std::string blocks(std::string_view key) const { return size_text((*this)[key] * kBlockBytes); }
  std::string time(std::string_view key) const { return time_text((*this)[key]); }
  std::string count(std::string_view key, const char* noun) const {
    return count_text((*this)[key], noun);
  }

 private:
  const Json json_;
};

void add_line(std::string& page, const char* name, const std::string& text) {
  if (!text.empty()) page += text_of("%-14s %s\n", name, printable(text).c_str());
}

double amplification(std::uint64_t user, std::uint64_t collector) {
  return user == 0 ? 1.0 : static_cast<double>(user + collector) / static_cast<double>(user);
}

void add_head(std::string& page, const MountFigures& mount, double uptime) {
  add_line(page, "Mounted on", mount.mount_point);
  add_line(page, "Device", mount.device);
  add_line(page, "Label", text_in(mount.info, "label"));
  add_line(page, "UUID", text_in(mount.info, "uuid"));
  add_line(page, "State", text_in(mount.stats, "state") + ", up " + duration_text(uptime));
  add_line(page, "Options", text_in(mount.info, "options"));
}

void add_space(std::string& page, const Json& stats) {
  const Group space(stats, "space"), data(stats, "data");
  add_line(page, "Space", space.blocks("live_blocks") + " live, " + space.blocks("dead_blocks") +
                              " dead, " + space.blocks("available_blocks") + " available of " +
                              space.blocks("total_blocks"));
  add_line(page, "", space.count("free_bands", "free band") +
                         (data["bad_bands"] > 0 ? ", " + data.count("bad_bands", "band") +
                                                      " set aside"
                                                : ""));
}

void add_data(std::string& page, const Json& stats, double uptime) {
  const Group files(stats, "files"), data(stats, "data");
  const auto rate = [&](std::uint64_t bytes) {
    return " (" + rate_text(static_cast<double>(bytes), uptime) + ")";
  };
  add_line(page, "Programs", files.size("bytes_written") + " written" +
                                 rate(files["bytes_written"]) + ", " + files.size("bytes_read") +
                                 " read" + rate(files["bytes_read"]));
  add_line(page, "Data on disk", data.blocks("user_blocks_written") + " appended for users, " +
                                     data.blocks("collector_blocks_written") +
                                     " moved by the collector");
  add_line(page, "Amplification",
           text_of("%.2f since the mount, %.2f since mkfs",
                   amplification(data["user_blocks_written"], data["collector_blocks_written"]),
                   amplification(data["user_blocks_since_mkfs"],
                                 data["collector_blocks_since_mkfs"])));
  add_line(page, "Dirty", data.size("dirty_bytes") + " in " +
                              data.count("dirty_inodes", "file") + " to be written");
  add_line(page, "Cleaning", data.count("bands_cleaned", "band") + " and " +
                                 data.count("tails_cleaned", "tail") + " cleaned, " +
                                 data.count("bands_reset", "band") + " reset, " +
                                 data.size("bytes_discarded") + " discarded");
  add_line(page, "Stalls", data.count("stalls", "time") + " that writers waited" +
                               (data["stalls"] == 0
                                    ? ""
                                    : ": p50 " + data.time("stall_ns_p50") + ", p99 " +
                                          data.time("stall_ns_p99") + ", longest " +
                                          data.time("stall_ns_max")));
  add_line(page, "Errors", data.count("checksum_errors", "bad checksum") + ", " +
                               data.count("read_errors", "failed read") + ", " +
                               data.count("write_back_errors", "failed write-back"));
}

void add_metadata(std::string& page, const Json& stats) {
  const Group log(stats, "metadata");
  add_line(page, "Metadata", log.count("transactions", "transaction") + ", longest commit " +
                                 log.time("commit_ns_max") + ", " +
                                 log.size("log_bytes_written") + " appended to the log");
  add_line(page, "Log", log.blocks("log_live_blocks") + " live of " +
                            log.blocks("log_total_blocks") + ", " +
                            log.count("log_free_bands", "free band") + " of " +
                            log.count("log_bands", "band") + ", " +
                            log.count("nodes_cleaned", "node") + " cleaned");
  add_line(page, "Memory", log.count("nodes_cached", "node") + " cached, " +
                               log.count("nodes_dirty", "node") + " dirty, map of " +
                               log.count("jmap_entries", "node") + " in " +
                               log.size("jmap_bytes"));
}

void add_requests(std::string& page, const Json& stats, double uptime) {
  if (!stats.contains("operation_times")) return;
  std::vector<std::pair<std::string, const Json*>> kinds;
  for (const auto& [name, times] : stats["operation_times"].members()) {
    kinds.emplace_back(name, &times);
  }
  std::ranges::sort(kinds, std::greater<>(), [](const auto& kind) {
    return std::pair((*kind.second)["count"].number(), kind.first);
  });
  page += text_of("\n%-16s%12s%12s%12s%12s%12s\n", "Requests", "count", "per second", "p50", "p99",
                  "longest");
  for (const auto& [name, times] : kinds) {
    const double count = (*times)["count"].real();
    page += text_of("%-16s%12.0f%12.1f%12s%12s%12s\n", name.c_str(), count,
                    uptime > 0 ? count / uptime : 0,
                    time_text((*times)["p50_ns"].number()).c_str(),
                    time_text((*times)["p99_ns"].number()).c_str(),
                    time_text((*times)["max_ns"].number()).c_str());
  }
}

}  // namespace

std::string stats_page(const MountFigures& mount) {
  const Json& stats = mount.stats;
  const double uptime = stats.contains("uptime_seconds") ? stats["uptime_seconds"].real() : 0;
  std::string page;
  add_head(page, mount, uptime);
  page += "\n";
  add_space(page, stats);
  add_data(page, stats, uptime);
  add_metadata(page, stats);
  add_requests(page, stats, uptime);
  return page;
}

}  // namespace lazyfs
