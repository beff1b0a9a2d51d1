#include "tools/metrics.h"

#include <array>
#include <charconv>
#include <cstdint>
#include <string_view>

#include "base/types.h"

namespace lazyfs {
namespace {

constexpr double kSeconds = 1e-9;  // in a nanosecond
constexpr double kBytes = kBlockBytes;

struct Metric {
  std::string_view group, key, name, type, help;
  double unit = 1;
};

constexpr Metric kMetrics[] = {
    {"", "uptime_seconds", "uptime_seconds", "gauge", "Time since the mount."},
    {"", "inodes_in_memory", "inodes_in_memory", "gauge", "Inodes that are in memory."},
    {"", "inodes_to_delete", "inodes_to_delete", "gauge", "Inodes without a name to be freed."},
    {"files", "bytes_read", "read_bytes_total", "counter", "Bytes of files that were read."},
    {"files", "bytes_written", "written_bytes_total", "counter",
     "Bytes of files that were written."},
    {"data", "user_blocks_written", "data_appended_bytes_total", "counter",
     "File data appended to bands for users.", kBytes},
    {"data", "collector_blocks_written", "collector_moved_bytes_total", "counter",
     "File data that the garbage collector has moved.", kBytes},
    {"data", "user_blocks_since_mkfs", "data_appended_since_mkfs_bytes_total", "counter",
     "File data appended to bands for users since the filesystem was made.", kBytes},
    {"data", "collector_blocks_since_mkfs", "collector_moved_since_mkfs_bytes_total", "counter",
     "File data that the garbage collector has moved since the filesystem was made.", kBytes},
    {"data", "dirty_bytes", "dirty_bytes", "gauge", "File data that waits to be written."},
    {"data", "dirty_inodes", "dirty_inodes", "gauge", "Inodes that wait to be written back."},
    {"data", "bands_reset", "bands_reset_total", "counter", "Bands emptied and reset."},
    {"data", "bands_cleaned", "bands_cleaned_total", "counter", "Bands cleaned as a whole."},
    {"data", "tails_cleaned", "tails_cleaned_total", "counter", "Bands whose end was cut off."},
    {"data", "bands_waited_for", "bands_waited_for_total", "counter",
     "Bands cleaned while a writer without room waited."},
    {"data", "bytes_discarded", "discarded_bytes_total", "counter", "Bytes discarded."},
    {"data", "shared_blocks", "shared_bytes_total", "counter",
     "Data that copies share instead of being written.", kBytes},
    {"data", "checksum_errors", "checksum_errors_total", "counter",
     "Reads of data that did not match its checksum."},
    {"data", "read_errors", "read_errors_total", "counter", "Reads of data that the disk failed."},
    {"data", "write_back_errors", "write_back_errors_total", "counter",
     "Failed attempts to write a file back."},
    {"data", "bad_bands", "bad_bands", "gauge", "Bands that are set aside."},
    {"space", "total_blocks", "size_bytes", "gauge", "Size of the bands for data.", kBytes},
    {"space", "live_blocks", "live_bytes", "gauge", "Data that files refer to.", kBytes},
    {"space", "dead_blocks", "dead_bytes", "gauge", "Written data that no file refers to.",
     kBytes},
    {"space", "available_blocks", "available_bytes", "gauge",
     "Space that statfs(2) reports as available.", kBytes},
    {"space", "reserved_blocks", "reserved_bytes", "gauge",
     "Space of accepted writes that are not written back.", kBytes},
    {"space", "free_bands", "free_bands", "gauge", "Bands in which nothing is written."},
    {"metadata", "transactions", "transactions_total", "counter", "Transactions committed."},
    {"metadata", "log_bytes_written", "log_appended_bytes_total", "counter",
     "Bytes appended to the metadata log."},
    {"metadata", "nodes_written", "nodes_written_total", "counter",
     "Nodes of the tree appended to the log."},
    {"metadata", "nodes_cleaned", "nodes_cleaned_total", "counter",
     "Unchanged nodes that the log's cleaner has moved."},
    {"metadata", "node_reads", "nodes_read_total", "counter", "Nodes read from the disk."},
    {"metadata", "nodes_cached", "nodes_cached", "gauge", "Nodes in memory."},
    {"metadata", "nodes_dirty", "nodes_dirty", "gauge", "Changed nodes that are not written."},
    {"metadata", "checkpoints", "checkpoints_total", "counter", "Checkpoints written."},
    {"metadata", "log_live_blocks", "log_live_bytes", "gauge",
     "Newest images of nodes in the metadata log.", kBytes},
    {"metadata", "log_total_blocks", "log_size_bytes", "gauge", "Size of the metadata log.",
     kBytes},
    {"metadata", "log_free_bands", "log_free_bands", "gauge", "Empty bands of the metadata log."},
    {"metadata", "jmap_bytes", "jmap_bytes", "gauge", "Memory of the map of nodes."},
    {"metadata", "commit_ns_max", "longest_commit_seconds", "gauge", "The longest commit.",
     kSeconds},
    {"transport", "threads", "threads", "gauge", "Threads that serve requests."},
};

std::string number_text(double value) {
  std::array<char, 40> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), end.ptr};
}

