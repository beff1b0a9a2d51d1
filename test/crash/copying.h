// What a copy did, as operations that the model knows.
#pragma once

#include <cstdint>

#include "crash/model.h"
#include "crash/operation.h"
#include "fs/volume.h"

namespace lazyfs::crash {

// How many blocks of the volume have come to be shared since it was mounted.
std::uint64_t shared_blocks(fs::Volume& volume);

// `copy` has copied so many bytes in a volume that was as `before`, and blocks came to be shared by
// it, or not. Shared blocks change hands at once: in front of that the destination grows up to
// them, and what is no whole block at both ends is written like any other bytes.
Workload parts_of(const Operation& copy, std::uint64_t copied, bool has_shared,
                  const Model& before);

}  // namespace lazyfs::crash
