// The scripts that draw what programs measure. They lie beside the programs.
#pragma once

#include <string>
#include <vector>

namespace lazyfs {

// Continues this process as the script `name`. Returns 1, after a message, only if it cannot.
int continue_as_script(const char* program, const std::string& name,
                       std::vector<std::string> arguments);

}  // namespace lazyfs
