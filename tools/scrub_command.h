// lazyfsctl scrub.
#pragma once

#include <string>

namespace lazyfs {

// Reads all file contents and prints what is damaged. Returns whether nothing is. Throws
// std::runtime_error("what: why").
bool scrub_command(const std::string& mount_point, bool json);

}  // namespace lazyfs
