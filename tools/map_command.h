// lazyfsctl map, owner, frag: where files lie on the disk.
#pragma once

#include <string>
#include <string_view>

namespace lazyfs {

// Each prints what is durable, after making all durable if the volume is mounted; files that are
// written meanwhile may be missed. Each throws std::runtime_error("what: why").

// The runs of a file on a mount.
void map_command(const std::string& file, bool json);
// Whether the text has the form of a place: "BAND" or "BAND:BLOCK".
bool is_place(std::string_view text);
// The files that have blocks of a band, or one block. `path`: a device, an image, or a path on a
// mount.
void owner_command(const std::string& path, const std::string& place, bool json);
// How many runs a file has or, of any other path, all files of the volume and the worst of them.
void frag_command(const std::string& path, bool json);

}  // namespace lazyfs
