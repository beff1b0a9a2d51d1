// lazyfsctl grow: gives a volume the bands that its device or image has room for.
#pragma once

#include <cstdint>
#include <string>

namespace lazyfs {

// `path`: a device or image, mounted or not, or else any directory or regular file on a mount.
// `bytes`: the size that an image file is given first; 0: it keeps its own. Prints what was done.
// Throws std::runtime_error with "what: why".
void grow_command(const std::string& path, std::uint64_t bytes);

}  // namespace lazyfs
