// What a recording shows of what the volume did: whether a workload meant to clean bands did.
#pragma once

#include <cstdint>
#include <string>

#include "device/recording.h"

namespace lazyfs::crash {

enum class Content : std::uint8_t { kData, kLog, kSuperblock };
// What an append holds. Blocks of the log and superblocks begin with a magic number; what text_of()
// makes does not.
Content content_of(const device::Op& append);

struct Landmarks {
  std::uint64_t data_resets = 0;        // bands of file data
  std::uint64_t log_resets = 0;         // bands that the log's tail has passed
  std::uint64_t superblock_resets = 0;  // bands of superblocks, begun anew
  std::uint64_t log_bands_added = 0;    // that held something else, or nothing, before
  std::uint64_t transactions = 0;       // at most: parts of them
  Landmarks& operator+=(const Landmarks& other);
};
// Of the ops from `first` on; those before are what was there.
Landmarks landmarks_of(const device::Recording& recording, std::size_t first);
std::string to_string(const Landmarks& landmarks);

}  // namespace lazyfs::crash
