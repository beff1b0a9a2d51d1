// Prints the counters of a mounted lazyfs and sends it requests, through ioctls on its root
// directory; names volumes.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/json.h"
#include "fuse/requests/control.h"
#include "tools/command_line.h"
#include "tools/grow_command.h"
#include "tools/volume_commands.h"

namespace {

using lazyfs::fuse::ScrubPiece;
using lazyfs::fuse::StatsPiece;
using lazyfs::CommandLine;
using lazyfs::Json;

constexpr int kDamaged = 4;  // as fsck's "left uncorrected"

// The message is "what: why", and what to do about it if something can be done.
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

  // First the kernel writes its dirty pages to the daemon, then the daemon makes all durable.
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
  if (!value.is_object()) {
    std::printf("%-40s %s\n", name.c_str(),
                value.is_string() ? value.text().c_str() : value.dump().c_str());
    return;
  }
  for (const auto& [key, inner] : value.members()) {
    print_flat(inner, name.empty() ? key : name + "." + key);
  }
}

struct StatsPlan {
  std::string mount_point;
  bool json = false, watch = false;
};

void stats(const StatsPlan& plan) {
  while (true) {
    const std::string text = MountPoint(lazyfs::mount_point_of(plan.mount_point)).stats();
    if (plan.watch && !plan.json) std::printf("\033[H\033[2J");
    if (plan.json) {
      std::printf("%s\n", text.c_str());
    } else {
      const auto answer = Json::parse(text);
      if (!answer) throw Trouble(plan.mount_point + ": the daemon's answer is damaged");
      print_flat(*answer, "");
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

// Paths of the inodes that have one, found by a walk through the mount.
std::map<std::uint64_t, std::string> names_of(const std::string& mount_point,
                                              const std::set<std::uint64_t>& inodes) {
  namespace files = std::filesystem;
  std::map<std::uint64_t, std::string> names;
  const auto options = files::directory_options::skip_permission_denied;
  std::error_code error;
  files::recursive_directory_iterator at(mount_point, options, error), end;
  struct stat top {};
  if (stat(mount_point.c_str(), &top) != 0) return names;
  for (; !error && at != end && names.size() < inodes.size(); at.increment(error)) {
    struct stat st {};
    if (lstat(at->path().c_str(), &st) != 0) continue;
    if (st.st_dev != top.st_dev) {
      at.disable_recursion_pending();
    } else if (inodes.contains(st.st_ino)) {
      names.emplace(st.st_ino, at->path());
    }
  }
  return names;
}

struct ScrubFindings {
  std::uint64_t blocks = 0;
  std::vector<ScrubPiece::Found> damaged;
};

ScrubFindings scrub_all(const std::string& mount_point) {
  MountPoint mount(mount_point);
  ScrubPiece piece;
  ScrubFindings findings;
  const bool shown = isatty(STDERR_FILENO) != 0;
  while (piece.inode != 0) {
    mount.request(lazyfs::fuse::kScrubRequest, &piece);
    findings.blocks += piece.blocks;
    const std::size_t count = std::min(piece.damaged, ScrubPiece::kMaxFound);
    findings.damaged.insert(findings.damaged.end(), piece.found, piece.found + count);
    if (shown) {
      std::fprintf(stderr, "\r%llu blocks read, %zu damaged\033[K",
                   static_cast<unsigned long long>(findings.blocks), findings.damaged.size());
    }
  }
  if (shown) std::fprintf(stderr, "\r\033[K");
  return findings;
}

// Returns false when it found damage.
bool scrub(const std::string& mount_point, bool json) {
  const ScrubFindings findings = scrub_all(mount_point);
  std::set<std::uint64_t> inodes;
  for (const auto& found : findings.damaged) {
    if (found.what != ScrubPiece::kLostMetadata) inodes.insert(found.inode);
  }
  const auto names = names_of(mount_point, inodes);
  Json list = Json::array();
  for (const auto& found : findings.damaged) {
    const auto name = names.find(found.inode);
    const std::string path = name == names.end() ? "(without a name)" : name->second;
    const char* why =
        found.what == ScrubPiece::kBadChecksum ? "fails its checksum" : "cannot be read";
    if (found.what == ScrubPiece::kLostMetadata) {
      list.push_back(Json::object(
          {{"inode", found.inode}, {"last_inode", found.offset}, {"why", "metadata"}}));
    } else {
      list.push_back(Json::object(
          {{"path", path}, {"inode", found.inode}, {"offset", found.offset}, {"why", why}}));
    }
    if (json) continue;
    if (found.what == ScrubPiece::kLostMetadata) {
      std::printf("%s: metadata of inodes %llu to %llu cannot be read: run fsck.lazyfs\n",
                  mount_point.c_str(), static_cast<unsigned long long>(found.inode),
                  static_cast<unsigned long long>(found.offset));
    } else {
      std::printf("%s: inode %llu, byte %llu: the block %s\n", path.c_str(),
                  static_cast<unsigned long long>(found.inode),
                  static_cast<unsigned long long>(found.offset), why);
    }
  }
  if (json) {
    const Json all = Json::object({{"blocks", findings.blocks}, {"damaged", list}});
    std::puts(all.dump(true).c_str());
  } else {
    std::printf("%s: %llu blocks read, %zu damaged\n", mount_point.c_str(),
                static_cast<unsigned long long>(findings.blocks), findings.damaged.size());
  }
  return findings.damaged.empty();
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

}  // namespace

int main(int argc, char** argv) {
  CommandLine app("lazyfsctl", "Prints the counters of a mounted lazyfs, and controls it.",
                  LAZYFS_VERSION);
  StatsPlan plan;
  std::string path;

  CommandLine& stats_command = app.command("stats", "prints every counter");
  stats_command.flag("--json", plan.json, "as one JSON object");
  stats_command.flag("--watch", plan.watch, "again every second");
  stats_command.option("MOUNTPOINT", plan.mount_point).required();
  CommandLine& gc = app.command("gc", "cleans every band that is worth it now");
  gc.option("MOUNTPOINT", path).required();
  CommandLine& sync = app.command("sync", "makes everything durable");
  sync.option("MOUNTPOINT", path).required();
  CommandLine& wait = app.command("wait", "waits until no daemon uses the image any more");
  wait.option("IMAGE", path).required();
  CommandLine& shutdown = app.command("shutdown", "stops at once, as a power cut would");
  shutdown.option("MOUNTPOINT", path).required();
  bool scrub_json = false;
  CommandLine& scrub_command =
      app.command("scrub", "reads all file contents and verifies their checksums");
  scrub_command.flag("--json", scrub_json, "as one JSON object");
  scrub_command.option("MOUNTPOINT", path).required();
  std::string grow_path;
  std::uint64_t grow_bytes = 0;
  CommandLine& grow = app.command("grow", "adds the bands that the device or image has room for");
  grow.option("MOUNTPOINT", grow_path, "or a device or image, mounted or not").required();
  grow.option("SIZE", grow_bytes, "that an image file is given first").at_least(1).as_size();
  NamingPlan naming;
  add_naming(app, naming);
  if (const auto status = app.parse(argc, argv)) return *status;

  try {
    name_volumes(naming);
    if (!path.empty() && !wait.was_given()) path = lazyfs::mount_point_of(path);
    if (grow.was_given()) lazyfs::grow_command(grow_path, grow_bytes);
    if (stats_command.was_given()) stats(plan);
    if (gc.was_given()) MountPoint(path).request(lazyfs::fuse::kCollectGarbageRequest, nullptr);
    if (sync.was_given()) MountPoint(path).sync();
    if (wait.was_given()) wait_for_image(path);
    if (shutdown.was_given()) shut_down(path);
    if (scrub_command.was_given() && !scrub(path, scrub_json)) return kDamaged;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "lazyfsctl: %s\n", e.what());
    return 1;
  }
  return 0;
}
