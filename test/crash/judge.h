// Judges one state that a power cut has left: checks it, mounts it, compares it with the models,
// and uses it on.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "crash/observation.h"
#include "device/device.h"

namespace lazyfs::crash {

// What speaks against an observation; nothing when it is as it may be.
using Oracle = std::function<std::vector<std::string>(const Observation&)>;

// The state on `device` is mounted, and so recovered; everything is written through `device`.
// Returns what is wrong.
// `use_on`: afterwards things are made in it, synced, and looked for at the next mount.
std::vector<std::string> judge(device::Device& device, const Oracle& oracle, bool use_on);

}  // namespace lazyfs::crash
