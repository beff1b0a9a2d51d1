// What a copy did, as operations that the model knows.
#pragma once

#include <cstdint>

#include "crash/model.h"
#include "crash/operation.h"
#include "fs/volume/volume.h"

namespace lazyfs::crash {

// What copies have done in the volume since it was mounted.
struct Copied {
  std::uint64_t shared_blocks = 0;  // that came to be shared
  std::uint64_t steps = 0;          // in which they did, or whole blocks were written
};
Copied copied_in(fs::Volume& volume);

// `copy` has copied so many bytes in a volume that was as `before`; `at_once`: all whole blocks of
// it came to be shared in one step. Then they change hands at once: in front of that the
// destination grows up to them, and what is no whole block at both ends is written like any other
// bytes.
Workload parts_of(const Operation& copy, std::uint64_t copied, bool at_once, const Model& before);

}  // namespace lazyfs::crash
