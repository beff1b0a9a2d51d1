#include "tools/smrsim_run.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "base/size.h"
#include "sim/load.h"
#include "sim/models.h"
#include "sim/trace_reader.h"
#include "sim/volume_map.h"
#include "tools/smrsim_report.h"

namespace lazyfs {
namespace {

constexpr std::uint64_t kDisksMax = 4096;
constexpr std::uint64_t kWindowMax = 1'000'000;

// ---- The volume ---------------------------------------------------------------------------------

struct Volume {
  const sim::Model* model = nullptr;
  std::string name;  // of the model, with its divisor
  std::vector<std::unique_ptr<sim::Disk>> disks;
  sim::VolumeShape shape;
};

std::expected<Volume, std::string> make_volume(const SimulationRequest& request) {
  std::string name = request.disk;
  std::uint64_t count = 1;
  Volume volume;
  auto choice = sim::choose_model(name);
  if (const auto x = name.rfind('x'); !choice && x != name.npos) {
    const auto given = parse_number(name.substr(x + 1));
    if (given && *given > 0 && *given <= kDisksMax) {
      count = *given;
      choice = sim::choose_model(name.substr(0, x));
    }
  }
  if (!choice) return std::unexpected(name + ": no such model; `smrsim disks` lists them");
  volume.model = choice->model;
  volume.name = volume.model->name;
  if (choice->cache_divisor > 1) volume.name += "/" + std::to_string(choice->cache_divisor);
  for (std::uint64_t i = 0; i < count; ++i) volume.disks.push_back(choice->make());
  sim::VolumeShape& shape = volume.shape;
  shape.disks = static_cast<std::uint32_t>(count);
  shape.disk_sectors = volume.disks.front()->sectors();
  shape.stripe_sectors = request.stripe_sectors;
  shape.chunk_sectors = request.chunk_sectors;
  shape.permute_seed = request.permute_seed;
  shape.is_stupid = request.is_stupid;
  shape.stupid_seed = request.stupid_seed;
  if (shape.stripe_sectors == 0 || shape.stripe_sectors > shape.disk_sectors) {
    return std::unexpected("--stripe: not between 1 sector and the size of a disk");
  }
  return volume;
}

// ---- Where requests come from -------------------------------------------------------------------

// Gives requests and keeps the first error; the replay ends there.
class RequestSource {
 public:
  virtual ~RequestSource() = default;
  virtual std::optional<sim::Request> next() = 0;
  const std::string& error() const { return error_; }

 protected:
  std::string error_;
};

class LoadSource final : public RequestSource {
 public:
  LoadSource(const sim::LoadOptions& options, std::uint64_t sectors) : load_(options, sectors) {}
  std::optional<sim::Request> next() override { return load_.next(); }

 private:
  sim::Load load_;
};

class TraceSource final : public RequestSource {
 public:
  TraceSource(sim::TraceReader& reader, std::uint64_t sectors)
      : reader_(reader), sectors_(sectors) {}
  std::optional<sim::Request> next() override {
    const auto request = reader_.next();
    if (!request) {
      error_ = request.error();
    } else if (*request && (*request)->end() > sectors_) {
      error_ = reader_.at_line("the request ends past the end of the volume, which has " +
                               std::to_string(sectors_) + " sectors");
    } else {
      return *request;
    }
    return std::nullopt;
  }

