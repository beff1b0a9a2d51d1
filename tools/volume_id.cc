#include "tools/volume_id.h"

#include <blkid/blkid.h>

#include <array>
#include <string_view>

#include "device/backing.h"
#include "device/whole_blocks.h"
#include "edi/image.h"
#include "plain/identity.h"
#include "tools/uuid.h"
#include "zoned/zoned_device.h"

namespace lazyfs {
namespace {

Result<VolumeId> identify_image(const std::string& path) {
  ASSIGN_OR_RETURN(auto image, edi::open_image(path, {.read_only = true, .exclusive = false}));
  const std::string version = "edi" + std::to_string(image->layout().header.version);
  ASSIGN_OR_RETURN(const auto whole, device::WholeBlocks::make(std::move(image)));
  ASSIGN_OR_RETURN(const meta::Superblock superblock, meta::read_superblock(*whole));
  return VolumeId{superblock.volume_uuid(), superblock.label, version};
}

Result<VolumeId> identify_zoned(const std::string& path, const device::Backing& backing) {
  const auto device =
      zoned::open(path, {.read_only = true, .exclusive = false, .held = &backing});
  if (!device) return fail(device.error() == Errc::kZonesBad ? Errc::kIdentityMissing
                                                             : device.error());
  const auto superblock = meta::read_superblock(**device);
  if (!superblock) return fail(Errc::kIdentityMissing);
  return VolumeId{superblock->volume_uuid(), superblock->label, "zoned"};
}

void add(std::string& text, std::string_view name, std::string_view value) {
  text.append("ID_FS_").append(name).append("=").append(value).append("\n");
}

}  // namespace

Result<VolumeId> identify(const std::string& path) {
  const auto backing = device::Backing::open(path, true, device::Backing::Claim::kNone);
  if (!backing) {
    const bool is_other = backing.error() == Errc::kNotADisk ||
                          backing.error() == Errc::kIsDirectory;
    return fail(is_other ? Errc::kIdentityMissing : backing.error());
  }
  if (backing->is_zoned()) return identify_zoned(path, *backing);
  const auto found = plain::find_identity(*backing);
  if (found) return VolumeId{found->identity.uuid, found->identity.label, "1"};
  if (found.error() == Errc::kDeviceRead) return fail(Errc::kDeviceRead);
  if (!backing->is_block_device()) {
    if (auto image = identify_image(path)) return image;
  }
  return fail(Errc::kIdentityMissing);
}

std::string udev_properties(const VolumeId& id) {
  const std::string uuid = uuid_text(id.uuid);
  std::string text;
  add(text, "TYPE", "lazyfs");
  add(text, "USAGE", "filesystem");
  add(text, "VERSION", id.version);
  add(text, "UUID", uuid);
  add(text, "UUID_ENC", uuid);
  if (id.label.empty()) return text;
  std::array<char, 4 * (meta::kMaxLabelBytes + 1)> value{};  // each byte may become \xNN
  if (blkid_safe_string(id.label.c_str(), value.data(), value.size()) == 0) {
    add(text, "LABEL", value.data());
  }
  if (blkid_encode_string(id.label.c_str(), value.data(), value.size()) == 0) {
    add(text, "LABEL_ENC", value.data());
  }
  return text;
}

}  // namespace lazyfs
