#include "tools/volume_reader.h"

#include <chrono>
#include <stdexcept>
#include <thread>

#include "disk/open.h"

namespace lazyfs {
namespace {

constexpr int kReads = 5;
constexpr std::chrono::milliseconds kBetweenReads{200};

Result<> read_once(const std::string& path,
                   const std::function<Result<>(meta::Store&, device::Device&)>& read) {
  ASSIGN_OR_RETURN(const auto device, disk::open(path, {.read_only = true, .exclusive = false}));
  ASSIGN_OR_RETURN(const auto store,
                   meta::Store::open(*device, {.background = false, .read_only = true}));
  return read(*store, *device);
}

bool may_pass(Errc error) {
  switch (error) {
    case Errc::kDeviceMissing:
    case Errc::kDeviceAccess:
    case Errc::kIsDirectory:
    case Errc::kEdiBadMagic:
    case Errc::kUnsupported:
    case Errc::kEdiBadVersion:
    case Errc::kIdentityMissing:
    case Errc::kImageBehindLoop:
    case Errc::kEdiOnBlockDevice:
    case Errc::kNoFilesystem:
    case Errc::kSuperblockVersion:
    case Errc::kSuperblockNewer:
    case Errc::kFeatureUnknown:
      return false;
    default:
      return true;
  }
}

}  // namespace

void read_volume(const std::string& path,
                 const std::function<Result<>(meta::Store&, device::Device&)>& read) {
  for (int tries = 1;; ++tries) {
    const auto done = read_once(path, read);
    if (done) return;
    if (tries == kReads || !may_pass(done.error())) {
      throw std::runtime_error(path + ": " + std::string(describe(done.error())));
    }
    std::this_thread::sleep_for(kBetweenReads);
  }
}

}  // namespace lazyfs
