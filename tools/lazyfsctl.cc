// Prints the counters of a mounted lazyfs and sends it requests, through ioctls on its root
// directory; names volumes.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/json.h"
#include "fuse/requests/control.h"
#include "tools/command_line.h"
#include "tools/gc_command.h"
#include "tools/grow_command.h"
#include "tools/health_command.h"
#include "tools/map_command.h"
#include "tools/metrics_command.h"
#include "tools/mount_point.h"
#include "tools/progress.h"
#include "tools/scrub_command.h"
#include "tools/stats_page.h"
#include "tools/top_command.h"
#include "tools/volume_commands.h"
#include "tools/wait_command.h"

namespace {

using lazyfs::CommandLine;
using lazyfs::Json;
using lazyfs::MountPoint;

constexpr int kWrongUsage = 2;
constexpr int kNeedsCare = 4;  // an exit status, as fsck's "left uncorrected"

void print_flat(const Json& value, const std::string& name) {
  if (!value.is_object()) {
    std::printf("%-40s %s\n", name.c_str(),
                value.is_string() ? value.text().c_str() : value.dump().c_str());
    return;
  }
  for (const auto& [key, inner] : value.members()) {
    print_flat(inner, name.empty() ? key : name + "." + key);
  }
}

enum class StatsForm : std::uint8_t { kPage, kAll, kJson };

void print_stats(const std::string& mount_point, StatsForm form) {
  if (form == StatsForm::kJson) {
    std::printf("%s\n", MountPoint(mount_point).stats().c_str());
    return;
  }
  const lazyfs::MountFigures figures = lazyfs::figures_of(mount_point);
  if (form == StatsForm::kAll) return print_flat(figures.stats, "");
  std::fputs(lazyfs::stats_page(figures).c_str(), stdout);
}

void watch_stats(const std::string& mount_point, StatsForm form) {
  while (std::fflush(stdout) == 0) {  // main() reports errors of the output
    if (form != StatsForm::kJson) std::printf("\033[H\033[2J");
    print_stats(mount_point, form);
    std::fflush(stdout);
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
}

void shut_down(const std::string& mount_point) {
  std::uint32_t flag = lazyfs::fuse::kShutDownNothing;
  MountPoint(mount_point).request(lazyfs::fuse::kShutDownRequest, &flag);
}

// The commands of volume_commands.h.
struct NamingPlan {
  std::string path, value;
  bool json = false;
  CommandLine *info = nullptr, *list = nullptr, *label = nullptr, *uuid = nullptr;
  lazyfs::CommandOption *new_label = nullptr, *new_uuid = nullptr;
};

void add_naming(CommandLine& app, NamingPlan& plan) {
  plan.info = &app.command("info", "prints what a volume is, mounted or not");
  plan.info->flag("--json", plan.json, "as one JSON object");
  plan.info->option("PATH", plan.path, "device, image, or a path on the mount").required();
  plan.list = &app.command("list", "prints all mounts");
  plan.list->flag("--json", plan.json, "as one JSON object");
  plan.label = &app.command("label", "prints or changes a volume's label");
  plan.label->option("DEVICE", plan.path).required();
  plan.new_label = &plan.label->option("LABEL", plan.value, "at most 63 bytes; '' removes it");
  plan.uuid = &app.command("uuid", "prints or changes a volume's UUID");
  plan.uuid->option("DEVICE", plan.path).required();
  plan.new_uuid = &plan.uuid->option("UUID", plan.value, "or the word random");
}

void name_volumes(const NamingPlan& plan) {
  const auto value = [&](const lazyfs::CommandOption& option) {
    return option.was_given() ? std::optional(plan.value) : std::nullopt;
  };
  if (plan.info->was_given()) lazyfs::print_info(plan.path, plan.json);
  if (plan.list->was_given()) lazyfs::print_mounts(plan.json);
  if (plan.label->was_given()) lazyfs::label_command(plan.path, value(*plan.new_label));
  if (plan.uuid->was_given()) lazyfs::uuid_command(plan.path, value(*plan.new_uuid));
}

// The commands of map_command.h.
struct MapPlan {
  std::string path, place;
  bool json = false;
  CommandLine *map = nullptr, *owner = nullptr, *frag = nullptr;
};

void add_maps(CommandLine& app, MapPlan& plan) {
  plan.map = &app.command("map", "says where a file lies on the disk");
  plan.map->option("FILE", plan.path, "on a mount").required();
  plan.owner = &app.command("owner", "names the files that have blocks of a band");
  plan.owner->option("DEVICE", plan.path, "or image, or any path on its mount").required();
  plan.owner->option("PLACE", plan.place, "BAND or BAND:BLOCK, their numbers").required();
  plan.frag = &app.command("frag", "says in how many pieces files lie");
  plan.frag->option("PATH", plan.path, "a file; or of all files a device, or a path on its mount")
      .required();
  for (CommandLine* const command : {plan.map, plan.owner, plan.frag}) {
    command->flag("--json", plan.json, "as one JSON object");
  }
}

// Whether PLACE is right; prints what is wrong.
bool has_right_place(const MapPlan& plan) {
  const bool is_right = !plan.owner->was_given() || lazyfs::is_place(plan.place);
  if (!is_right) {
    std::fprintf(stderr, "lazyfsctl: owner: %s: not BAND or BAND:BLOCK\n", plan.place.c_str());
  }
  return is_right;
}

void print_maps(const MapPlan& plan) {
  if (plan.map->was_given()) lazyfs::map_command(plan.path, plan.json);
  if (plan.owner->was_given()) lazyfs::owner_command(plan.path, plan.place, plan.json);
  if (plan.frag->was_given()) lazyfs::frag_command(plan.path, plan.json);
}

// The commands about a mount.
struct MountPlan {
  std::string path;
  std::string folder;  // of metrics
  std::vector<std::string> scrub_words;  // what to do, perhaps; MOUNTPOINT
  lazyfs::ScrubPlan scrub_plan;
  std::string progress = "auto";
  bool json = false, all = false, watch = false, only_estimate = false;
  std::uint32_t dead_percent = lazyfs::GcPlan{}.dead_percent;
  double timeout_seconds = 30, interval_seconds = 2;
  std::uint64_t grow_bytes = 0;
  CommandLine *stats = nullptr, *health = nullptr, *gc = nullptr, *scrub = nullptr, *sync = nullptr,
              *wait = nullptr, *grow = nullptr, *shutdown = nullptr,
              *metrics = nullptr, *top = nullptr;
  lazyfs::CommandOption* wait_timeout = nullptr;
};

void add_mounted(CommandLine& app, MountPlan& plan) {
  plan.stats = &app.command("stats", "says what a mount does and has done");
  plan.stats->flag("--all", plan.all, "every counter, one on a line");
  plan.stats->flag("--watch", plan.watch, "again every second");
  plan.health = &app.command("health", "says whether the mount needs an administrator");
  plan.health
      ->option("--timeout", plan.timeout_seconds, "seconds to wait for the daemon's answer")
      .with_default()
      .at_least(1);
  plan.gc = &app.command("gc", "cleans the bands that are worth it");
  plan.gc->option("--dead", plan.dead_percent, "percent: bands of which less is dead are left")
      .with_default()
      .between(1, 100);
  plan.gc->flag("--estimate", plan.only_estimate, "only say what would be done");
  plan.scrub = &app.command("scrub", "reads all file contents and verifies their checksums");
  plan.scrub
      ->option("MOUNTPOINT", plan.scrub_words,
               "before it: start, status, cancel or resume, for a scrub in the background")
      .required();
  plan.scrub->option("--rate", plan.scrub_plan.rate, "bytes to read a second at most")
      .at_least(1)
      .as_size();
  plan.scrub->option("--state", plan.scrub_plan.folder, "folder with the state of such scrubs")
      .with_default();
  for (CommandLine* const command : {plan.gc, plan.scrub}) {
    command->option("--progress", plan.progress, "how progress is shown on standard error")
        .one_of(lazyfs::kProgressForms)
        .with_default();
  }
  plan.sync = &app.command("sync", "makes everything durable");
  plan.wait = &app.command("wait", "waits until no daemon uses the device or image any more");
  plan.wait_timeout =
      &plan.wait->option("--timeout", plan.timeout_seconds, "seconds after which to give up")
           .at_least(0);
  plan.grow = &app.command("grow", "adds the bands that the device or image has room for");
  plan.shutdown = &app.command("shutdown", "stops at once, as a power cut would");
  plan.metrics = &app.command("metrics", "prints every counter for Prometheus");
  plan.metrics->option("--textfile", plan.folder,
                       "replace lazyfs-UUID.prom in this folder instead of printing");
  plan.top = &app.command("top", "shows what a mount does, until q is pressed");
  plan.top->option("--interval", plan.interval_seconds, "seconds").with_default().at_least(0);
  for (CommandLine* const command : {plan.stats, plan.health, plan.gc, plan.scrub}) {
    command->flag("--json", plan.json, "as one JSON object");
  }
  for (CommandLine* const command :
       {plan.stats, plan.health, plan.gc, plan.sync, plan.shutdown, plan.metrics}) {
    command->option("MOUNTPOINT", plan.path, "or any path on the mount, or its device").required();
  }
  plan.top->option("MOUNTPOINT", plan.path,
                   "or any path on the mount, or its device; without it the only mount");
  plan.wait->option("PATH", plan.path, "device, image, or a path on the mount").required();
  plan.grow->option("MOUNTPOINT", plan.path, "or a device or image, mounted or not").required();
  plan.grow->option("SIZE", plan.grow_bytes, "that an image file is given first")
      .at_least(1)
      .as_size();
}

// At most some 30 years, which no wait lasts, so that "inf" fits every clock's type.
// REQUIRES: seconds >= 0.
std::chrono::milliseconds milliseconds_of(double seconds) {
  return std::chrono::milliseconds(static_cast<long>(std::min(seconds, 1e9) * 1000));
}

void wait_until_free(const MountPlan& plan) {
  const std::chrono::milliseconds timeout = milliseconds_of(plan.timeout_seconds);
  const bool is_limited = plan.wait_timeout->was_given();
  if (lazyfs::wait_command(plan.path, is_limited ? std::optional(timeout) : std::nullopt)) return;
  lazyfs::fail_with(plan.path, "still in use");
}

// Returns the exit status.
int scrub(const MountPlan& plan) {
  lazyfs::ScrubPlan scrub = plan.scrub_plan;
  scrub.mount_point = lazyfs::mount_point_of(plan.scrub_words.back());
  scrub.json = plan.json;
  scrub.progress = plan.progress;
  const bool has_verb = plan.scrub_words.size() > 1;
  const std::string verb = has_verb ? plan.scrub_words.front() : "";
  if (!has_verb) return lazyfs::scrub_command(scrub) ? 0 : kNeedsCare;
  if (verb == "status") return lazyfs::scrub_status(scrub) ? 0 : kNeedsCare;
  if (verb == "start") lazyfs::start_scrub(scrub);
  if (verb == "resume") lazyfs::resume_scrub(scrub);
  if (verb == "cancel") lazyfs::cancel_scrub(scrub);
  return 0;
}

// Whether the words after "scrub" are right; prints what is wrong.
bool has_right_scrub_words(const MountPlan& plan) {
  const auto& words = plan.scrub_words;
  const std::vector<std::string> verbs{"start", "status", "cancel", "resume"};
  const bool is_right =
      !plan.scrub->was_given() || words.size() == 1 ||
      (words.size() == 2 && std::ranges::find(verbs, words.front()) != verbs.end());
  if (!is_right) {
    std::fputs("lazyfsctl: scrub: takes start, status, cancel or resume, and MOUNTPOINT\n", stderr);
  }
  return is_right;
}

// Returns the exit status.
int control_mount(const MountPlan& plan) {
  if (plan.wait->was_given()) wait_until_free(plan);
  if (plan.grow->was_given()) lazyfs::grow_command(plan.path, plan.grow_bytes);
  const auto point = [&] { return lazyfs::mount_point_of(plan.path); };
  if (plan.stats->was_given()) {
    const StatsForm form = plan.json  ? StatsForm::kJson
                           : plan.all ? StatsForm::kAll
                                      : StatsForm::kPage;
    plan.watch ? watch_stats(point(), form) : print_stats(point(), form);
  }
  if (plan.metrics->was_given()) lazyfs::metrics_command(point(), plan.folder);
  if (plan.top->was_given()) {
    lazyfs::top_command(plan.path.empty() ? lazyfs::only_mount_point() : point(),
                        milliseconds_of(plan.interval_seconds));
  }
  if (plan.gc->was_given()) {
    lazyfs::gc_command({.mount_point = point(),
                        .dead_percent = plan.dead_percent,
                        .only_estimate = plan.only_estimate,
                        .progress = plan.progress,
                        .json = plan.json});
  }
  if (plan.sync->was_given()) MountPoint(point()).sync();
  if (plan.shutdown->was_given()) shut_down(point());
  if (plan.scrub->was_given()) return scrub(plan);
  if (plan.health->was_given()) {
    const std::chrono::milliseconds timeout = milliseconds_of(plan.timeout_seconds);
    return lazyfs::health_command(plan.path, plan.json, timeout) ? 0 : kNeedsCare;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine app("lazyfsctl", "Prints the counters of a mounted lazyfs, and controls it.",
                  LAZYFS_VERSION);
  MountPlan plan;
  add_mounted(app, plan);
  NamingPlan naming;
  add_naming(app, naming);
  MapPlan maps;
  add_maps(app, maps);
  if (const auto status = app.parse(argc, argv)) return *status;
  if (!has_right_scrub_words(plan) || !has_right_place(maps)) return kWrongUsage;
  try {
    name_volumes(naming);
    print_maps(maps);
    const int status = control_mount(plan);
    return lazyfs::end_output("lazyfsctl", status);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "lazyfsctl: %s\n", e.what());
    return 1;
  }
}
