#include "disk/open.h"

#include "device/backing.h"
#include "device/whole_blocks.h"
#include "edi/image.h"
#include "plain/plain_device.h"
#include "zoned/zoned_device.h"

namespace lazyfs::disk {
namespace {

using device::Backing;
using device::Device;

Result<std::unique_ptr<Device>> open_plain(const std::string& path, OpenOptions options) {
  ASSIGN_OR_RETURN(auto opened, plain::open(path, options));
  return opened;
}

Result<std::unique_ptr<Device>> open_image(const std::string& path, OpenOptions options) {
  ASSIGN_OR_RETURN(auto image, edi::open(path, options));  // warns of damage
  return device::WholeBlocks::make(std::move(image));
}

Result<std::unique_ptr<Device>> open_zoned(const std::string& path, OpenOptions options) {
  ASSIGN_OR_RETURN(auto opened, zoned::open(path, options));
  return opened;
}

Errc refusal_of_image(const Backing& device) {
  return device.is_loop_over_file() ? Errc::kImageBehindLoop : Errc::kEdiOnBlockDevice;
}

bool is_missing(Errc error) { return error == Errc::kIdentityMissing; }

}  // namespace

Result<std::unique_ptr<Device>> open(const std::string& path, OpenOptions options) {
  ASSIGN_OR_RETURN(const Backing backing, options.held
                                              ? options.held->duplicate()
                                              : Backing::open(path, true, Backing::Claim::kNone));
  if (!backing.is_block_device()) {
    auto image = open_image(path, options);
    const bool may_be_plain = !image && image.error() == Errc::kEdiBadMagic;
    if (!may_be_plain) return image;
    auto copied = open_plain(path, options);
    return !copied && is_missing(copied.error()) ? std::move(image) : std::move(copied);
  }
  if (backing.is_zoned()) {
    return options.undo ? fail(Errc::kUnsupported) : open_zoned(path, options);
  }
  auto opened = open_plain(path, options);
  if (opened || !is_missing(opened.error())) return opened;
  // An EDI is looked at after the identification blocks: mkfs may have left blocks of an old one.
  const auto image = edi::open_image(path, {.read_only = true, .exclusive = false});
  return fail(image ? refusal_of_image(backing) : opened.error());
}

edi::Image* image_of(device::Device& device) {
  auto* const whole = dynamic_cast<device::WholeBlocks*>(&device);
  return dynamic_cast<edi::Image*>(whole ? &whole->inner() : &device);
}

}  // namespace lazyfs::disk
