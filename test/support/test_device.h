// The device that most tests of the filesystem run on: one in memory, with write pointers, or with
// LAZYFS_TEST_DEVICE=plain without, as a plain block device. There each program aborts when a block
// is written twice between two resets of its band.
#pragma once

#include <cstdlib>
#include <memory>
#include <string_view>

#include "device/memory.h"

namespace lazyfs {

inline bool test_device_is_plain() {
  const char* given = std::getenv("LAZYFS_TEST_DEVICE");
  return given && std::string_view(given) == "plain";
}

inline device::Capabilities test_capabilities() {
  if (test_device_is_plain()) return {.keeps_write_pointers = false};
  return {.set_write_pointer = true};
}

// `bands` shingled bands of `band_blocks` blocks each. What closing and opening the device changes,
// MemoryDevice::forget_write_pointers() does.
inline std::unique_ptr<device::MemoryDevice> test_device(std::uint32_t bands,
                                                         std::uint32_t band_blocks) {
  return device::MemoryDevice::uniform(bands, band_blocks, test_capabilities());
}

}  // namespace lazyfs
