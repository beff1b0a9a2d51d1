#include "tools/scrub_command.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>

#include "base/json.h"
#include "base/size.h"
#include "base/types.h"
#include "fuse/requests/control.h"
#include "tools/mount_point.h"
#include "tools/progress.h"
#include "tools/scrub_state.h"
#include "tools/volume_commands.h"
#include "tools/words.h"

namespace lazyfs {
namespace {

using fuse::ScrubPiece;

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

using ScrubClock = std::chrono::steady_clock;

volatile std::sig_atomic_t g_is_cancelled = 0;
void note_signal(int) { g_is_cancelled = 1; }

// From now on SIGTERM, SIGINT and SIGHUP end the scrub after its step.
void end_on_signals() {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) std::signal(signal, note_signal);
}

// A signal ends the sleep.
void sleep_for(double seconds) {
  timespec time{};
  time.tv_sec = static_cast<time_t>(seconds);
  time.tv_nsec = static_cast<long>((seconds - static_cast<double>(time.tv_sec)) * 1e9);
  nanosleep(&time, nullptr);
}

double seconds_since(ScrubClock::time_point begun) {
  return std::chrono::duration<double>(ScrubClock::now() - begun).count();
}

// Notes the findings of one step.
void take_step(MountPoint& mount, ScrubState& state) {
  ScrubPiece piece{.inode = state.inode, .file_block = state.file_block};
  mount.request(fuse::kScrubRequest, &piece);
  state.inode = piece.inode;
  state.file_block = piece.file_block;
  state.blocks += piece.blocks;
  const std::size_t count = std::min(piece.damaged, ScrubPiece::kMaxFound);
  const std::size_t room = ScrubState::kMaxFound - std::min(ScrubState::kMaxFound,
                                                            state.found.size());
  state.damaged += count;
  state.found.insert(state.found.end(), piece.found, piece.found + std::min(count, room));
}

ScrubState new_state(MountPoint& mount, const ScrubPlan& plan) {
  ScrubState state;
  state.mount_point = plan.mount_point;
  state.rate = plan.rate;
  state.started_seconds = static_cast<std::uint64_t>(::time(nullptr));
  const auto stats = Json::parse(mount.stats());
  if (stats && stats->contains("space")) {
    state.total_blocks = (*stats)["space"]["live_blocks"].number();
  }
  return state;
}

// Calls `each(state)` after each step, until all is read or a signal has come. Reads no more than
// `rate` bytes a second on average.
template <class Each>
void run_scrub(MountPoint& mount, ScrubState& state, Each&& each) {
  const auto begun = ScrubClock::now();
  const double seconds_before = state.seconds;
  const std::uint64_t blocks_before = state.blocks;
  while (state.inode != 0 && g_is_cancelled == 0) {
    take_step(mount, state);
    state.seconds = seconds_before + seconds_since(begun);
    each(state);
    const auto bytes = static_cast<double>((state.blocks - blocks_before) * kBlockBytes);
    const double ahead =
        state.rate == 0 ? 0 : bytes / static_cast<double>(state.rate) - seconds_since(begun);
    if (ahead > 0 && state.inode != 0 && g_is_cancelled == 0) sleep_for(ahead);
  }
  state.seconds = seconds_before + seconds_since(begun);
  state.status = state.inode == 0 ? ScrubState::Status::kDone : ScrubState::Status::kCancelled;
}

// ---- What was found -----------------------------------------------------------------------------

Json json_of(const ScrubPiece::Found& found, const std::string& path) {
  if (found.what == ScrubPiece::kLostMetadata) {
    return Json::object(
        {{"inode", found.inode}, {"last_inode", found.offset}, {"why", "metadata"}});
  }
  const bool is_checksum = found.what == ScrubPiece::kBadChecksum;
  return Json::object({{"path", path},
                       {"inode", found.inode},
                       {"offset", found.offset},
                       {"why", is_checksum ? "fails its checksum" : "cannot be read"}});
}

void print_found(const ScrubPiece::Found& found, const std::string& mount_point,
                 const std::string& path) {
  const auto inode = static_cast<unsigned long long>(found.inode);
  const auto offset = static_cast<unsigned long long>(found.offset);
  if (found.what == ScrubPiece::kLostMetadata) {
    std::printf("%s: metadata of inodes %llu to %llu cannot be read: run fsck.lazyfs\n",
                mount_point.c_str(), inode, offset);
    return;
  }
  std::printf("%s: inode %llu, byte %llu: the block %s\n", path.c_str(), inode, offset,
              found.what == ScrubPiece::kBadChecksum ? "fails its checksum" : "cannot be read");
}

// Prints what is damaged, or, with `json`, returns it.
Json report_found(const ScrubState& state, bool json) {
  std::set<std::uint64_t> inodes;
  for (const auto& found : state.found) {
    if (found.what != ScrubPiece::kLostMetadata) inodes.insert(found.inode);
  }
  const auto names = names_of(state.mount_point, inodes);
  Json list = Json::array();
  for (const auto& found : state.found) {
    const auto name = names.find(found.inode);
    const std::string path = name == names.end() ? "(without a name)" : name->second;
    list.push_back(json_of(found, path));
    if (!json) print_found(found, state.mount_point, path);
  }
  return list;
}

Done progress_of(const ScrubState& state) {
  return {"scrub", state.blocks * kBlockBytes, state.total_blocks * kBlockBytes, Unit::kBytes};
}

std::string result_text(const ScrubState& state) {
  return text_of("%llu blocks read, %llu damaged", static_cast<unsigned long long>(state.blocks),
                 static_cast<unsigned long long>(state.damaged));
}

// ---- In the background --------------------------------------------------------------------------

constexpr double kBetweenWrites = 1;  // seconds
constexpr int kStartTries = 1000;     // 10 ms apart
constexpr int kCancelTries = 600;     // 100 ms apart: a step may take some seconds

ScrubFiles files_of(const ScrubPlan& plan) {
  return {plan.folder, info_of(plan.mount_point)["uuid"].text()};
}

void scrub_in_background(const ScrubFiles& files, ScrubState state) {
  end_on_signals();
  files.announce();
  state.status = ScrubState::Status::kRunning;
  state.pid = getpid();
  files.write(state);
  try {
    MountPoint mount(state.mount_point);
    double written = 0;
    run_scrub(mount, state, [&](const ScrubState& now) {
      if (now.seconds - written < kBetweenWrites) return;
      written = now.seconds;
      files.write(now);
    });
  } catch (const std::exception& e) {
    state.status = ScrubState::Status::kFailed;
    state.failure = e.what();
  }
  files.write(state);
}

void become_background() {
  setsid();
  if (chdir("/") != 0) return;
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0) return;
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null, stream);
}

