#include "tools/grow_command.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "base/size.h"
#include "disk/open.h"
#include "fs/volume/volume.h"
#include "fuse/requests/control.h"
#include "tools/block_device_claim.h"
#include "tools/volume_commands.h"

namespace lazyfs {
namespace {

void print_growth(const std::string& path, const fuse::GrowRequest& growth) {
  std::printf("%s: grown from %s in %u bands to %s in %u bands\n", path.c_str(),
              size_text(growth.total_before).c_str(), growth.bands_before,
              size_text(growth.total_after).c_str(), growth.bands_after);
}

void grow_mounted(const std::string& path, const std::string& mount_point, std::uint64_t bytes) {
  fuse::GrowRequest request;
  request.bytes = bytes;
  const int fd = open(mount_point.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECTORY);
  if (fd < 0) fail_with(mount_point, std::strerror(errno));
  const int error = ioctl(fd, fuse::kGrowRequest, &request) == 0 ? 0 : errno;
  close(fd);
  if (error == ENOTTY) fail_with(path, "no lazyfs is mounted there");
  if (error == EPERM) fail_with(path, "only root may do that");
  if (error != 0) fail_with(path, std::strerror(error));
  const std::size_t length = strnlen(request.reason, sizeof request.reason);
  if (length > 0) fail_with(path, std::string_view(request.reason, length));
  print_growth(path, request);
}

// Whether the path may be an image. An image that is stored on a mount is grown itself, not the
// volume that it is stored on. A damaged image, or one in use, is not taken for an ordinary file.
bool may_be_image(const std::string& path) {
  const auto opened = disk::open(path, {.read_only = true, .exclusive = false});
  return opened || opened.error() != Errc::kEdiBadMagic;
}

// Mounts the volume in this process, without threads. This also recovers it after a crash.
void grow_unmounted(const std::string& path, std::uint64_t bytes) {
  const BlockDeviceClaim claim(path);
  if (claim.is_busy()) fail_with(path, describe(Errc::kDeviceBusy));
  const auto device = disk::open(path, {.exclusive = !claim.is_held()});
  if (!device) fail_with(path, describe(device.error()));
  auto volume = fs::Volume::mount(**device, {.background = false});
  if (!volume) fail_with(path, describe(volume.error()));
  const fs::VolumeInfo before = (*volume)->info();
  const Result<> grown = (*volume)->grow(bytes);
  const fs::VolumeInfo after = (*volume)->info();
  const Result<> ended = (*volume)->unmount();
  for (const Result<>& done : {grown, ended}) {
    if (!done) fail_with(path, describe(done.error()));
  }
  print_growth(path, {.total_before = before.total_bytes,
                      .total_after = after.total_bytes,
                      .bands_before = before.bands,
                      .bands_after = after.bands});
}

}  // namespace

void grow_command(const std::string& path, std::uint64_t bytes) {
  struct stat st {};
  if (stat(path.c_str(), &st) != 0) fail_with(path, std::strerror(errno));
  if (S_ISDIR(st.st_mode)) return grow_mounted(path, mount_point_of(path), bytes);
  if (const auto mount = mounted_from(path)) return grow_mounted(path, *mount, bytes);
  const bool is_any_file = S_ISREG(st.st_mode) && source_of(path) && !may_be_image(path);
  if (is_any_file) return grow_mounted(path, mount_point_of(path), bytes);
  grow_unmounted(path, bytes);
}

}  // namespace lazyfs
