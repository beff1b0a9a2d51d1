// Judges one state that a power cut has left: checks it, mounts it, compares it with the models,
// and uses it on.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "crash/model.h"
#include "device/device.h"

namespace lazyfs::crash {

// The state on `device` must be explained by one of `models`. It is mounted, and so recovered;
// everything is written through `device`. Returns what is wrong.
// `use_on`: afterwards things are made in it, synced, and looked for at the next mount.
std::vector<std::string> judge(device::Device& device, std::span<const Model> models, bool use_on);

}  // namespace lazyfs::crash
