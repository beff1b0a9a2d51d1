// Linking bands of an image that exists, and ending links: both write the header anew.
#pragma once

#include <memory>

#include "edi/image.h"

namespace lazyfs::edi {

// Makes the bands `first` to `last` (both included) one larger band; all must be shingled, empty
// and in no link. Afterwards `image` is another object, whose geometry has the link, and that is
// durable. No other call may run on the image meanwhile. Errors that leave the image as it was:
// kBadBand, kBadGeometry (also when the write pointer table lies between the bands), kBandNotEmpty,
// kDeviceReadOnly, kUnsupported for format 0. After kDeviceWrite, kDeviceFlush and the like `image`
// is null, as it is open which links there are.
Result<> link_bands(std::unique_ptr<Image>& image, BandId first, BandId last);

// Ends the link that begins with band `first`; the larger band must be empty. Errors as above;
// kBadGeometry when no link begins there.
Result<> unlink_bands(std::unique_ptr<Image>& image, BandId first);

}  // namespace lazyfs::edi
