// The device that most tests of the filesystem run on: one in memory. LAZYFS_TEST_DEVICE selects
// another kind:
//   plain  without write pointers, as a plain block device. Each program aborts when a block is
//          written twice between two resets of its band
//   zoned  with write pointers that are never set back, and no more partly written bands than
//          lazyfs must have. Tests fail when it begins one too many
#pragma once

#include <cstdlib>
#include <memory>
#include <string_view>

#include "device/memory.h"

namespace lazyfs {

inline bool test_device_is(std::string_view kind) {
  const char* given = std::getenv("LAZYFS_TEST_DEVICE");
  return given && given == kind;
}
inline bool test_device_is_plain() { return test_device_is("plain"); }
inline bool test_device_is_zoned() { return test_device_is("zoned"); }

inline device::Capabilities test_capabilities() {
  if (test_device_is_plain()) return {.keeps_write_pointers = false};
  if (test_device_is_zoned()) return {.max_open_bands = 6};
  return {.set_write_pointer = true};
}

// `bands` shingled bands of `band_blocks` blocks each. What closing and opening the device changes,
// MemoryDevice::forget_write_pointers() does.
inline std::unique_ptr<device::MemoryDevice> test_device(std::uint32_t bands,
                                                         std::uint32_t band_blocks) {
  return device::MemoryDevice::uniform(bands, band_blocks, test_capabilities());
}

// The same with bands of the geometry.
inline std::unique_ptr<device::MemoryDevice> test_device(const device::Geometry& geometry) {
  return std::make_unique<device::MemoryDevice>(geometry, test_capabilities());
}

}  // namespace lazyfs
