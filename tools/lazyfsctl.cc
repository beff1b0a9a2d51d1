// Asks a mounted lazyfs for its statistics and tells it what to do, through ioctls on its root
// directory.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>

#include "fuse/control.h"

namespace {

using lazyfs::fuse::StatsPiece;
using Json = nlohmann::ordered_json;

// "what: why", and what to do about it where there is something.
struct Trouble : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class MountPoint {
 public:
  explicit MountPoint(std::string path) : path_(std::move(path)) {
    fd_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECTORY);
    if (fd_ < 0) throw Trouble(path_ + ": " + std::strerror(errno));
  }
  ~MountPoint() { close(fd_); }
  MountPoint(const MountPoint&) = delete;
  MountPoint& operator=(const MountPoint&) = delete;

  void request(unsigned long code, void* argument) {
    if (ioctl(fd_, code, argument) == 0) return;
    if (errno == ENOTTY) throw Trouble(path_ + ": no lazyfs is mounted there");
    if (errno == EPERM) throw Trouble(path_ + ": only root may do that");
    throw Trouble(path_ + ": " + std::strerror(errno));
  }

  // First what the kernel still has, then what the daemon has.
  void sync() {
    if (syncfs(fd_) != 0) throw Trouble(path_ + ": " + std::strerror(errno));
    request(lazyfs::fuse::kSyncRequest, nullptr);
  }

  std::string stats() {
    std::string text;
    StatsPiece piece;
    do {
      piece.offset = static_cast<std::uint32_t>(text.size());
      request(lazyfs::fuse::kStatsRequest, &piece);
      if (piece.length > sizeof piece.text)
        throw Trouble(path_ + ": the daemon's answer is damaged");
      text.append(piece.text, piece.length);
    } while (piece.length > 0 && text.size() < piece.total);
    return text;
  }

 private:
  const std::string path_;
  int fd_ = -1;
};

void print_flat(const Json& value, const std::string& name) {
  if (!value.is_structured()) {
    std::printf("%-40s %s\n", name.c_str(),
                value.is_string() ? value.get<std::string>().c_str() : value.dump().c_str());
    return;
  }
  for (const auto& [key, inner] : value.items()) {
    print_flat(inner, name.empty() ? key : name + "." + key);
  }
}

struct StatsPlan {
  std::string mount_point;
  bool json = false, watch = false;
};

void stats(const StatsPlan& plan) {
  while (true) {
    const std::string text = MountPoint(plan.mount_point).stats();
    if (plan.watch && !plan.json) std::printf("\033[H\033[2J");
    if (plan.json) {
      std::printf("%s\n", text.c_str());
    } else {
      print_flat(Json::parse(text), "");
    }
    std::fflush(stdout);
    if (!plan.watch) return;
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
}

// The daemon holds an exclusive flock on its image for as long as it may write to it.
void wait_for_image(const std::string& image) {
  const int fd = open(image.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw Trouble(image + ": " + std::strerror(errno));
  int result = 0;
  do {
    result = flock(fd, LOCK_SH);
  } while (result != 0 && errno == EINTR);
  close(fd);
  if (result != 0) throw Trouble(image + ": " + std::strerror(errno));
}

void shut_down(const std::string& mount_point) {
  std::uint32_t flag = lazyfs::fuse::kShutDownNothing;
  MountPoint(mount_point).request(lazyfs::fuse::kShutDownRequest, &flag);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Watches and steers a mounted lazyfs.");
  app.set_version_flag("--version", "lazyfsctl " LAZYFS_VERSION);
  app.require_subcommand(1);
  StatsPlan plan;
  std::string path;

  auto* stats_command = app.add_subcommand("stats", "prints every counter");
  stats_command->add_flag("--json", plan.json, "as one JSON object");
  stats_command->add_flag("--watch", plan.watch, "again every second");
  stats_command->add_option("MOUNTPOINT", plan.mount_point)->required();
  auto* gc = app.add_subcommand("gc", "cleans bands until nothing is left that pays");
  gc->add_option("MOUNTPOINT", path)->required();
  auto* sync = app.add_subcommand("sync", "makes everything durable");
  sync->add_option("MOUNTPOINT", path)->required();
  auto* wait = app.add_subcommand("wait", "waits until no daemon uses the image any more");
  wait->add_option("IMAGE", path)->required();
  auto* shutdown = app.add_subcommand("shutdown", "stops at once, as a power cut would");
  shutdown->add_option("MOUNTPOINT", path)->required();
  CLI11_PARSE(app, argc, argv);

  try {
    if (*stats_command) stats(plan);
    if (*gc) MountPoint(path).request(lazyfs::fuse::kCollectGarbageRequest, nullptr);
    if (*sync) MountPoint(path).sync();
    if (*wait) wait_for_image(path);
    if (*shutdown) shut_down(path);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "lazyfsctl: %s\n", e.what());
    return 1;
  }
  return 0;
}