// Waits until the child has written its state, so that it can be asked about and cancelled.
void wait_for_state(const ScrubFiles& files, pid_t child) {
  for (int tries = 0; tries < kStartTries; ++tries) {
    const auto state = files.read();
    if (state && state->pid == child) return;
    if (waitpid(child, nullptr, WNOHANG) == child) break;
    sleep_for(0.01);
  }
  fail_with("scrub", "the program in the background has not begun");
}

// REQUIRES: `files` has the lock, which the child keeps.
void begin_background(const ScrubFiles& files, const ScrubState& state) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child < 0) fail_with("scrub", std::strerror(errno));
  if (child > 0) return wait_for_state(files, child);
  become_background();
  try {
    scrub_in_background(files, state);
  } catch (const std::exception&) {
    _exit(1);  // no place remains to report it
  }
  _exit(0);
}

// What a command for a scrub in the background has done.
void report_done(const ScrubPlan& plan, const std::string& done) {
  if (plan.json) {
    const Json answer = Json::object({{"mount_point", plan.mount_point}, {"done", done}});
    std::puts(answer.dump(true).c_str());
  } else {
    std::printf("%s: %s\n", plan.mount_point.c_str(), done.c_str());
  }
}

std::string_view status_text(const ScrubState& state, bool is_running) {
  if (is_running) return "running";
  switch (state.status) {
    case ScrubState::Status::kRunning: return "interrupted";
    case ScrubState::Status::kDone: return "done";
    case ScrubState::Status::kCancelled: return "cancelled";
    case ScrubState::Status::kFailed: return "failed";
  }
  return "";
}

}  // namespace