 private:
  sim::TraceReader& reader_;
  const std::uint64_t sectors_;
};

std::expected<sim::SectorRange, std::string> journal_range(const std::string& text) {
  if (text.empty()) return sim::SectorRange{};
  const auto dash = text.find('-');
  const auto first = parse_number(text.substr(0, dash));
  const auto last = dash == text.npos ? first : parse_number(text.substr(dash + 1));
  if (!first || !last || *last < *first) {
    return std::unexpected("--journal: '" + text + "' is not FIRST-LAST");
  }
  return sim::SectorRange{*first, *last};
}

// A line on the terminal, from time to time.
void show_progress(std::uint64_t requests) {
  if (requests % 100'000 == 0) std::fprintf(stderr, "\r%llu requests", 0ull + requests);
}

// ---- The replay ---------------------------------------------------------------------------------

Json settings(const SimulationRequest& request, const Volume& volume,
              const sim::ReplayOptions& options) {
  Json settings = Json::object({{"model", volume.name},
                                {"disks", std::uint64_t{volume.shape.disks}}});
  if (volume.shape.disks > 1) settings["stripe_sectors"] = volume.shape.stripe_sectors;
  if (volume.shape.chunk_sectors) {
    settings["chunk_sectors"] = volume.shape.chunk_sectors;
    settings["permute_seed"] = volume.shape.permute_seed;
  }
  if (volume.shape.is_stupid) settings["stupid_seed"] = volume.shape.stupid_seed;
  if (!request.load.empty()) settings["load"] = request.load;
  if (request.load.empty()) settings["traces"] = Json(request.traces);
  settings["timing"] = options.is_paced ? "paced: each request at its recorded time"
                       : options.is_thinking
                           ? "one at a time, each after its recorded pause"
                       : options.window == 1
                           ? "one at a time"
                           : "a window of " + std::to_string(options.window) + " requests";
  const char* const kQueues[] = {"fcfs", "sstf", "clook"};
  settings["queue"] = kQueues[static_cast<std::size_t>(options.queue)];
  settings["queue_depth"] = std::uint64_t{options.queue_depth};
  return settings;
}

sim::ReplayOptions replay_options(const SimulationRequest& request, const sim::Model& model) {
  sim::ReplayOptions options;
  options.is_paced = request.is_paced;
  options.window = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(request.window, 1,
                                                                        kWindowMax));
  // The host orders all that waits; a drive only what it has taken.
  options.queue_depth = request.queue.empty() ? model.queue_depth : kWindowMax;
  const bool drive_orders = request.queue.empty() && model.queue_depth > 1;
  if (request.queue == "sstf" || drive_orders) options.queue = sim::QueuePolicy::kSstf;
  if (request.queue == "clook") options.queue = sim::QueuePolicy::kClook;
  options.every = request.every;
  options.with_series = request.with_series;
  options.points = request.points;
  return options;
}

// The root mean square distance of two sorted lists of as many times (Ruemmler and Wilkes).
std::optional<double> demerit_ms(std::vector<double> measured, std::vector<double> simulated) {
  if (measured.empty() || measured.size() != simulated.size()) return std::nullopt;
  std::ranges::sort(measured);
  std::ranges::sort(simulated);
  double squares = 0;
  for (std::size_t i = 0; i < measured.size(); ++i) {
    squares += (measured[i] - simulated[i]) * (measured[i] - simulated[i]);
  }
  return std::sqrt(squares / static_cast<double>(measured.size()));
}

SimulationOutcome replay(const SimulationRequest& request, Volume& volume,
                         sim::ReplayOptions& options, const sim::Replay::Source& source) {
  const sim::VolumeMap map(volume.shape);
  sim::Replay replay(std::move(volume.disks), map, options);
  sim::ReplayResult result = replay.run(source);
  SimulationOutcome outcome;
  outcome.report = settings(request, volume, options);
  const Json measured = describe_result(result);
  for (const auto& [name, value] : measured.members()) outcome.report[name] = value;
  outcome.read_ms = std::move(result.read_times_ms);
  return outcome;
}

std::expected<SimulationOutcome, std::string> run_load(const SimulationRequest& request,
                                                       Volume& volume) {
  const auto load = sim::parse_load(request.load);
  if (!load) return std::unexpected("--load: " + load.error());
  const sim::VolumeMap map(volume.shape);
  const std::uint64_t range =
      load->range_bytes ? load->range_bytes : map.sectors() * sim::kSectorBytes;
  if (range / sim::kSectorBytes > map.sectors()) {
    return std::unexpected("--load: the range is larger than the volume");
  }
  if (range < load->block_bytes) return std::unexpected("--load: the range is less than a block");
  sim::ReplayOptions options = replay_options(request, *volume.model);
  options.window = load->depth;
  LoadSource source(*load, map.sectors());
  std::uint64_t issued = 0;
  return replay(request, volume, options, [&] {
    if (request.shows_progress) show_progress(++issued);
    return source.next();
  });
}

std::expected<SimulationOutcome, std::string> run_traces(const SimulationRequest& request,
                                                         Volume& volume) {
  const auto journal = journal_range(request.journal);
  if (!journal) return std::unexpected(journal.error());
  sim::TraceReader reader(request.traces, *journal);
  const sim::VolumeMap map(volume.shape);
  TraceSource source(reader, map.sectors());
  std::optional<sim::Request> first = source.next();  // says which format it is
  if (!source.error().empty()) return std::unexpected(source.error());
  if (!first) return std::unexpected("the traces have no requests");
  sim::ReplayOptions options = replay_options(request, *volume.model);
  options.is_thinking = reader.is_thinking() && !request.is_paced;
  options.keeps_reads = options.is_thinking;
  if (options.is_thinking) options.window = 1;
  std::uint64_t issued = 0;
  auto outcome = replay(request, volume, options, [&] {
    if (request.shows_progress) show_progress(++issued);
    return first ? std::exchange(first, std::nullopt) : source.next();
  });
  if (!source.error().empty()) return std::unexpected(source.error());
  if (const auto demerit = demerit_ms(reader.measured_reads_ms(), outcome.read_ms)) {
    outcome.report["demerit_ms"] = *demerit;
  }
  return outcome;
}

}  // namespace

std::expected<SimulationOutcome, std::string> simulate(const SimulationRequest& request) {
  auto volume = make_volume(request);
  if (!volume) return std::unexpected(volume.error());
  auto outcome =
      request.load.empty() ? run_traces(request, *volume) : run_load(request, *volume);
  if (request.shows_progress) std::fputs("\r\033[K", stderr);
  return outcome;
}

}  // namespace lazyfs
