// Questions to a daemon that may never answer.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

namespace lazyfs {

// Returns what `ask` returns, or nullopt when that takes longer than `timeout`. `ask` runs in a
// child process. A late child is killed and not waited for: the kernel may be unable to end a
// process that waits for a daemon (docs/transport.md). The child has none of this process' open
// files, so no reader of this process' output waits for the child. Throws std::runtime_error with
// the message of the exception that `ask` throws, or if a system call fails. REQUIRES: this process
// has one thread.
std::optional<std::string> answer_in_time(std::chrono::milliseconds timeout,
                                          const std::function<std::string()>& ask);

}  // namespace lazyfs
