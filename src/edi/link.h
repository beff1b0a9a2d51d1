// Links bands of an existing image, and ends links. Both rewrite the header.
#pragma once

#include <memory>

#include "edi/image.h"

namespace lazyfs::edi {

// Makes the bands `first` to `last` (both included) one larger band, durably. Replaces `image` by a
// new object whose geometry has the link. REQUIRES: no other call on the image runs.
// Errors that leave the image unchanged: kBadBand, kBadGeometry (a band is conventional or in a
// link, or the write pointer table is between the bands), kBandNotEmpty, kDeviceReadOnly,
// kUnsupported for format 0.
// After any other error `image` is null, because the links on the disk are then unknown.
Result<> link_bands(std::unique_ptr<Image>& image, BandId first, BandId last);

// Ends the link whose first band is `first`. Errors as above; kBandNotEmpty if the link is not
// empty, kBadGeometry if no link starts with that band.
Result<> unlink_bands(std::unique_ptr<Image>& image, BandId first);

}  // namespace lazyfs::edi
