// What an image (format 1) keeps twice: its header, and each block of its write pointer table. An
// image opens while one copy of each is sound; these functions find and mend the others.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "edi/image.h"

namespace lazyfs::edi {

// A sentence for each copy that cannot be used, or of a header that says something else. Requires
// that nobody writes to the image meanwhile. A power cut may leave one slot of a table's block.
Result<std::vector<std::string>> damaged_copies(const Image& image);

// Writes them anew from the others, and returns a sentence for each. Requires that nobody else uses
// the image. A table's block without a shingled band stays as it is: its pointers mean nothing.
Result<std::vector<std::string>> mend_copies(Image& image);

}  // namespace lazyfs::edi
