// Lists of CPUs as Linux prints them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lazyfs::fuse {

// The numbers in a list such as "0-3,8", in ascending order; empty if the text is no such list.
std::vector<unsigned> parse_cpu_list(std::string_view text);
// Of the list in the file; empty if it cannot be read.
std::vector<unsigned> read_cpu_list(const std::string& file);

}  // namespace lazyfs::fuse
