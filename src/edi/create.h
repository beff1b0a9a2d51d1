// Makes an Emulated Disk Image in a new sparse file or on a plain block device.
#pragma once

#include <string>
#include <vector>

#include "device/backing.h"
#include "edi/layout.h"

namespace lazyfs::edi {

struct CreateOptions {
  std::uint32_t format = 1;  // 0: one zone, no conventional or linked bands
  std::uint32_t block_bytes = kBlockBytes;
  std::vector<Zone> zones;
  std::vector<std::uint32_t> conventional;  // bands, in any order
  std::vector<BandRange> linked;            // first and last band of each link, in any order
  bool overwrite = false;                   // replace an existing image or file
  // Of every band, in format 1; empty: all bands are empty. The blocks before a write pointer hold
  // zeros.
  std::vector<std::uint32_t> write_pointers;
};

// Returns the size of an image with these options. Errors: kBadGeometry, kEdiBadVersion.
Result<std::uint64_t> image_bytes(const CreateOptions& options);

// Returns options with one zone: as many bands of `band_blocks` blocks as fit into `bytes`.
// Error: kBadGeometry if no band fits.
Result<CreateOptions> fill(std::uint64_t bytes, std::uint32_t band_blocks,
                           std::uint32_t block_bytes = kBlockBytes);

// Makes an image, durably. Removes a new file again if an error occurs.
// Errors: kBadGeometry, kEdiBadVersion, kDeviceBusy, kDeviceNoSpace, kDeviceMissing, kDeviceAccess,
// kDeviceWrite, kDeviceFlush; kEdiExists without `overwrite` (on a block device only if it holds an
// EDI).
Result<> create(const std::string& path, const CreateOptions& options);

// As create(). Returns the file with its claim, so that no other process claims the image before
// the caller uses it (OpenOptions::held). Of a block device only create() itself holds a claim.
Result<device::Backing> create_claimed(const std::string& path, const CreateOptions& options);

// Makes an image in a file that the caller has opened for writing, durably. Replaces the contents.
// Errors: as create().
Result<> overwrite(device::Backing& file, const CreateOptions& options);

}  // namespace lazyfs::edi
