#include "tools/scrub_state.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "base/json.h"
#include "tools/volume_commands.h"

namespace lazyfs {
namespace {

constexpr std::pair<ScrubState::Status, std::string_view> kStatusNames[] = {
    {ScrubState::Status::kRunning, "running"},
    {ScrubState::Status::kDone, "done"},
    {ScrubState::Status::kCancelled, "cancelled"},
    {ScrubState::Status::kFailed, "failed"}};

// Absolute, because a scrub in the background changes its working directory.
std::string path_in(const std::string& folder, const std::string& uuid) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(folder, error);
  if (!error) std::filesystem::create_directories(absolute, error);
  if (error) fail_with(folder, error.message());
  return absolute / ("scrub-" + uuid);
}

int open_lock(const std::string& path) {
  const std::string name = path + ".lock";
  const int fd = open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) fail_with(name, std::strerror(errno));
  return fd;
}

// Bytes of the lock file, which is empty.
constexpr off_t kBeginByte = 0, kScrubberByte = 1;

struct flock write_lock(off_t byte) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  return lock;
}

Json json_of(const std::vector<fuse::ScrubPiece::Found>& found) {
  Json list = Json::array();
  for (const auto& one : found) {
    list.push_back(
        Json::object({{"inode", one.inode}, {"offset", one.offset}, {"what", one.what}}));
  }
  return list;
}

ScrubState state_of(const Json& json) {
  ScrubState state;
  for (const auto& [status, name] : kStatusNames) {
    if (json["status"].text() == name) state.status = status;
  }
  state.failure = json["failure"].text();
  state.mount_point = json["mount_point"].text();
  state.pid = static_cast<std::int64_t>(json["pid"].number());
  state.started_seconds = json["started_seconds"].number();
  state.seconds = json["seconds"].real();
  state.rate = json["rate"].number();
  state.inode = json["inode"].number();
  state.file_block = json["file_block"].number();
  state.blocks = json["blocks"].number();
  state.total_blocks = json["total_blocks"].number();
  state.damaged = json["damaged"].number();
  for (const Json& one : json["found"].items()) {
    state.found.push_back({one["inode"].number(), one["offset"].number(),
                           static_cast<std::uint32_t>(one["what"].number()), 0});
  }
  return state;
}

}  // namespace

std::string to_json(const ScrubState& state) {
  std::string_view status;
  for (const auto& [value, name] : kStatusNames) {
    if (value == state.status) status = name;
  }
  return Json::object({{"status", status},
                       {"failure", state.failure},
                       {"mount_point", state.mount_point},
                       {"pid", static_cast<std::uint64_t>(state.pid)},
                       {"started_seconds", state.started_seconds},
                       {"seconds", state.seconds},
                       {"rate", state.rate},
                       {"inode", state.inode},
                       {"file_block", state.file_block},
                       {"blocks", state.blocks},
                       {"total_blocks", state.total_blocks},
                       {"damaged", state.damaged},
                       {"found", json_of(state.found)}})
      .dump(true);
}

std::optional<ScrubState> parse_scrub_state(std::string_view text) {
  constexpr std::string_view kNeeded[] = {
      "status", "failure", "mount_point", "pid",    "started_seconds", "seconds", "rate",
      "inode",  "blocks",  "file_block",  "found", "total_blocks",    "damaged"};
  const auto json = Json::parse(text);
  if (!json || !json->is_object()) return std::nullopt;
  for (const std::string_view name : kNeeded) {
    if (!json->contains(name)) return std::nullopt;
  }
  if (!(*json)["status"].is_string() || !(*json)["found"].is_array()) return std::nullopt;
  return state_of(*json);
}

ScrubFiles::ScrubFiles(const std::string& folder, const std::string& uuid)
    : path_(path_in(folder, uuid)), lock_fd_(open_lock(path_)) {}

ScrubFiles::~ScrubFiles() { close(lock_fd_); }

// A lock of the open file: a child of fork() shares it.
bool ScrubFiles::lock() {
  struct flock lock = write_lock(kBeginByte);
  return fcntl(lock_fd_, F_OFD_SETLK, &lock) == 0;
}

// A lock of the process: only of such a lock the kernel says who has it.
void ScrubFiles::announce() const {
  struct flock lock = write_lock(kScrubberByte);
  if (fcntl(lock_fd_, F_SETLK, &lock) != 0) fail_with(path_ + ".lock", std::strerror(errno));
}

std::optional<pid_t> ScrubFiles::scrubber() const {
  struct flock lock = write_lock(kScrubberByte);
  if (fcntl(lock_fd_, F_GETLK, &lock) != 0) fail_with(path_ + ".lock", std::strerror(errno));
  return lock.l_type == F_UNLCK ? std::nullopt : std::optional(lock.l_pid);
}

std::optional<ScrubState> ScrubFiles::read() const {
  std::ifstream file(path_ + ".json");
  if (!file) return std::nullopt;
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  auto state = parse_scrub_state(text);
  if (!state) fail_with(path_ + ".json", "damaged; remove it");
  return state;
}

void ScrubFiles::write(const ScrubState& state) const {
  const std::string next = path_ + ".new";
  std::ofstream file(next);
  file << to_json(state) << '\n';
  file.close();
  if (!file) fail_with(next, "cannot be written");
  if (std::rename(next.c_str(), (path_ + ".json").c_str()) != 0) {
    fail_with(path_ + ".json", std::strerror(errno));
  }
}

}  // namespace lazyfs
