// Everything that a user can see of a mounted volume.
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
  std::map<std::uint64_t, Observed> inodes;  // all inodes with a name, by number
  std::vector<std::string> problems;         // failed reads and contradictions
};

// Walks the tree from the root. Changes nothing, except access times if the volume keeps them.
Observation observe(fs::Volume& volume);

// Returns the observation of one folder of the root.
Observation only(const Observation& all, std::string_view folder);

// Returns the differences of two observations, except in times.
std::vector<std::string> differences(const Observation& before, const Observation& after);

}  // namespace lazyfs::crash
