// The whole medium of a device, including blocks past the write pointers. These blocks cannot be
// read, but they become visible if a power cut loses a later append to them. A RecordingDevice does
// not record them.
#pragma once

#include "device/memory.h"
#include "device/recording.h"

namespace lazyfs::crash {

// Returns ops that give an empty device the contents of `device`, and a flush that covers them.
std::vector<device::Op> medium_of(device::MemoryDevice& device);

// Replaces the first `first` ops of `recording`, which are the readable contents of a device, by
// `medium` of the same device. Returns the change of the number of ops.
std::ptrdiff_t begin_with_medium(device::Recording& recording, std::size_t first,
                                 std::vector<device::Op> medium);

}  // namespace lazyfs::crash
