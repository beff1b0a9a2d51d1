#include "fuse/requests/groups.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>

namespace lazyfs::fuse {

bool has_group(pid_t thread, gid_t group) {
  std::ifstream status("/proc/" + std::to_string(thread) + "/status");
  std::string word;
  while (status >> word && word != "Groups:") {
    status.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  // The numbers end at the next line's name.
  using Numbers = std::istream_iterator<gid_t>;
  return std::find(Numbers(status), Numbers(), group) != Numbers();
}

}  // namespace lazyfs::fuse
