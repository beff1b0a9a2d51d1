// What a plain device or file holds, so that mkfs does not overwrite it by mistake.
#pragma once

#include <optional>
#include <string>

namespace lazyfs {

// "a lazyfs or an Emulated Disk Image, perhaps a damaged one (superblock at byte 1048576)", "an
// ext4 filesystem", "a dos partition table", "data of a kind that is not known"; nullopt when
// nothing is found. libblkid searches for anything else. In a file, any byte of the first MiB that
// is not zero counts too, because the file was once written on purpose.
std::optional<std::string> find_contents(const std::string& path);

}  // namespace lazyfs
