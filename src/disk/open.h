// The one place that chooses the kind of device: an Emulated Disk Image in a file, a plain block
// device, or a zoned one.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "device/backing.h"
#include "device/device.h"

namespace lazyfs::disk {

struct OpenOptions {
  bool read_only = false;
  bool exclusive = true;  // claim it; kDeviceBusy if another process has done so
  // The file or device, opened before, with a claim if it has one; `path` is not opened again.
  // It must live during the call. Null: open `path`.
  const device::Backing* held = nullptr;
};

// Opens what `path` holds. A file may also hold the layout of a plain block device: a copy of one.
// Errors: those of edi::open(), plain::open() and zoned::open(); kEdiOnBlockDevice.
Result<std::unique_ptr<device::Device>> open(const std::string& path, OpenOptions options = {});

}  // namespace lazyfs::disk
