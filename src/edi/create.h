// Making an Emulated Disk Image: a new sparse file, or a plain block device that becomes one.
#pragma once

#include <string>
#include <vector>

#include "edi/layout.h"

namespace lazyfs::edi {

struct CreateOptions {
  std::uint32_t format = 1;  // 0: one zone, nothing conventional or linked
  std::uint32_t block_bytes = kBlockBytes;
  std::vector<Zone> zones;
  std::vector<std::uint32_t> conventional;  // bands, in any order
  std::vector<BandRange> linked;            // first and last band of each link, in any order
  bool overwrite = false;                   // an image or file that is there already
};

// All that an image of these options needs. Errors: kBadGeometry, kEdiBadVersion.
Result<std::uint64_t> image_bytes(const CreateOptions& options);

// Options of one zone: as many bands of `band_blocks` as an image of `bytes` can hold.
// Error: kBadGeometry when not even one fits.
Result<CreateOptions> fill(std::uint64_t bytes, std::uint32_t band_blocks,
                           std::uint32_t block_bytes = kBlockBytes);

// Size of a file or block device. Errors: kDeviceMissing, kDeviceAccess, kDeviceRead.
Result<std::uint64_t> backing_bytes(const std::string& path);

// Every band is empty afterwards, and that is durable. Errors: kBadGeometry, kEdiBadVersion,
// kEdiExists without `overwrite` (on a block device: when it holds an EDI), kDeviceBusy,
// kDeviceNoSpace, kDeviceMissing, kDeviceAccess, kDeviceWrite, kDeviceFlush. A file that could not
// be made whole is taken away again.
Result<> create(const std::string& path, const CreateOptions& options);

}  // namespace lazyfs::edi
