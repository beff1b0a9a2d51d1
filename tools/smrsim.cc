// Simulated disks: what a load or a recorded trace costs on a model, which models there are, and
// reports side by side.
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/size.h"
#include "tools/command_line.h"
#include "tools/plot_script.h"
#include "tools/smrsim_report.h"
#include "tools/smrsim_run.h"

namespace {

using namespace lazyfs;

int failed(const std::string& what) {
  std::fprintf(stderr, "smrsim: %s\n", what.c_str());
  return 1;
}

int misused(const std::string& what) {
  std::fprintf(stderr, "smrsim: %s (smrsim run --help shows the usage)\n", what.c_str());
  return 2;
}

void print(const Json& json) { std::printf("%s\n", json.dump(true).c_str()); }

// ---- run ----------------------------------------------------------------------------------------

struct RunCommand {
  SimulationRequest request;
  std::string permute, stupid, series;
  bool as_json = false;
  CommandOption *chunk = nullptr, *permutes = nullptr, *is_stupid = nullptr;
};

void add_options(CommandLine& command, RunCommand& run) {
  SimulationRequest& request = run.request;
  command.option("--disk", request.disk, "MODEL, or MODELxN for N of them striped").required();
  auto& load = command.option("--load", request.load,
                              "rw=randwrite|write|randread|read,bs=4K,range=32G,count=N[,sync=1]"
                              "[,seed=N][,depth=N]: instead of traces");
  command.option("--stripe", request.stripe_sectors, "stripe unit, sectors").with_default();
  run.chunk = &command.option("--chunk", request.chunk_sectors,
                              "permute chunks of so many sectors");
  run.permutes = &command.option("--permute", request.permute_seed, "seed of the permutation");
  run.is_stupid = &command.option("--stupid", request.stupid_seed,
                                  "permute all blocks of 8 sectors, by this seed");
  auto& window = command.option("--window", request.window,
                                "requests that are issued and not complete").at_least(1);
  window.with_default();
  command.flag("--paced", request.is_paced, "each request at its recorded time").excludes(window);
  command.option("--queue", request.queue, "order of requests; without it the drive's own")
      .one_of({"fcfs", "sstf", "clook"});
  command.option("--journal", request.journal, "FIRST-LAST: these sectors are a journal");
  command.option("--every", request.every, "progress after each N requests (JSON)");
  command.option("--series", run.series, "CSV of the bytes of each second; JSON has them too");
  command.option("--points", request.points, "list about N requests with their times (JSON)");
  command.flag("--json", run.as_json, "as one JSON object");
  command.option("TRACE", request.traces, "traces, replayed one after the other")
      .excludes(load);
}

void print_text(const Json& report) {
  const auto line = [](const char* name, const std::string& value) {
    std::printf("%-18s %s\n", name, value.c_str());
  };
  const auto number = [](double value, const char* unit) {
    char text[64];
    std::snprintf(text, sizeof text, "%.6g %s", value, unit);
    return std::string(text);
  };
  line("Model:", report["model"].text() + " x " + std::to_string(report["disks"].number()));
  line("Timing:", report["timing"].text());
  line("Time:", number(report["seconds"].real(), "s"));
  line("Cleaning after it:", number(report["cleaning_seconds"].real(), "s"));
  line("Requests:", std::to_string(report["requests"].number()));
  for (const auto& [kind, traffic] : report["classes"].members()) {
    for (const auto& [direction, counts] : traffic.members()) {
      if (counts["requests"].number() == 0) continue;
      line(("  " + kind + " " + direction + ":").c_str(),
           std::to_string(counts["requests"].number()) + ", " +
               size_text(counts["bytes"].number()));
    }
  }
  const Json& latency = report["latency_ms"];
  line("Latency:", number(latency["mean"].real(), "ms mean, ") +
                       number(latency["p50"].real(), "p50, ") +
                       number(latency["p99"].real(), "p99, ") +
                       number(latency["max"].real(), "at most"));
  line("Seeks:", std::to_string(report["seeks"]["count"].number()) + ", " +
                     number(report["seeks"]["mean_cylinders"].real(), "cylinders on average"));
  line("Per disk:", number(report["iops"]["mean"].real(), "IOPS, deviation ") +
                        number(report["iops"]["deviation_percent"].real(), "%"));
  const Json& bands = report["bands"];
  line("Bands rewritten:", std::to_string(bands["rewrites"].number()) + ", with the cleaning " +
                               std::to_string(bands["rewrites_with_cleaning"].number()));
  line("Cache:", number(100 * bands["cache_fill"].real(), "% full at the end"));
  if (bands["refused_writes"].number() > 0) {
    line("Refused writes:", std::to_string(bands["refused_writes"].number()));
  }
  if (report.contains("demerit_ms")) {
    line("Demerit of reads:", number(report["demerit_ms"].real(), "ms"));
  }
}

bool write_series(const std::string& path, const SimulationOutcome& outcome) {
  std::FILE* const file = std::fopen(path.c_str(), "we");
  if (!file) return false;
  std::fputs("second,read_bytes,written_bytes\n", file);
  if (outcome.report.contains("series")) {
    const auto& read = outcome.report["series"]["read_bytes"].items();
    const auto& written = outcome.report["series"]["written_bytes"].items();
    for (std::size_t second = 0; second < read.size(); ++second) {
      std::fprintf(file, "%zu,%llu,%llu\n", second, 0ull + read[second].number(),
                   0ull + written[second].number());
    }
  }
  const bool is_good = std::ferror(file) == 0;
  return std::fclose(file) == 0 && is_good;
}

int run(RunCommand& command) {
  SimulationRequest& request = command.request;
  if (request.load.empty() && request.traces.empty()) return misused("--load or TRACE is needed");
  if (command.permutes->was_given() && !command.chunk->was_given()) {
    return misused("--permute takes --chunk");
  }
  request.is_stupid = command.is_stupid->was_given();
  request.with_series = !command.series.empty();
  request.shows_progress = ::isatty(STDERR_FILENO) != 0;
  const auto outcome = simulate(request);
  if (!outcome) return failed(outcome.error());
  if (request.with_series && !write_series(command.series, *outcome)) {
    return failed(command.series + ": cannot be written");
  }
  if (command.as_json) print(outcome->report);
  else print_text(outcome->report);
  return 0;
}

// ---- plot ---------------------------------------------------------------------------------------

struct PlotCommand {
  std::string kind = "bars", title, output;
  std::vector<std::string> reports;
};

void add_options(CommandLine& command, PlotCommand& plot) {
  command.option("--kind", plot.kind, "what is drawn").with_default().one_of(
      {"throughput", "offsets", "bars", "latency"});
  command.option("--title", plot.title);
  command.option("-o,--output", plot.output, "SVG, PDF or PNG, by its name").required();
  command.option("REPORT", plot.reports, "reports of run --json").required();
}

int plot(const PlotCommand& command) {
  std::vector<std::string> words{"--kind", command.kind, "--title=" + command.title,
                                 "--output=" + command.output, "--"};
  words.insert(words.end(), command.reports.begin(), command.reports.end());
  return continue_as_script("smrsim", "smrsim-plot", std::move(words));
}

// ---- disks, compare -----------------------------------------------------------------------------

int list_disks(bool as_json) {
  const Json models = describe_models();
  if (as_json) {
    print(models);
    return 0;
  }
  for (const Json& model : models.items()) {
    std::printf("%s (%s): %s\n", model["name"].text().c_str(), model["kind"].text().c_str(),
                model["description"].text().c_str());
    for (const Json& parameter : model["parameters"].items()) {
      std::printf("  %-36s %12.10g %-8s %s\n", parameter["name"].text().c_str(),
                  parameter["value"].real(), parameter["unit"].text().c_str(),
                  parameter["origin"].text().c_str());
    }
  }
  return 0;
}

int compare(const std::vector<std::string>& paths, bool as_json) {
  const auto rows = compare_reports(paths);
  if (!rows) return failed(rows.error());
  if (as_json) {
    print(*rows);
    return 0;
  }
  std::printf("%-30s %-14s %12s %12s %8s %14s\n", "Report", "Model", "Time, s", "Cleaning, s",
              "Time", "With cleaning");
  for (const Json& row : rows->items()) {
    std::printf("%-30s %-14s %12.2f %12.2f %8.3f %14.3f\n", row["report"].text().c_str(),
                row["model"].text().c_str(), row["seconds"].real(),
                row["cleaning_seconds"].real(), row["seconds_ratio"].real(),
                row["with_cleaning_ratio"].real());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine app("smrsim", "Simulates disks: what a load costs on which one.", LAZYFS_VERSION);
  auto& run_line = app.command("run", "replays traces or a synthetic load on simulated disks");
  RunCommand run_command;
  add_options(run_line, run_command);
  bool disks_json = false, compare_json = false;
  auto& disks_line = app.command("disks", "lists the models and where each number comes from");
  disks_line.flag("--json", disks_json, "as a JSON array");
  std::vector<std::string> reports;
  auto& compare_line = app.command("compare", "normalises reports of run --json to the first");
  compare_line.option("REPORT", reports, "files").required();
  compare_line.flag("--json", compare_json, "as a JSON array");
  PlotCommand plot_command;
  auto& plot_line = app.command("plot", "draws reports of run --json");
  add_options(plot_line, plot_command);
  if (const auto status = app.parse(argc, argv)) return *status;

  if (run_line.was_given()) return run(run_command);
  if (disks_line.was_given()) return list_disks(disks_json);
  if (plot_line.was_given()) return plot(plot_command);
  return compare(reports, compare_json);
}