// Of a value of a label. Bytes that are not UTF-8 are replaced: Prometheus refuses them.
std::string escaped(std::string_view text) {
  const auto valid = Json::parse(Json(text).dump());
  std::string to;
  for (const char c : valid->text()) {
    if (c == '\\' || c == '"') to += '\\';
    if (c == '\n') {
      to += "\\n";
    } else {
      to += c;
    }
  }
  return to;
}

const Json* find(const Json& stats, std::string_view group, std::string_view key) {
  if (!group.empty() && !stats.contains(group)) return nullptr;
  const Json& in = group.empty() ? stats : stats[group];
  return in.is_object() && in.contains(key) ? &in[key] : nullptr;
}

class Page {
 public:
  explicit Page(const std::string& mount_point)
      : mount_point_("mountpoint=\"" + escaped(mount_point) + "\"") {}

  void begin(std::string_view name, std::string_view type, std::string_view help) {
    text_ += "# HELP lazyfs_" + std::string(name) + " " + std::string(help) + "\n";
    text_ += "# TYPE lazyfs_" + std::string(name) + " " + std::string(type) + "\n";
  }
  // `labels`: further ones, as `a="b"`.
  void add(std::string_view name, double value, const std::string& labels = "") {
    text_ += "lazyfs_" + std::string(name) + "{" + mount_point_ + (labels.empty() ? "" : ",") +
             labels + "} " + number_text(value) + "\n";
  }
  void add_histogram(const std::string& name, const Json& times, const std::string& labels = "") {
    const std::string more = labels.empty() ? "" : labels + ",";
    for (const auto& [below, count] : times["below_ns"].members()) {
      std::uint64_t ns = 0;
      std::from_chars(below.data(), below.data() + below.size(), ns);
      const std::string limit = number_text(static_cast<double>(ns) * kSeconds);
      add(name + "_bucket", count.real(), more + "le=\"" + limit + "\"");
    }
    add(name + "_bucket", times["count"].real(), more + "le=\"+Inf\"");
    add(name + "_sum", times["sum_ns"].real() * kSeconds, labels);
    add(name + "_count", times["count"].real(), labels);
  }
  const std::string& text() const { return text_; }

 private:
  const std::string mount_point_;
  std::string text_;
};

void add_volume(Page& page, const MountFigures& mount) {
  const auto label = [&](const char* name, const std::string& value) {
    return std::string(name) + "=\"" + escaped(value) + "\"";
  };
  page.begin("info", "gauge", "What is mounted; the value is always 1.");
  page.add("info", 1,
           label("device", mount.device) + "," +
               label("label", text_in(mount.info, "label")) + "," +
               label("uuid", text_in(mount.info, "uuid")) + "," +
               label("options", text_in(mount.info, "options")));
  page.begin("state", "gauge", "1 for the state that the mount is in.");
  for (const char* state : {"writable", "read-only", "read-only after an error", "shut down"}) {
    page.add("state", text_in(mount.stats, "state") == state ? 1 : 0, label("state", state));
  }
}

void add_requests(Page& page, const Json& stats) {
  page.begin("requests_total", "counter", "Requests of the kernel by kind.");
  for (const auto& [name, count] : stats["operations"].members()) {
    page.add("requests_total", count.real(), "operation=\"" + name + "\"");
  }
  if (stats.contains("operation_times")) {
    page.begin("request_duration_seconds", "histogram",
               "Time that requests took in the daemon, of kinds that have occurred.");
    for (const auto& [name, times] : stats["operation_times"].members()) {
      page.add_histogram("request_duration_seconds", times, "operation=\"" + name + "\"");
    }
  }
  if (const Json* const stalls = find(stats, "data", "stall_times")) {
    page.begin("writer_stall_seconds", "histogram",
               "Time that writers waited for memory or space.");
    page.add_histogram("writer_stall_seconds", *stalls);
  }
}

}  // namespace

std::string text_in(const Json& object, std::string_view name) {
  return object.contains(name) ? object[name].text() : "";
}

std::string metrics_text(const MountFigures& mount) {
  Page page(mount.mount_point);
  add_volume(page, mount);
  for (const Metric& metric : kMetrics) {
    const Json* const value = find(mount.stats, metric.group, metric.key);
    if (!value) continue;
    page.begin(metric.name, metric.type, metric.help);
    page.add(metric.name, value->real() * metric.unit);
  }
  if (mount.stats.contains("operations")) add_requests(page, mount.stats);
  return page.text();
}

}  // namespace lazyfs
