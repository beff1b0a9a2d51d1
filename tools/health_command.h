// lazyfsctl health.
#pragma once

#include <chrono>
#include <string>

namespace lazyfs {

// Prints whether the mount that `path` is on needs an administrator, and why. Returns whether it
// needs none. A daemon that does not answer within `timeout` ends this program, after a message,
// with the status `needs_care`. Throws std::runtime_error("what: why") when no answer can be had.
// Runs the rest of the program in a child process.
bool health_command(const std::string& path, bool as_json, std::chrono::milliseconds timeout,
                    int needs_care);

}  // namespace lazyfs
