// The one place that chooses the kind of device: an Emulated Disk Image in a file, a plain block
// device, or a zoned one.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "device/backing.h"
#include "device/device.h"

namespace lazyfs::edi {
class Image;
}

namespace lazyfs::disk {

using device::OpenOptions;

// Opens what `path` holds. A disk with blocks smaller than kBlockBytes is used in blocks of
// kBlockBytes (device/whole_blocks.h). A file may also hold the layout of a plain block device: a
// copy of one. Errors: those of edi::open(), WholeBlocks::make(), plain::open() and zoned::open();
// kImageBehindLoop, kEdiOnBlockDevice; kUnsupported with an undo file on a zoned device, whose
// zones cannot be written back.
Result<std::unique_ptr<device::Device>> open(const std::string& path, OpenOptions options = {});

// The emulated disk that `device` is, or uses in whole blocks; null if it is of another kind.
edi::Image* image_of(device::Device& device);

}  // namespace lazyfs::disk
