// An image of format 1 has two copies of its header and of each block of its write pointer table.
// One intact copy of each is enough to open it. These functions find and repair damaged copies.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "edi/image.h"

namespace lazyfs::edi {

// Whether the first copy of the header holds `header`. If it does not, a program that writes both
// copies begins with the first, so that the second remains valid until the first is.
Result<bool> first_copy_is(const Header& header, const Backing& backing);

// Returns a sentence for each copy of the header that is damaged.
std::vector<std::string> damaged_headers(const Image& image);

// Returns a sentence for a copy of the header that is intact, but older than the other one: a
// program ended while it linked bands or made the image larger.
std::vector<std::string> older_headers(const Image& image);

// Completes what such a program has begun: rewrites the older copy.
// REQUIRES: the image is open for writing, and no other thread or process uses it.
Result<> renew_older_headers(const Image& image);

// Returns a sentence for each slot of the table that is damaged or was torn by a power cut. The
// next flush of an image that is open for writing rewrites such a slot.
// REQUIRES: no thread or process writes to the image during the call.
Result<std::vector<std::string>> damaged_slots(const Image& image);

// Rewrites each damaged copy from the intact one, and returns a sentence for each.
// REQUIRES: the image is open for writing, and no other thread or process uses it.
Result<std::vector<std::string>> mend_copies(Image& image);

}  // namespace lazyfs::edi
