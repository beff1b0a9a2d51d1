// The FUSE limit: a filesystem in memory under lazyfs' own transport and request handlers. No
// filesystem with this transport and these settings can be faster.

#include "bench/memory_volume.h"
#include "fuse/session/daemon.h"
#include "fuse/session/remount.h"
#include "tools/command_line.h"

int main(int argc, char** argv) {
  lazyfs::CommandLine app("fuse_limit",
                          "Mounts a filesystem in memory: what FUSE alone costs.", nullptr);
  lazyfs::fuse::DaemonPlan plan;
  std::vector<std::string> options;
  bool keep_contents = false;
  app.flag("-f", plan.foreground, "stay in the foreground");
  app.flag("--keep-contents", keep_contents, "files keep their contents, not only their sizes");
  app.option("-o", options, "mount options, as for lazyfs").one_each();
  app.option("SOURCE", plan.source,
                 "a block device makes it a fuseblk mount; nothing is read or written")
      .required();
  app.option("MOUNTPOINT", plan.mount_point).required();
  if (const auto status = app.parse(argc, argv)) return *status;
  plan.program = "fuse_limit";
  auto parsed = lazyfs::fuse::parse_options(options, true);
  if (!parsed) {
    std::fprintf(stderr, "fuse_limit: %s\n", parsed.error().c_str());
    return 1;
  }
  plan.options = *parsed;
  if (plan.options.remount) return lazyfs::fuse::remount(plan, options);
  return lazyfs::fuse::run_daemon(plan, [&](const lazyfs::fuse::DaemonPlan&) {
    return std::expected<std::shared_ptr<lazyfs::fs::Volume>, std::string>(
        std::make_shared<lazyfs::bench::MemoryVolume>(keep_contents));
  });
}
