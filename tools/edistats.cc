// Reports what the bands of a filesystem hold: the edistats of the ShingledFS thesis, section 8.1.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/json.h"
#include "fs/space/band_report.h"
#include "tools/band_details.h"
#include "tools/command_line.h"
#include "tools/edistats_page.h"
#include "tools/edistats_picture.h"
#include "tools/mount_point.h"
#include "tools/volume_commands.h"
#include "tools/volume_reader.h"

namespace {

using namespace lazyfs;

// A message "what: why", followed by advice if there is any.
struct Trouble : std::runtime_error {
  using std::runtime_error::runtime_error;
};

constexpr int kUsage = 2;
// The page of a larger disk has no line for each band; only the report without --html has.
constexpr std::size_t kMostLinesOfPage = 2000;
// Records of bands' logs on a page, of which each takes some 40 bytes, unless bands are named.
constexpr std::uint64_t kMostRecordsOfPage = 100'000;

struct Arguments {
  bool json = false;
  std::string html, svg, device;
  std::vector<std::uint64_t> zoom;  // bands whose files the page has; empty: all, if there is room
  std::vector<std::string> files;  // of the thesis: the unshingled partition and OUTPUT, or OUTPUT
  std::string output() const { return files.empty() ? "" : files.back(); }
};

// The bands that the daemon has set aside, which the disk does not record; nullopt if no daemon
// serves the volume.
std::optional<std::vector<BandId>> set_aside_while_mounted(const std::string& path) {
  try {
    const auto mount_point = mounted_from(path);
    if (!mount_point) return std::nullopt;
    const auto stats = Json::parse(MountPoint(*mount_point).stats());
    if (!stats || !stats->is_object() || !stats->contains("data")) return std::nullopt;
    const Json& data = (*stats)["data"];
    if (!data.contains("bad_band_numbers")) return std::nullopt;
    std::vector<BandId> bands;
    for (const Json& band : data["bad_band_numbers"].items()) {
      bands.push_back(BandId{static_cast<std::uint32_t>(band.number())});
    }
    return bands;
  } catch (const std::exception&) {  // the mount is ending, or is another user's
    return std::nullopt;
  }
}

struct Found {
  fs::BandReport report;
  tools::BandDetails details;  // for a page
};

void check_zoom(const std::vector<std::uint64_t>& zoom, const fs::BandReport& report) {
  for (const std::uint64_t named : zoom) {
    const bool exists = std::ranges::any_of(
        report.bands, [&](const fs::BandLine& line) { return line.band.value == named; });
    if (!exists) throw Trouble("--zoom " + std::to_string(named) + ": no such band");
  }
}

// The bands whose files the page has.
std::vector<BandId> zoomed_bands(const Arguments& arguments, const fs::BandReport& report) {
  std::vector<BandId> bands;
  if (arguments.html.empty()) return bands;
  check_zoom(arguments.zoom, report);
  std::uint64_t records = 0;
  for (const fs::BandLine& line : report.bands) {
    const bool is_wanted = arguments.zoom.empty() ||
                           std::ranges::find(arguments.zoom, line.band.value) !=
                               arguments.zoom.end();
    if (line.log_records == 0 || !is_wanted) continue;
    records += line.log_records;
    bands.push_back(line.band);
  }
  if (arguments.zoom.empty() && records > kMostRecordsOfPage) bands.clear();
  return bands;
}

Found read_bands(const Arguments& arguments) {
  const std::string& path = arguments.device;
  Found found;
  read_volume(path, [&](meta::Store& store, device::Device& device) -> Result<> {
    ASSIGN_OR_RETURN(found.report, fs::report_bands(store, device, set_aside_while_mounted(path)));
    found.details = tools::band_details_of(store, zoomed_bands(arguments, found.report));
    return ok();
  });
  return found;
}

std::string sprint(const char* format, auto... values) {
  const int length = std::snprintf(nullptr, 0, format, values...);
  std::string text(static_cast<std::size_t>(length) + 1, '\0');
  std::snprintf(text.data(), text.size(), format, values...);
  text.pop_back();
  return text;
}

unsigned long long whole(std::uint64_t number) { return number; }

std::string time_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  char text[64];
  return {text, std::strftime(text, sizeof text, "%a %b %e %H:%M:%S %Y", &parts)};
}

