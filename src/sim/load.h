// A synthetic load: requests of one size, at random places or in sequence. Not thread-safe.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>

#include "sim/random.h"
#include "sim/request.h"

namespace lazyfs::sim {

struct LoadOptions {
  Op op = Op::kWrite;
  bool is_random = true;
  std::uint64_t block_bytes = 4096;
  std::uint64_t range_bytes = 0;  // from the start of the disk; 0: all of it
  std::uint64_t count = 0;
  bool is_synced = false;  // a flush after each write
  std::uint64_t seed = 1;
  std::uint32_t depth = 1;  // requests at a time
};

// Parses "rw=randwrite|write|randread|read,bs=4k,range=32g,count=500000[,sync=1][,seed=N]
// [,depth=N]". The error says what is wrong.
std::expected<LoadOptions, std::string> parse_load(std::string_view text);

class Load {
 public:
  // REQUIRES: the range (or without one the disk) holds at least one block.
  Load(const LoadOptions& options, std::uint64_t disk_sectors);
  // Returns nothing after the last request.
  std::optional<Request> next();

 private:
  const LoadOptions options_;
  const std::uint64_t blocks_;  // places to choose from
  Random random_;
  std::uint64_t made_ = 0;
  bool owes_flush_ = false;
};

}  // namespace lazyfs::sim
