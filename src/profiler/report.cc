#include "profiler/report.h"

#include <algorithm>
#include <ctime>
#include <string_view>
#include <utility>
#include <vector>

#include "base/size.h"

namespace lazyfs::profiler {

namespace {

std::vector<std::pair<std::string_view, std::uint64_t>> sorted_calls(const Totals& totals) {
  std::vector<std::pair<std::string_view, std::uint64_t>> found;
  for (std::size_t i = 0; i < kCallCount; ++i) {
    if (totals.calls[i] > 0) found.emplace_back(kCallNames[i], totals.calls[i]);
  }
  std::ranges::sort(found, [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  return found;
}

template <class... Values>
std::string format(const char* pattern, Values... values) {
  char text[160];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

// UTC, as RFC 3339 writes it.
std::string time_text(Timestamp time) {
  const std::time_t seconds = time.seconds;
  std::tm fields{};
  char text[32];
  ::gmtime_r(&seconds, &fields);
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &fields);
  return text;
}

std::string sizes_text(const char* name, const Sizes& sizes) {
  std::string text = format("Bytes of %s: %llu\n", name, 0ull + sizes.bytes);
  for (std::size_t i = 0; i < kSizeClasses; ++i) {
    if (sizes.calls[i] == 0) continue;
    text += format("  %-8s up to %-9s %12llu\n", name, size_text(largest_of_class(i)).c_str(),
                   0ull + sizes.calls[i]);
  }
  return text;
}

Json sizes_json(const Sizes& sizes) {
  Json classes = Json::array();
  for (std::size_t i = 0; i < kSizeClasses; ++i) {
    if (sizes.calls[i] == 0) continue;
    classes.push_back(
        Json::object({{"up_to_bytes", largest_of_class(i)}, {"calls", sizes.calls[i]}}));
  }
  return Json::object({{"bytes", sizes.bytes}, {"sizes", std::move(classes)}});
}

}  // namespace

std::string to_text(const Section& section) {
  const std::uint64_t all = section.totals.all_calls();
  std::string text = format("Section %u, %s, %s%s\n", section.number,
                            time_text(section.end).c_str(), section.reason.c_str(),
                            section.is_classic ? ", classic" : "");
  text += format("Total number of calls: %llu\n", 0ull + all);
  for (const auto& [name, calls] : sorted_calls(section.totals)) {
    text += format("  %-16.*s %12llu %6.2f %%\n", static_cast<int>(name.size()), name.data(),
                   0ull + calls, 100 * static_cast<double>(calls) / static_cast<double>(all));
  }
  text += format("Requests of the kernel: %llu\n", 0ull + section.totals.requests);
  text += sizes_text("reads", section.totals.reads);
  text += sizes_text("writes", section.totals.writes);
  text += format("Seconds: %.3f\n", section.seconds);
  text += format("CPU seconds of the daemon: user %.3f, system %.3f\n\n", section.cpu.user,
                 section.cpu.system);
  return text;
}

Json to_json(const Section& section) {
  Json calls = Json::object();
  for (const auto& [name, count] : sorted_calls(section.totals)) calls[name] = count;
  return Json::object({{"section", section.number},
                       {"time", time_text(section.end)},
                       {"reason", section.reason},
                       {"classic", section.is_classic},
                       {"total_calls", section.totals.all_calls()},
                       {"calls", std::move(calls)},
                       {"requests", section.totals.requests},
                       {"reads", sizes_json(section.totals.reads)},
                       {"writes", sizes_json(section.totals.writes)},
                       {"seconds", section.seconds},
                       {"cpu_seconds", Json::object({{"user", section.cpu.user},
                                                     {"system", section.cpu.system}})}});
}

}  // namespace lazyfs::profiler
