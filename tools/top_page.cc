#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>

#include "base/size.h"
#include "base/types.h"
#include "tools/top_command.h"
#include "tools/words.h"

namespace lazyfs {
namespace {

constexpr unsigned kBarCells = 30;

// A figure at two moments; 0 where the daemon does not have it.
class Figures {
 public:
  Figures(const Json& before, const Json& now) : before_(before), now_(now) {}
  double now(std::string_view group, std::string_view key) const { return of(now_, group, key); }
  double change(std::string_view group, std::string_view key) const {
    return std::max(0.0, of(now_, group, key) - of(before_, group, key));
  }
  double seconds() const { return change("", "uptime_seconds"); }
  std::string rate(std::string_view group, std::string_view key, double unit = 1) const {
    return rate_text(change(group, key) * unit, seconds());
  }
  std::string size(std::string_view group, std::string_view key, double unit = 1) const {
    return size_text(static_cast<std::uint64_t>(now(group, key) * unit));
  }

 private:
  static double of(const Json& stats, std::string_view group, std::string_view key) {
    if (!group.empty() && !stats.contains(group)) return 0;
    const Json& in = group.empty() ? stats : stats[group];
    return in.contains(key) ? in[key].real() : 0;
  }

  const Json& before_;
  const Json& now_;
};

struct Requests {
  std::string name;
  double count = 0, sum_ns = 0;  // since the last look
  const Json* since_mount = nullptr;
};

double ratio(double user, double collector) { return user > 0 ? (user + collector) / user : 1; }

std::string amplification_text(const Figures& figures) {
  const auto since = [&](const char* user, const char* collector) {
    return ratio(figures.now("data", user), figures.now("data", collector));
  };
  return text_of("%.2f now, %.2f since the mount, %.2f since mkfs",
                 ratio(figures.change("data", "user_blocks_written"),
                       figures.change("data", "collector_blocks_written")),
                 since("user_blocks_written", "collector_blocks_written"),
                 since("user_blocks_since_mkfs", "collector_blocks_since_mkfs"));
}

// Live, dead and other blocks, in proportion.
std::string bar_text(const Figures& figures) {
  const double total = std::max(1.0, figures.now("space", "total_blocks"));
  const auto cells = [&](const char* key) {
    return static_cast<std::size_t>(kBarCells * figures.now("space", key) / total + 0.5);
  };
  const std::size_t live = std::min<std::size_t>(cells("live_blocks"), kBarCells);
  const std::size_t dead = std::min<std::size_t>(cells("dead_blocks"), kBarCells - live);
  return "[" + std::string(live, '#') + std::string(dead, '-') +
         std::string(kBarCells - live - dead, ' ') + "]";
}

void add_figures(std::vector<std::string>& page, const Figures& figures) {
  const double seconds = std::max(1e-3, figures.seconds());
  page.push_back(text_of("%-14s%14s written%14s read%14.1f requests/s", "Programs",
                         figures.rate("files", "bytes_written").c_str(),
                         figures.rate("files", "bytes_read").c_str(),
                         figures.change("transport", "requests") / seconds));
  page.push_back(text_of("%-14s%14s data   %14s log %14.1f commits/s", "To the disk",
                         figures.rate("data", "user_blocks_written", kBlockBytes).c_str(),
                         figures.rate("metadata", "log_bytes_written").c_str(),
                         figures.change("metadata", "transactions") / seconds));
  page.push_back(text_of("%-14s%14s moved  %14.0f bands and tails cleaned", "Collector",
                         figures.rate("data", "collector_blocks_written", kBlockBytes).c_str(),
                         figures.change("data", "bands_cleaned") +
                             figures.change("data", "tails_cleaned")));
  page.push_back(text_of("%-14s%14.0f nodes/s moved, %.0f of %.0f bands of the log free",
                         "Log's cleaner", figures.change("metadata", "nodes_cleaned") / seconds,
                         figures.now("metadata", "log_free_bands"),
                         figures.now("metadata", "log_bands")));
  page.push_back(text_of("%-14s%14s in %.0f files", "Dirty",
                         figures.size("data", "dirty_bytes").c_str(),
                         figures.now("data", "dirty_inodes")));
  page.push_back(text_of("%-14s%14.0f now, longest since the mount %s", "Stalls",
                         figures.change("data", "stalls"),
                         time_text(static_cast<std::uint64_t>(
                                       figures.now("data", "stall_ns_max"))).c_str()));
  page.push_back(text_of("%-14s%s %.0f free bands", "Space", bar_text(figures).c_str(),
                         figures.now("space", "free_bands")));
  page.push_back(text_of("%-14s%s live (#), %s dead (-), %s available", "",
                         figures.size("space", "live_blocks", kBlockBytes).c_str(),
                         figures.size("space", "dead_blocks", kBlockBytes).c_str(),
                         figures.size("space", "available_blocks", kBlockBytes).c_str()));
  page.push_back(text_of("%-14s%s", "Amplification", amplification_text(figures).c_str()));
}

std::vector<Requests> requests_between(const Json& before, const Json& now) {
  std::vector<Requests> kinds;
  if (!now.contains("operation_times")) return kinds;
  for (const auto& [name, times] : now["operation_times"].members()) {
    Requests kind{name, times["count"].real(), times["sum_ns"].real(), &times};
    if (before.contains("operation_times") && before["operation_times"].contains(name)) {
      const Json& old = before["operation_times"][name];
      kind.count -= old["count"].real();
      kind.sum_ns -= old["sum_ns"].real();
    }
    kinds.push_back(std::move(kind));
  }
  return kinds;
}

void add_request_lines(std::vector<std::string>& page, const MountFigures& before,
                       const MountFigures& now, const TopView& view) {
  std::vector<Requests> kinds = requests_between(before.stats, now.stats);
  std::ranges::sort(kinds, [&](const Requests& a, const Requests& b) {
    const double left = view.by_time ? a.sum_ns : a.count;
    const double right = view.by_time ? b.sum_ns : b.count;
    return left != right ? left > right : a.name < b.name;
  });
  const double seconds = std::max(1e-3, Figures(before.stats, now.stats).seconds());
  page.push_back(text_of("%-16s%12s%12s%12s%12s%12s", "Request", "per second", "mean now", "p50",
                         "p99", "longest"));
  for (const auto& [name, count, sum_ns, all] : kinds) {
    const auto time = [&, times = all](const char* key) {
      return time_text((*times)[key].number());
    };
    const std::string mean =
        count > 0 ? time_text(static_cast<std::uint64_t>(sum_ns / count)) : "-";
    page.push_back(text_of("%-16s%12.1f%12s%12s%12s%12s", name.c_str(), count / seconds,
                           mean.c_str(), time("p50_ns").c_str(), time("p99_ns").c_str(),
                           time("max_ns").c_str()));
  }
}

}  // namespace

std::vector<std::string> top_page(const MountFigures& before, const MountFigures& now,
                                  const TopView& view) {
  const Figures figures(before.stats, now.stats);
  const std::string label = printable(text_in(now.info, "label"));
  std::vector<std::string> page;
  // The names come last: long ones do not fit.
  page.push_back(text_in(now.stats, "state") + ", up " +
                 duration_text(figures.now("", "uptime_seconds")) + ": " +
                 printable(now.mount_point) +
                 (label.empty() ? "" : " (" + label + ")") + ", " + printable(now.device));
  page.emplace_back();
  add_figures(page, figures);
  page.emplace_back();
  add_request_lines(page, before, now, view);
  if (page.size() > view.lines) page.resize(view.lines);
  for (std::string& line : page) {
    if (line.size() > view.columns) line.resize(view.columns);
  }
  return page;
}

}  // namespace lazyfs
