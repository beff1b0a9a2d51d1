#include "tools/metrics_command.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "tools/mount_point.h"
#include "tools/volume_commands.h"

namespace lazyfs {
namespace {

// A collector that reads the folder sees the old file or the new one.
void replace_file(const std::string& path, const std::string& text) {
  const std::string next = path + "." + std::to_string(getpid());
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(next.c_str(), "wxe"),
                                                             &std::fclose);
  if (!file) fail_with(next, std::strerror(errno));
  const bool is_written = fchmod(fileno(file.get()), 0644) == 0 &&
                          std::fputs(text.c_str(), file.get()) >= 0 &&
                          std::fflush(file.get()) == 0 &&
                          std::rename(next.c_str(), path.c_str()) == 0;
  if (is_written) return;
  const int error = errno;
  std::remove(next.c_str());
  fail_with(path, std::strerror(error));
}

}  // namespace

MountFigures figures_of(const std::string& mount_point) {
  auto stats = Json::parse(MountPoint(mount_point).stats());
  if (!stats || !stats->is_object()) fail_with(mount_point, "the daemon's answer is damaged");
  return {.mount_point = mount_point,
          .device = source_of(mount_point).value_or(""),
          .stats = std::move(*stats),
          .info = info_of(mount_point)};
}

void metrics_command(const std::string& mount_point, const std::string& folder) {
  const MountFigures figures = figures_of(mount_point);
  const std::string text = metrics_text(figures);
  if (folder.empty()) {
    std::fputs(text.c_str(), stdout);
    return;
  }
  replace_file(folder + "/lazyfs-" + text_in(figures.info, "uuid") + ".prom", text);
}

}  // namespace lazyfs
