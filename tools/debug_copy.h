// Copies files out of a volume.
#pragma once

#include <cstdint>
#include <string>

#include "fs/volume/volume.h"
#include "fsck/repair.h"

namespace lazyfs {

// Copies the file, or the directory with all that it holds, to `target`, which must not exist yet;
// with mode, times, and, for root, owner. Blocks that cannot be read become zeros; standard error
// gets the name of each incomplete file, and of each file that `repaired` lists as lost in part or
// as a whole. Returns the number of such files. Throws std::runtime_error("what: why").
std::uint64_t copy_out(fs::Volume& volume, const fsck::RepairReport& repaired,
                       const fs::Attributes& from, const std::string& target);

}  // namespace lazyfs