std::string band_size_text(const fs::BandReport& report) {
  std::uint64_t least = UINT64_MAX, most = 0;
  for (const fs::BandLine& line : report.bands) {
    least = std::min(least, line.blocks);
    most = std::max(most, line.blocks);
  }
  if (least < most) {
    return sprint("%llu to %llu blocks (%llu to %llu bytes)", whole(least), whole(most),
                  whole(least * kBlockBytes), whole(most * kBlockBytes));
  }
  return sprint("%llu blocks (%llu bytes)", whole(most), whole(most * kBlockBytes));
}

std::string lines_of(const std::vector<fs::BandLine>& bands) {
  std::string text = sprint("%-13s%-13s%10s%17s%13s%13s\n", "Band No.", "State", "Band Size",
                            "Cursor Position", "Live Blocks", "Dead Blocks");
  for (const fs::BandLine& line : bands) {
    text += sprint("Band %6u  %-13s%10llu%17llu%13llu%13llu\n", line.band.value,
                   std::string(title_of(line)).c_str(), whole(line.blocks),
                   whole(line.write_pointer), whole(line.live), whole(line.dead));
  }
  return text + "\n";
}

std::string text_of(const std::string& device, const fs::BandReport& report, bool with_lines) {
  const fs::BandTotals& t = report.totals;
  std::string text = "EDI Image: " + device + "\nReport Time: " + time_text() + "\n\n";
  text += sprint("Sector Size: %u bytes\n", kBlockBytes);
  text += sprint("Bands: %zu bands\n", report.bands.size());
  text += "Band Size: " + band_size_text(report) + "\n\n";
  if (with_lines) text += lines_of(report.bands);
  text += "File data:\n";
  text += sprint("  Live Blocks:         %llu\n", whole(t.live));
  text += sprint("  Dead Blocks:         %llu\n", whole(t.dead));
  text += sprint("  Free Blocks:         %llu\n", whole(t.free));
  text += sprint("  Free Bands:          %llu\n", whole(t.free_bands));
  if (t.set_aside_bands > 0) {
    text += sprint("  Bands set aside:     %llu\n", whole(t.set_aside_bands));
  }
  if (t.pending_deletions > 0) {
    text += sprint("  Deletions pending:   %llu files without a name hold %llu blocks\n",
                   whole(t.pending_deletions), whole(t.pending_blocks));
  }
  text += sprint("  Space Overhead:      %.2f\n", t.overhead());
  text += sprint("  Written by users:    %llu blocks since mkfs\n", whole(t.host_blocks));
  text += sprint("  Written to the disk: %llu blocks\n", whole(t.device_blocks));
  text += sprint("  Write Amplification: %.2f\n", t.write_amplification());
  text += sprint("Metadata log: %llu bands, %llu live and %llu dead blocks\n", whole(t.log_bands),
                 whole(t.log_live), whole(t.log_dead));
  return text;
}

std::string json_of(const std::string& device, const fs::BandReport& report) {
  const fs::BandTotals& t = report.totals;
  Json bands = Json::array();
  for (const fs::BandLine& line : report.bands) {
    bands.push_back(Json::object({{"band", line.band.value},
                                  {"state", name_of(line)},
                                  {"blocks", line.blocks},
                                  {"write_pointer", line.write_pointer},
                                  {"live", line.live},
                                  {"dead", line.dead}}));
  }
  const Json totals = Json::object({{"live", t.live},
                                    {"dead", t.dead},
                                    {"free", t.free},
                                    {"free_bands", t.free_bands},
                                    {"set_aside_bands", t.set_aside_bands},
                                    {"pending_deletions", t.pending_deletions},
                                    {"pending_blocks", t.pending_blocks},
                                    {"overhead", t.overhead()},
                                    {"host_blocks", t.host_blocks},
                                    {"device_blocks", t.device_blocks},
                                    {"write_amplification", t.write_amplification()},
                                    {"log_bands", t.log_bands},
                                    {"log_live", t.log_live},
                                    {"log_dead", t.log_dead}});
  const Json all = Json::object(
      {{"device", device}, {"block_size", kBlockBytes}, {"bands", bands}, {"totals", totals}});
  return all.dump(true) + "\n";
}

