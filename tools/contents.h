// What a plain device or file holds already, so that nobody overwrites it by mistake.
#pragma once

#include <optional>
#include <string>

namespace lazyfs {

// "an ext4 filesystem", "a dos partition table", "data of a kind that is not known"; nullopt when
// nothing is found. A block device is searched for what libblkid knows; of a file whatever is not
// zero in its first MiB counts too, since a file was once written on purpose.
std::optional<std::string> find_contents(const std::string& path);

}  // namespace lazyfs
