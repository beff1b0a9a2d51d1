// What a power cut leaves of the writes by which a device grows (device/growth.h).
#pragma once

#include <fstream>
#include <random>
#include <span>
#include <string>

#include "device/growth.h"

namespace lazyfs {

// Writes the first `whole` steps to the file, and of the next one each sector with a probability of
// `percent`.
inline void write_cut_growth(const std::string& path, std::span<const device::GrowthStep> steps,
                             std::size_t whole, unsigned percent, std::mt19937_64& random) {
  constexpr std::size_t kSector = 512;
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  for (std::size_t i = 0; i < steps.size() && i <= whole; ++i) {
    const std::span<const std::byte> bytes = steps[i].bytes.span();
    for (std::size_t at = 0; at < bytes.size(); at += kSector) {
      if (i == whole && random() % 100 >= percent) continue;
      file.seekp(static_cast<std::streamoff>(steps[i].at + at));
      file.write(reinterpret_cast<const char*>(bytes.data() + at), kSector);
    }
  }
}

}  // namespace lazyfs