bool scrub_command(const ScrubPlan& plan) {
  MountPoint mount(plan.mount_point);
  ScrubState state = new_state(mount, plan);
  ProgressLine progress(plan.json && plan.progress == "auto" ? "never" : plan.progress);
  run_scrub(mount, state, [&](const ScrubState& now) { progress.show(progress_of(now)); });
  progress.clear();
  const Json found = report_found(state, plan.json);
  if (plan.json) {
    const Json all = Json::object({{"blocks", state.blocks}, {"damaged", found}});
    std::puts(all.dump(true).c_str());
  } else {
    std::printf("%s: %s\n", plan.mount_point.c_str(), result_text(state).c_str());
  }
  return state.damaged == 0;
}

void start_scrub(const ScrubPlan& plan) {
  MountPoint mount(plan.mount_point);
  ScrubFiles files = files_of(plan);
  if (!files.lock()) fail_with(plan.mount_point, "a scrub is running already");
  begin_background(files, new_state(mount, plan));
  report_done(plan, "the scrub has begun");
}

void resume_scrub(const ScrubPlan& plan) {
  ScrubFiles files = files_of(plan);
  if (!files.lock()) fail_with(plan.mount_point, "a scrub is running already");
  auto state = files.read();
  if (!state) fail_with(plan.mount_point, "no scrub was started");
  if (state->inode == 0) fail_with(plan.mount_point, "the last scrub is complete");
  state->mount_point = plan.mount_point;
  state->failure.clear();
  if (plan.rate > 0) state->rate = plan.rate;
  begin_background(files, *state);
  report_done(plan, "the scrub continues");
}

void cancel_scrub(const ScrubPlan& plan) {
  const ScrubFiles files = files_of(plan);
  const auto scrubber = files.scrubber();
  if (!scrubber) fail_with(plan.mount_point, "no scrub is running");
  if (kill(*scrubber, SIGTERM) != 0) fail_with(plan.mount_point, std::strerror(errno));
  for (int tries = 0; tries < kCancelTries && files.is_running(); ++tries) sleep_for(0.1);
  if (files.is_running()) fail_with(plan.mount_point, "the scrub does not end");
  report_done(plan, "the scrub was cancelled: " + result_text(*files.read()));
}

bool scrub_status(const ScrubPlan& plan) {
  const ScrubFiles files = files_of(plan);
  auto state = files.read();
  if (!state) fail_with(plan.mount_point, "no scrub was started");
  const bool is_running = files.is_running();
  state->mount_point = plan.mount_point;
  const std::string_view status = status_text(*state, is_running);
  const Json found = report_found(*state, plan.json);
  if (plan.json) {
    Json all = *Json::parse(to_json(*state));
    all["status"] = status;
    all["found"] = found;
    std::puts(all.dump(true).c_str());
    return state->damaged == 0;
  }
  std::printf("%s: %.*s: %s\n", plan.mount_point.c_str(), static_cast<int>(status.size()),
              status.data(), result_text(*state).c_str());
  if (!state->failure.empty()) std::printf("%s\n", state->failure.c_str());
  if (is_running) std::printf("%s\n", progress_text(progress_of(*state), state->seconds).c_str());
  return state->damaged == 0;
}

}  // namespace lazyfs
