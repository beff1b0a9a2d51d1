// lazyfsctl wait.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace lazyfs {

// Waits until no daemon uses the device or image. `path`: this device or image, or a directory on
// its mount. Returns false when `timeout` has passed. Throws std::runtime_error("what: why").
bool wait_command(const std::string& path, std::optional<std::chrono::milliseconds> timeout);

}  // namespace lazyfs
