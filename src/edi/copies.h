// What an image (format 1) keeps twice: its header, and each block of its write pointer table. An
// image opens while one copy of each is sound; these functions find and mend the others.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "edi/image.h"

namespace lazyfs::edi {

// A sentence for each copy of the header that cannot be used, or says something else. Nothing but
// damage leaves such a one, or the end of a program that was linking bands.
Result<std::vector<std::string>> damaged_headers(const Image& image);

// A sentence for each slot of the table that cannot be used. Damage, or a power cut while it was
// written; an image that is opened for writing writes it anew with its next flush. Requires that
// nobody writes to the image meanwhile.
Result<std::vector<std::string>> damaged_slots(const Image& image);

// Writes all of them anew from the others, and returns a sentence for each. Requires that nobody
// else uses the image, which was opened for writing.
Result<std::vector<std::string>> mend_copies(Image& image);

}  // namespace lazyfs::edi
