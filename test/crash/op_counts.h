// Counts what a recorded volume did. A test checks, for example, that its workload has cleaned
// bands.
#pragma once

#include <cstdint>
#include <string>

#include "device/recording.h"

namespace lazyfs::crash {

enum class Content : std::uint8_t { kData, kLog, kSuperblock };
// Returns the content of an append. Log blocks and superblocks begin with a magic number; file data
// made by text_of() does not.
Content content_of(const device::Op& append);

struct OpCounts {
  std::uint64_t data_resets = 0;        // resets of data bands
  std::uint64_t log_resets = 0;         // resets of log bands that the tail has passed
  std::uint64_t superblock_resets = 0;  // resets of super bands
  std::uint64_t discards = 0;           // of any bands
  std::uint64_t log_bands_added = 0;    // bands that became log bands
  std::uint64_t transactions = 0;       // parts of transactions: an upper bound of their number
  OpCounts& operator+=(const OpCounts& other);
};
// Counts the ops from `first` on. The ops before `first` are the initial contents.
OpCounts count_ops(const device::Recording& recording, std::size_t first);
std::string to_string(const OpCounts& op_counts);

}  // namespace lazyfs::crash
