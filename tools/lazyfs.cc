// Mounts a lazyfs: lazyfs [-f] [-o OPTION,...] DEVICE MOUNTPOINT.
#include <unistd.h>

#include "device/backing.h"
#include "disk/open.h"
#include "fs/volume/remountable_volume.h"
#include "fs/volume/volume.h"
#include "fuse/session/daemon.h"
#include "fuse/session/remount.h"
#include "meta/log/features.h"
#include "tools/command_line.h"

namespace {

using lazyfs::Errc;
using lazyfs::fuse::DaemonPlan;

// A remedy, if one is known.
std::string_view advice(Errc error) {
  switch (error) {
    case Errc::kDeviceTruncated:
      return "; was it copied completely?";
    case Errc::kDeviceBusy:
      return "; is it mounted already, or still being unmounted?";
    case Errc::kDeviceReadOnly:
      return "; mount it with -o ro";
    case Errc::kDeviceAccess:
      return "; mounting needs root, or to own the image";
    default:
      return "";
  }
}

std::unexpected<std::string> trouble(const DaemonPlan& plan, Errc error, std::string_view text) {
  return std::unexpected(plan.source + ": " + std::string(text) + std::string(advice(error)));
}

using lazyfs::fs::RemountableVolume;

// With its write-back cache the kernel sets the times of written files, by its coarse clock.
lazyfs::Clock& clock_for(const DaemonPlan& plan) {
  return plan.options.session.requests.writeback_cache ? lazyfs::coarse_clock()
                                                       : lazyfs::system_clock();
}

// A daemon cannot open a file for writing once it is confined (fuse/session/confine.h). So the
// device is opened for writing now if that is allowed, and nothing is written before a remount.
RemountableVolume::OpenDevice opener_for_reading(const DaemonPlan& plan) {
  using lazyfs::device::Backing;
  using Device = std::unique_ptr<lazyfs::device::Device>;
  auto held = std::make_shared<lazyfs::Result<Backing>>(
      Backing::open(plan.source, false, Backing::Claim::kExclusive));
  return [held, path = plan.source](bool read_only) -> lazyfs::Result<Device> {
    if (*held) {
      return lazyfs::disk::open(
          path, {.read_only = read_only, .exclusive = false, .held = &**held});
    }
    if (!read_only) return lazyfs::fail(held->error());
    return lazyfs::disk::open(path, {.read_only = true});
  };
}

std::expected<std::shared_ptr<lazyfs::fs::Volume>, std::string> open_volume(
    const DaemonPlan& plan) {
  const bool read_only = plan.options.volume.read_only;
  const RemountableVolume::OpenDevice open =
      read_only ? opener_for_reading(plan)
                : [path = plan.source](bool) { return lazyfs::disk::open(path); };
  auto volume = RemountableVolume::mount(open, plan.options.volume, clock_for(plan));
  if (volume) return *std::move(volume);
  const Errc error = volume.error();
  const auto device = open(read_only);
  return trouble(plan, error, device ? lazyfs::meta::explain(**device, error)
                                     : std::string(describe(error)));
}

}  // namespace

int main(int argc, char** argv) {
  lazyfs::CommandLine app(
      "lazyfs",
      "Mounts the lazyfs on DEVICE, an image file or a block device, at MOUNTPOINT.",
      LAZYFS_VERSION);
  DaemonPlan plan;
  std::vector<std::string> options;
  app.set_footer("lazyfs -o help lists the mount options that change something.");
  app.flag("-f", plan.foreground, "stay in the foreground");
  app.option("-o", options, "mount options, comma-separated; man lazyfs lists them")
      .one_each();
  app.option("DEVICE", plan.source).required();
  app.option("MOUNTPOINT", plan.mount_point).required();
  if (argc == 3 && std::string_view(argv[1]) == "-o" && std::string_view(argv[2]) == "help") {
    std::fputs(lazyfs::fuse::list_options().c_str(), stdout);
    return lazyfs::end_output("lazyfs", 0);
  }
  if (const auto status = app.parse(argc, argv)) return *status;
  plan.program = "lazyfs";
  plan.option_lists = options;
  auto parsed = lazyfs::fuse::parse_options(options, geteuid() == 0);
  if (!parsed) {
    std::fprintf(stderr, "lazyfs: %s\n", parsed.error().c_str());
    return 1;
  }
  plan.options = *std::move(parsed);
  if (plan.options.remount) return lazyfs::fuse::remount(plan, options);
  return lazyfs::fuse::run_daemon(plan, open_volume);
}
