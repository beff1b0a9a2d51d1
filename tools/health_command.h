// lazyfsctl health.
#pragma once

#include <chrono>
#include <string>

namespace lazyfs {

// Prints whether the mount that `path` is on needs an administrator, and why; that the daemon does
// not answer within `timeout` is a reason. Returns whether it needs none. Throws
// std::runtime_error("what: why") when the question cannot be put.
bool health_command(const std::string& path, bool as_json, std::chrono::milliseconds timeout);

}  // namespace lazyfs
