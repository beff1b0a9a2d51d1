// The scripts that draw what programs measure. They lie beside the programs.
#pragma once

#include <string>
#include <vector>

namespace lazyfs {

// Replaces this process by the script `name`. Returns 1, after a message, only if that fails.
int continue_as_script(const char* program, const std::string& name,
                       std::vector<std::string> arguments);

}  // namespace lazyfs
