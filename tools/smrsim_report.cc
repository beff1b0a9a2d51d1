#include "tools/smrsim_report.h"

#include <cmath>
#include <fstream>
#include <iterator>
#include <utility>

#include "sim/models.h"

namespace lazyfs {
namespace {

Json describe(const sim::Traffic& traffic) {
  return Json::object({{"requests", traffic.requests}, {"bytes", traffic.bytes}});
}

// Pairs of a share and a time, to 99.99 %.
Json percentiles(const sim::Latencies& latency) {
  constexpr int kPoints = 40;
  Json list = Json::array();
  for (int i = 0; i <= kPoints; ++i) {
    const double share = 1 - std::pow(10, -0.1 * i);
    list.push_back(Json(std::vector<double>{share, latency.percentile_ms(share)}));
  }
  return list;
}

Json describe(const sim::Latencies& latency) {
  return Json::object({{"mean", latency.mean_ms()},
                       {"p50", latency.percentile_ms(0.5)},
                       {"p90", latency.percentile_ms(0.9)},
                       {"p99", latency.percentile_ms(0.99)},
                       {"p999", latency.percentile_ms(0.999)},
                       {"p9999", latency.percentile_ms(0.9999)},
                       {"max", latency.max_ms()},
                       {"percentiles", percentiles(latency)}});
}

template <class Number>
Number sum(const std::vector<sim::DiskCounters>& disks, Number sim::DiskCounters::*counter) {
  Number total = 0;
  for (const sim::DiskCounters& disk : disks) total += disk.*counter;
  return total;
}

Json describe_iops(const sim::ReplayResult& result) {
  const auto count = static_cast<double>(result.disk_requests.size());
  double total = 0, squares = 0;
  for (const std::uint64_t requests : result.disk_requests) total += static_cast<double>(requests);
  const double mean = total / count;
  for (const std::uint64_t requests : result.disk_requests) {
    squares += (static_cast<double>(requests) - mean) * (static_cast<double>(requests) - mean);
  }
  const double seconds = result.seconds > 0 ? result.seconds : 1;
  return Json::object(
      {{"mean", mean / seconds},
       {"deviation_percent", mean > 0 ? 100 * std::sqrt(squares / count) / mean : 0.0}});
}

Json describe_seeks(const sim::ReplayResult& result) {
  std::uint64_t seeks = 0, cylinders = 0;
  for (const sim::DiskCounters& disk : result.disks) {
    seeks += disk.seeks.seeks;
    cylinders += disk.seeks.cylinders;
  }
  const double mean = seeks ? static_cast<double>(cylinders) / static_cast<double>(seeks) : 0;
  return Json::object({{"count", seeks}, {"mean_cylinders", mean}});
}

Json describe_bands(const sim::ReplayResult& result) {
  using sim::DiskCounters;
  const double full = result.disks.front().full_since_ms;
  Json bands = Json::object(
      {{"rewrites", sum(result.disks, &DiskCounters::band_rewrites)},
       {"rewrites_with_cleaning", sum(result.disks_at_end, &DiskCounters::band_rewrites)},
       {"moved_bytes", sum(result.disks, &DiskCounters::moved_bytes)},
       {"moved_bytes_with_cleaning", sum(result.disks_at_end, &DiskCounters::moved_bytes)},
       {"cached_bytes", sum(result.disks, &DiskCounters::cached_bytes)},
       {"streamed_bytes", sum(result.disks, &DiskCounters::streamed_bytes)},
       {"map_extents", sum(result.disks, &DiskCounters::map_extents)},
       {"cache_fill", sum(result.disks, &DiskCounters::cache_fill) /
                          static_cast<double>(result.disks.size())}});
  if (full >= 0) bands["full_after_seconds"] = full / 1000;
  bands["refused_writes"] = sum(result.disks, &DiskCounters::refused);
  return bands;
}

Json describe_classes(const sim::ReplayResult& result) {
  Json classes = Json::object();
  for (std::size_t kind = 0; kind < sim::kRequestClasses; ++kind) {
    const auto& [reads, writes] = result.traffic[kind];
    classes[to_string(static_cast<sim::RequestClass>(kind))] =
        Json::object({{"reads", describe(reads)}, {"writes", describe(writes)}});
  }
  return classes;
}

Json describe_series(const std::vector<std::array<std::uint64_t, 2>>& series) {
  Json read = Json::array(), written = Json::array();
  for (const auto& [read_bytes, written_bytes] : series) {
    read.push_back(read_bytes);
    written.push_back(written_bytes);
  }
  return Json::object({{"read_bytes", std::move(read)}, {"written_bytes", std::move(written)}});
}

Json describe_points(const std::vector<sim::Point>& points) {
  Json list = Json::array();
  for (const auto& [seconds, request] : points) {
    if (request.op == sim::Op::kDiscard) continue;
    list.push_back(Json::object({{"seconds", seconds},
                                 {"operation", request.op == sim::Op::kRead ? "read" : "write"},
                                 {"class", to_string(request.kind)},
                                 {"sector", request.sector},
                                 {"sectors", std::uint64_t{request.sectors}}}));
  }
  return list;
}

Json describe_progress(const std::vector<sim::Progress>& progress) {
  Json list = Json::array();
  for (const sim::Progress& one : progress) {
    list.push_back(Json::object(
        {{"requests", one.requests}, {"seconds", one.seconds}, {"bytes", one.bytes}}));
  }
  return list;
}

}  // namespace

Json describe_result(const sim::ReplayResult& result) {
  Json report = Json::object({{"seconds", result.seconds},
                              {"cleaning_seconds", result.cleaning_seconds},
                              {"requests", result.latency.count()},
                              {"classes", describe_classes(result)},
                              {"flushes", result.flushes},
                              {"discards", result.discards},
                              {"seeks", describe_seeks(result)},
                              {"bands", describe_bands(result)},
                              {"iops", describe_iops(result)},
                              {"latency_ms", describe(result.latency)},
                              {"read_latency_ms", describe(result.read_latency)},
                              {"write_latency_ms", describe(result.write_latency)}});
  if (!result.series.empty()) report["series"] = describe_series(result.series);
  if (!result.points.empty()) report["points"] = describe_points(result.points);
  if (!result.progress.empty()) report["progress"] = describe_progress(result.progress);
  return report;
}

Json describe_models() {
  Json list = Json::array();
  for (const sim::Model& model : sim::models()) {
    sim::ParameterSheet sheet;
    const auto disk = model.make(sheet);
    Json parameters = Json::array();
    for (const sim::Parameter& parameter : sheet.parameters()) {
      parameters.push_back(Json::object({{"name", parameter.name},
                                         {"value", parameter.value},
                                         {"unit", parameter.unit},
                                         {"origin", parameter.origin}}));
    }
    list.push_back(Json::object({{"name", model.name},
                                 {"kind", model.kind},
                                 {"description", model.description},
                                 {"bytes", disk->sectors() * sim::kSectorBytes},
                                 {"queue_depth", std::uint64_t{model.queue_depth}},
                                 {"parameters", std::move(parameters)}}));
  }
  return list;
}

std::expected<Json, std::string> compare_reports(const std::vector<std::string>& paths) {
  Json rows = Json::array();
  double base = 0, base_with_cleaning = 0;
  for (const std::string& path : paths) {
    std::ifstream file(path);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const auto report = Json::parse(text);
    if (!report || !report->is_object() || !report->contains("seconds") ||
        !report->contains("cleaning_seconds")) {
      return std::unexpected(path + ": not a report of smrsim run --json");
    }
    const Json& found = *report;
    const double seconds = found["seconds"].real();
    const double with_cleaning = seconds + found["cleaning_seconds"].real();
    if (rows.items().empty()) {
      base = seconds;
      base_with_cleaning = with_cleaning;
    }
    rows.push_back(Json::object(
        {{"report", path},
         {"model", found.contains("model") ? found["model"] : Json("")},
         {"seconds", seconds},
         {"cleaning_seconds", with_cleaning - seconds},
         {"seconds_ratio", base > 0 ? seconds / base : 0.0},
         {"with_cleaning_ratio",
          base_with_cleaning > 0 ? with_cleaning / base_with_cleaning : 0.0}}));
  }
  return rows;
}

}  // namespace lazyfs
