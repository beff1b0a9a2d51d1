#include "tools/health_command.h"

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "base/json.h"
#include "tools/answer_in_time.h"
#include "tools/mount_point.h"
#include "tools/volume_commands.h"
#include "tools/words.h"

namespace lazyfs {
namespace {

std::vector<std::string> findings_in(const Json& stats) {
  struct Count {
    const char *key, *noun, *meaning;
  };
  static constexpr Count kCounts[] = {
      {"bad_bands", "band", "set aside"},
      {"checksum_errors", "read", "of data with a wrong checksum since the mount"},
      {"read_errors", "read", "of data that failed on the device since the mount"},
      {"write_back_errors", "attempt", "to write a file back that failed since the mount"}};
  std::vector<std::string> findings;
  const std::string& state = stats["state"].text();
  if (state != "writable" && state != "read-only") findings.push_back("it is " + state);
  for (const auto& [key, noun, meaning] : kCounts) {
    const std::uint64_t count = stats["data"][key].number();
    if (count > 0) findings.push_back(count_text(count, noun) + " " + meaning);
  }
  return findings;
}

struct Health {
  std::string mount_point, state;
  std::vector<std::string> findings;
};

// Runs in a child process, because finding the mount point may ask the daemon, too.
std::string ask_mount_of(const std::string& path) {
  const std::string mount_point = mount_point_of(path);
  const auto stats = Json::parse(MountPoint(mount_point).stats());
  if (!stats || !stats->is_object()) fail_with(mount_point, "the daemon's answer is damaged");
  return Json::object({{"mount_point", mount_point}, {"stats", *stats}}).dump();
}

Health unanswered(const std::string& path, std::chrono::milliseconds timeout) {
  const double seconds = std::chrono::duration<double>(timeout).count();
  return {path, "does not answer",
          {text_of("the daemon has not answered within %g s", seconds)}};
}

// Returns whether there is no finding.
bool print(const Health& health, bool as_json) {
  const bool is_healthy = health.findings.empty();
  if (as_json) {
    const Json all = Json::object({{"mount_point", health.mount_point},
                                   {"healthy", is_healthy},
                                   {"state", health.state},
                                   {"findings", health.findings}});
    std::puts(all.dump(true).c_str());
    return is_healthy;
  }
  const std::string path = printable(health.mount_point);
  const char* const name = path.c_str();
  for (const std::string& finding : health.findings) std::printf("%s: %s\n", name, finding.c_str());
  if (is_healthy) std::printf("%s: healthy, %s\n", name, health.state.c_str());
  return is_healthy;
}

}  // namespace

bool health_command(const std::string& path, bool as_json, std::chrono::milliseconds timeout) {
  const auto answer = answer_in_time(timeout, [&] { return ask_mount_of(path); });
  if (!answer) return print(unanswered(path, timeout), as_json);
  const auto parts = Json::parse(*answer);
  if (!parts) fail_with(path, "the daemon's answer is damaged");
  const Json &mount_point = (*parts)["mount_point"], &stats = (*parts)["stats"];
  return print({mount_point.text(), stats["state"].text(), findings_in(stats)}, as_json);
}

}  // namespace lazyfs
