#include "tools/health_command.h"

#include <unistd.h>

#include <cstdio>
#include <string_view>
#include <thread>
#include <vector>

#include "base/json.h"
#include "tools/mount_point.h"
#include "tools/volume_commands.h"

namespace lazyfs {
namespace {

// A request that the daemon does not answer can be ended only with the process.
void end_after(const std::string& path, std::chrono::seconds timeout, int status) {
  std::thread([=] {
    std::this_thread::sleep_for(timeout);
    std::printf("%s: the daemon has not answered within %lld s\n", path.c_str(),
                static_cast<long long>(timeout.count()));
    std::fflush(stdout);
    _exit(status);
  }).detach();
}

std::vector<std::string> findings_in(const Json& stats) {
  struct Count {
    const char *key, *meaning;
  };
  static constexpr Count kCounts[] = {
      {"bad_bands", "bands are set aside"},
      {"checksum_errors", "reads of data failed their checksum since the mount"},
      {"read_errors", "reads of data failed on the device since the mount"},
      {"write_back_errors", "attempts to write a file back failed since the mount"}};
  std::vector<std::string> findings;
  const std::string& state = stats["state"].text();
  if (state != "writable" && state != "read-only") findings.push_back("it is " + state);
  for (const auto& [key, meaning] : kCounts) {
    const std::uint64_t count = stats["data"][key].number();
    if (count > 0) findings.push_back(std::to_string(count) + " " + meaning);
  }
  return findings;
}

}  // namespace

bool health_command(const std::string& path, bool as_json, std::chrono::seconds timeout,
                    int needs_care) {
  end_after(path, timeout, needs_care);
  const std::string mount_point = mount_point_of(path);
  const auto stats = Json::parse(MountPoint(mount_point).stats());
  if (!stats || !stats->is_object()) fail_with(mount_point, "the daemon's answer is damaged");
  const std::vector<std::string> findings = findings_in(*stats);
  if (as_json) {
    const Json all = Json::object({{"mount_point", mount_point},
                                   {"healthy", findings.empty()},
                                   {"state", (*stats)["state"].text()},
                                   {"findings", findings}});
    std::puts(all.dump(true).c_str());
    return findings.empty();
  }
  for (const std::string& finding : findings) {
    std::printf("%s: %s\n", mount_point.c_str(), finding.c_str());
  }
  if (findings.empty()) {
    std::printf("%s: healthy, %s\n", mount_point.c_str(), (*stats)["state"].text().c_str());
  }
  return findings.empty();
}

}  // namespace lazyfs
