// fsck.lazyfs: checks a filesystem. Exit status as in fsck(8).
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "edi/image.h"
#include "fs/check.h"
#include "meta/store.h"

namespace {

using namespace lazyfs;

enum ExitStatus { kClean = 0, kLeftUncorrected = 4, kCouldNotRun = 8, kUsage = 16 };

struct Arguments {
  std::string device;
  bool no_change = false, preen = false, yes = false, force = false, data = false, json = false;
};

// Keeps a block device from being mounted while it is read; an image file is locked by opening it.
class BlockDeviceClaim {
 public:
  explicit BlockDeviceClaim(const std::string& path) {
    struct stat st {};
    is_block_device_ = stat(path.c_str(), &st) == 0 && S_ISBLK(st.st_mode);
    if (is_block_device_) fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_EXCL);
    busy_ = is_block_device_ && fd_ < 0 && errno == EBUSY;
  }
  ~BlockDeviceClaim() {
    if (fd_ >= 0) close(fd_);
  }
  BlockDeviceClaim(const BlockDeviceClaim&) = delete;
  BlockDeviceClaim& operator=(const BlockDeviceClaim&) = delete;
  bool is_busy() const { return busy_; }
  bool is_held() const { return fd_ >= 0; }

 private:
  bool is_block_device_ = false, busy_ = false;
  int fd_ = -1;
};

class Progress {
 public:
  explicit Progress(bool shown) : shown_(shown) {}
  void operator()(std::string_view stage, std::uint64_t done) {
    if (!shown_) return;
    std::fprintf(stderr, "\r%-10.*s %llu\033[K", static_cast<int>(stage.size()), stage.data(),
                 static_cast<unsigned long long>(done));
    pending_ = true;
  }
  void clear() {
    if (pending_) std::fprintf(stderr, "\r\033[K");
    pending_ = false;
  }

 private:
  const bool shown_;
  bool pending_ = false;
};

int refuse(const std::string& device, std::string_view why) {
  std::fprintf(stderr, "fsck.lazyfs: %s: %.*s\n", device.c_str(), static_cast<int>(why.size()),
               why.data());
  return kCouldNotRun;
}

void print_json(const Arguments& arguments, const fs::CheckReport& report,
                const std::vector<std::string>& problems) {
  const nlohmann::ordered_json json = {
      {"device", arguments.device},
      {"clean", report.problems == 0},
      {"complete", report.complete},
      {"problem_count", report.problems},
      {"problems", problems},
      {"nodes", report.nodes},
      {"items", report.items},
      {"inodes", report.inodes},
      {"directories", report.directories},
      {"names", report.names},
      {"orphans", report.orphans},
      {"extents", report.extents},
      {"live_blocks", report.live_blocks},
      {"dead_blocks", report.dead_blocks},
      {"unaccounted_blocks", report.unaccounted_blocks},
      {"verified_blocks", report.verified_blocks},
  };
  // A damaged name need not be UTF-8.
  std::puts(json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

void print_summary(const Arguments& arguments, const fs::CheckReport& report) {
  const auto number = [](std::uint64_t n) { return std::to_string(n); };
  std::string text = arguments.device + ": ";
  text += report.problems == 0 ? "clean" : number(report.problems) + " problems";
  text += ", " + number(report.inodes) + " inodes (" + number(report.directories) +
          " directories), " + number(report.live_blocks) + " live and " +
          number(report.dead_blocks) + " dead blocks";
  if (report.verified_blocks > 0)
    text += ", " + number(report.verified_blocks) + " blocks verified";
  if (report.orphans > 0) text += ", " + number(report.orphans) + " orphans for the next mount";
  if (report.unaccounted_blocks > 0) {
    text +=
        ", " + number(report.unaccounted_blocks) + " blocks lost in a crash, free after a mount";
  }
  std::puts(text.c_str());
}

int check(const Arguments& arguments, device::Device& device, meta::Store& store) {
  Progress progress(!arguments.json && isatty(STDERR_FILENO) != 0);
  std::vector<std::string> problems;
  const auto report = fs::check(
      store, device, {.data = arguments.data},
      [&](const std::string& text) {
        progress.clear();
        if (arguments.json) {
          problems.push_back(text);
        } else {
          std::puts((arguments.device + ": " + text).c_str());
        }
      },
      [&](std::string_view stage, std::uint64_t done) { progress(stage, done); });
  progress.clear();
  if (!report) return refuse(arguments.device, describe(report.error()));
  if (arguments.json) {
    print_json(arguments, *report, problems);
  } else {
    print_summary(arguments, *report);
  }
  if (report->problems == 0) return kClean;
  if (arguments.preen || arguments.yes) {
    std::fprintf(stderr, "fsck.lazyfs: %s: it cannot be repaired: this version only checks\n",
                 arguments.device.c_str());
  }
  return kLeftUncorrected;
}

int run(const Arguments& arguments) {
  const BlockDeviceClaim claim(arguments.device);
  if (claim.is_busy()) return refuse(arguments.device, describe(Errc::kDeviceBusy));
  const auto device =
      edi::open(arguments.device, {.read_only = true, .exclusive = !claim.is_held()});
  if (!device) return refuse(arguments.device, describe(device.error()));
  const auto store = meta::Store::open(**device, {.background = false, .read_only = true});
  if (!store) return refuse(arguments.device, describe(store.error()));
  return check(arguments, **device, **store);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Checks a lazyfs that is not mounted. It changes nothing: what disagrees is "
      "reported, and left.",
      "fsck.lazyfs");
  app.set_version_flag("--version", "fsck.lazyfs " LAZYFS_VERSION);
  app.footer("Exit status: 0 clean, 4 something disagrees, 8 could not run, 16 wrong usage.");
  Arguments arguments;
  auto* n = app.add_flag("-n", arguments.no_change, "change nothing");
  auto* p = app.add_flag("-p,-a", arguments.preen, "repair what is safe (nothing yet)");
  auto* y = app.add_flag("-y", arguments.yes, "repair everything (nothing yet)");
  n->excludes(p)->excludes(y);
  p->excludes(y);
  app.add_flag("-f", arguments.force, "check even if it seems clean (always so)");
  app.add_flag("--data", arguments.data, "read all file data too and verify its checksums");
  app.add_flag("--json", arguments.json, "print one JSON object");
  app.add_option("DEVICE", arguments.device, "EDI: image file or block device")->required();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? kClean : kUsage;
  }
  try {
    return run(arguments);
  } catch (const std::exception& e) {
    return refuse(arguments.device, e.what());
  }
}
