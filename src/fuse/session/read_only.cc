#include "fuse/session/read_only.h"

#include <sys/mount.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string_view>

#include "base/log.h"

namespace lazyfs::fuse {

namespace {

constexpr auto kTryAgainAfter = std::chrono::seconds(1);

// A line of /proc/self/mountinfo.
struct Mount {
  std::string id, point, options;  // options: of the mount, and behind a comma of the filesystem
};

// Blanks and the like are written as \ooo there.
std::string unescaped(const std::string& text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      plain.push_back(static_cast<char>(std::stoi(text.substr(i + 1, 3), nullptr, 8)));
      i += 3;
    } else {
      plain.push_back(text[i]);
    }
  }
  return plain;
}

// What is mounted at `point`; the last one lies on top.
std::optional<Mount> mount_at(const std::string& point) {
  std::optional<Mount> found;
  std::ifstream lines("/proc/self/mountinfo");
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    Mount mount;
    std::string parent, device, root, word;
    words >> mount.id >> parent >> device >> root >> mount.point >> mount.options;
    if (unescaped(mount.point) != point) continue;
    while (words >> word) {
    }
    mount.options += "," + word;
    found = mount;
  }
  return found;
}

unsigned long flags_of(const std::string& options) {
  static const std::map<std::string_view, unsigned long> known = {
      {"nosuid", MS_NOSUID},     {"nodev", MS_NODEV},          {"noexec", MS_NOEXEC},
      {"sync", MS_SYNCHRONOUS},  {"dirsync", MS_DIRSYNC},      {"noatime", MS_NOATIME},
      {"relatime", MS_RELATIME}, {"nodiratime", MS_NODIRATIME}};
  unsigned long flags = 0;
  std::istringstream names(options);
  for (std::string name; std::getline(names, name, ',');) {
    if (const auto flag = known.find(name); flag != known.end()) flags |= flag->second;
  }
  return flags;
}

}  // namespace

void ReadOnlyTurn::start() {
  if (const auto mount = mount_at(mount_point_)) mount_id_ = mount->id;
  thread_ = std::thread([this] { run(); });
}

ReadOnlyTurn::~ReadOnlyTurn() {
  {
    MutexLock lock(mu_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void ReadOnlyTurn::ask() {
  MutexLock lock(mu_);
  asked_ = true;
  changed_.notify_all();
}

ReadOnlyTurn::Outcome ReadOnlyTurn::remount() const {
  const auto mount = mount_at(mount_point_);
  if (!mount || mount->id != mount_id_) return Outcome::kDone;  // it has gone
  const int error = keeper_->remount_read_only(flags_of(mount->options));
  if (error == 0) {
    log::warn("{} is mounted read-only now", mount_point_);
    return Outcome::kDone;
  }
  if (error == EBUSY) return Outcome::kLater;
  log::warn("{} cannot be remounted read-only, but nothing is written any more: {}", mount_point_,
            std::strerror(error));
  return Outcome::kDone;
}

void ReadOnlyTurn::run() {
  {
    MutexLock lock(mu_);
    while (!asked_ && !stopping_) changed_.wait(mu_);
  }
  for (bool first = true;; first = false) {
    {
      MutexLock lock(mu_);
      if (stopping_) return;
    }
    if (remount() == Outcome::kDone) return;
    if (first) {
      log::warn("{} is shown as read-only as soon as no file is open for writing", mount_point_);
    }
    MutexLock lock(mu_);
    if (!stopping_) changed_.wait_for(mu_, kTryAgainAfter);
  }
}

}  // namespace lazyfs::fuse
