// lazyfsctl wait.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace lazyfs {

// Waits until no daemon uses the device or image, or that from which the directory's filesystem is
// mounted. Returns false when `timeout` has passed. Throws std::runtime_error("what: why").
bool wait_command(const std::string& path, std::optional<std::chrono::milliseconds> timeout);

}  // namespace lazyfs
