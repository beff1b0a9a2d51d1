// What the kernel says about the memory at an address (proc(5), /proc/PID/smaps).
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

namespace lazyfs {

struct Mapping {
  bool is_for_large_pages = false;  // by madvise(2)
  std::size_t large_bytes = 0;      // provided in large pages
};

// Of the mapping that contains `at`. Neighbours of the same kind may belong to it.
inline Mapping mapping_at(const void* at) {
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  std::ifstream maps("/proc/self/smaps");
  Mapping found;
  bool is_inside = false;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0, end = 0;
    char dash = 0;
    std::istringstream fields(line);
    if (fields >> std::hex >> begin >> dash >> end && dash == '-') {
      is_inside = begin <= address && address < end;
    } else if (is_inside && line.starts_with("AnonHugePages:")) {
      found.large_bytes = std::stoull(line.substr(line.find(':') + 1)) * 1024;
    } else if (is_inside && line.starts_with("VmFlags:")) {
      found.is_for_large_pages = line.find(" hg") != std::string::npos;
    }
  }
  return found;
}

// False: the kernel was built without large pages, or they are switched off.
inline bool kernel_has_large_pages() {
  std::ifstream choice("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string text;
  return std::getline(choice, text) && text.find("[never]") == std::string::npos;
}

}  // namespace lazyfs
