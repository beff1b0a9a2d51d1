// Splits a copy into operations that the model supports.
#pragma once

#include <cstdint>

#include "crash/model.h"
#include "crash/operation.h"
#include "fs/volume/volume.h"

namespace lazyfs::crash {

// Counts what copies have done in the volume since its mount.
struct Copied {
  std::uint64_t shared_blocks = 0;  // blocks that copies have made shared
  std::uint64_t steps = 0;          // steps that shared blocks or wrote whole blocks
};
Copied copied_in(fs::Volume& volume);

// Returns the operations that together equal `copy`, which has copied `copied` bytes in a volume
// that equalled `before`. With `at_once`, all whole blocks became shared in one step: the
// destination first grows up to the first whole block, the bytes at both ends outside of whole
// blocks are ordinary writes, and one operation shares the whole blocks.
Workload parts_of(const Operation& copy, std::uint64_t copied, bool at_once, const Model& before);

}  // namespace lazyfs::crash
