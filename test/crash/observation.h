// Everything that can be seen of a mounted volume.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "fs/volume/volume.h"

namespace lazyfs::crash {

struct Observed {
  fs::Attributes attributes;
  std::uint64_t parent = 0;                      // directories
  std::map<std::string, std::uint64_t> entries;  // directories
  std::string target;                            // symbolic links
  std::map<std::string, std::string> xattrs;
  std::string contents;  // files
};

struct Observation {
  std::map<std::uint64_t, Observed> inodes;  // all that names lead to, by number
  std::vector<std::string> problems;         // what could not be read, or contradicts itself
};

// Walks from the root. Nothing is changed, if the volume keeps no access times.
Observation observe(fs::Volume& volume);

// What lies in one folder of the root.
Observation only(const Observation& all, std::string_view folder);

// What two observations disagree about, times left out.
std::vector<std::string> differences(const Observation& before, const Observation& after);

}  // namespace lazyfs::crash
