// A device as its medium has it, with what lies behind the write pointers: it cannot be read, but
// shows through when a later append there is lost. A RecordingDevice alone does not see it.
#pragma once

#include "device/memory.h"
#include "device/recording.h"

namespace lazyfs::crash {

// Ops that make an empty device like this one, and a flush that covers them.
std::vector<device::Op> medium_of(device::MemoryDevice& device);

// `recording` began with `first` ops that said what could be read of a device; now it begins with
// `medium`, of the same device. Returns how many ops more that are.
std::ptrdiff_t begin_with_medium(device::Recording& recording, std::size_t first,
                                 std::vector<device::Op> medium);

}  // namespace lazyfs::crash
