// All that a program can see of a volume, as text: what the corpus keeps beside each volume.
#pragma once

#include <string>

#include "base/result.h"
#include "fs/volume/volume.h"

namespace lazyfs::corpus {

// One line for each name, in the order of the paths, and one for each extended attribute:
//   PATH mode LINKS links OWNER size SIZE rdev RDEV mtime SECONDS.NANOSECONDS crc CRC
//   PATH xattr NAME bytes BYTES crc CRC
// CRC is the CRC-32C of a file's contents, of a link's target, of an attribute's value. Bytes of a
// name that are not printable are written as \xHH. Hard links show by their numbers of links.
Result<std::string> list_contents(fs::Volume& volume);

}  // namespace lazyfs::corpus
