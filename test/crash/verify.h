// Verifies one state that a power cut has left: runs fsck's checks, mounts it, compares it with the
// models, and uses it further.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "crash/observation.h"
#include "device/device.h"
#include "device/memory.h"

namespace lazyfs::crash {

// Returns the problems of an observation. An empty list means that the observation is allowed.
using Oracle = std::function<std::vector<std::string>(const Observation&)>;

// Mounts, and so recovers, the state on `device`, which is `medium` or forwards to it. All writes
// go through `device`; before each mount `medium` is opened again. Returns the problems found. With
// `also_use`, then makes files and folders, syncs, mounts again, and checks that they exist.
std::vector<std::string> verify_state(device::MemoryDevice& medium, device::Device& device,
                                      const Oracle& oracle, bool also_use);

}  // namespace lazyfs::crash