// "-" is standard output.
void write_file(const std::string& path, const std::string& text) {
  if (path == "-") {
    std::fputs(text.c_str(), stdout);
    return;
  }
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw Trouble(path + ": cannot be written");
}

void warn_of_damage(const tools::BandDetails& details) {
  for (const auto& [band, error] : details.unreadable) {
    std::fprintf(stderr, "edistats: the log of band %u cannot be read: %s\n", band.value,
                 describe(error).data());
  }
  if (details.paths_error) {
    std::fprintf(stderr, "edistats: the names of files cannot be read: %s\n",
                 describe(*details.paths_error).data());
  }
}

// False: the page lacks what cannot be read.
bool report_on(const Arguments& arguments) {
  const auto [report, details] = read_bands(arguments);
  warn_of_damage(details);
  const tools::PictureTitle title{arguments.device, time_text()};
  if (!arguments.svg.empty()) write_file(arguments.svg, tools::svg_of(title, report));
  if (!arguments.html.empty()) {
    const bool with_lines = report.bands.size() <= kMostLinesOfPage;
    const std::string text = text_of(arguments.device, report, with_lines);
    write_file(arguments.html, tools::html_of(title, text, report, details));
  }
  const std::string answer = arguments.json ? json_of(arguments.device, report)
                                            : text_of(arguments.device, report, true);
  const bool is_picture_printed = arguments.svg == "-" || arguments.html == "-";
  const std::string output = arguments.output();
  if (!output.empty() || !is_picture_printed) write_file(output.empty() ? "-" : output, answer);
  return details.is_complete();
}

// At most one output may go to standard output: two would be mixed.
bool prints_one_thing(const Arguments& arguments) {
  return (arguments.html == "-") + (arguments.svg == "-") + (arguments.output() == "-") <= 1;
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine app(
      "edistats",
      "Reports what each band of a lazyfs holds. The filesystem may be mounted.",
      LAZYFS_VERSION);
  Arguments arguments;
  app.flag("--json", arguments.json, "as one JSON object");
  app.option("--html", arguments.html, "also write the report with a picture to this file");
  app.option("--zoom", arguments.zoom,
             "the page has the files of this band (repeatable); otherwise those of all bands, "
             "unless their logs have more than 100,000 records")
      .one_each();
  app.option("--svg", arguments.svg, "also draw the bands into this file");
  app.option("DEVICE", arguments.device, "image file or block device").required();
  app.option("OUTPUT", arguments.files,
             "write the report to this file; before it the thesis' unshingled partition, which "
             "lazyfs does not have, may be named");
  app.set_footer("The file - is standard output; a picture is printed instead of the report.");
  if (const auto status = app.parse(argc, argv)) return *status;
  if (arguments.files.size() > 2) {
    std::fputs("edistats: too many arguments: DEVICE [PARTITION] OUTPUT\n", stderr);
    return kUsage;
  }
  if (!arguments.zoom.empty() && arguments.html.empty()) {
    std::fputs("edistats: --zoom is for the page that --html writes\n", stderr);
    return kUsage;
  }
  if (!prints_one_thing(arguments)) {
    std::fputs("edistats: only one of --html, --svg and OUTPUT can be -\n", stderr);
    return kUsage;
  }

  bool is_complete = false;
  try {
    is_complete = report_on(arguments);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "edistats: %s\n", e.what());
    return 1;
  }
  return end_output("edistats", is_complete ? 0 : 1);
}
