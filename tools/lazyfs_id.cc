// Prints the properties of the lazyfs on a device, for the udev rule of contrib/udev.
#include <cstdio>
#include <exception>

#include "tools/command_line.h"
#include "tools/volume_id.h"

namespace {

constexpr int kFailed = 1, kNoLazyfs = 2;

int complain(const std::string& device, std::string_view why) {
  std::fprintf(stderr, "lazyfs-id: %s: %.*s\n", device.c_str(), static_cast<int>(why.size()),
               why.data());
  return kFailed;
}

}  // namespace

int main(int argc, char** argv) {
  lazyfs::CommandLine app("lazyfs-id",
                          "Prints the type, UUID and label of the lazyfs on DEVICE as udev wants "
                          "them.",
                          LAZYFS_VERSION);
  app.set_footer("Exit status: 0 recognised, 1 DEVICE cannot be read, 2 no lazyfs, wrong usage.");
  std::string device;
  app.option("DEVICE", device, "block device or image file").required();
  if (const auto status = app.parse(argc, argv)) return *status;
  try {
    const auto id = lazyfs::identify(device);
    if (id) {
      std::fputs(lazyfs::udev_properties(*id).c_str(), stdout);
      return std::fflush(stdout) == 0 ? 0 : kFailed;
    }
    complain(device, lazyfs::describe(id.error()));
    return id.error() == lazyfs::Errc::kIdentityMissing ? kNoLazyfs : kFailed;
  } catch (const std::exception& e) {
    return complain(device, e.what());
  }
}
