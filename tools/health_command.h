// lazyfsctl health.
#pragma once

#include <chrono>
#include <string>

namespace lazyfs {

// Prints whether the mount that `path` is on needs an administrator, and why. A daemon that does
// not answer within `timeout` is a reason. Returns true if no administrator is needed. Throws
// std::runtime_error("what: why") if the daemon cannot be asked.
bool health_command(const std::string& path, bool as_json, std::chrono::milliseconds timeout);

}  // namespace lazyfs
