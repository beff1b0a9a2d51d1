// SEEK_DATA and SEEK_HOLE in a file of which the kernel holds data that it has not sent: pages of
// its write-back cache and of shared mappings, which the volume takes for holes.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>

#include "base/result.h"

namespace lazyfs::fuse {

inline constexpr std::uint64_t kEndOfFile = std::numeric_limits<std::uint64_t>::max();

// A file, in bytes. kNoSuchRange as fs::Volume::find_data() has it.
struct SeekableFile {
  std::function<Result<std::uint64_t>(std::uint64_t offset)> find_data, find_hole;
  // Returns when the dirty pages of [from, to) have been sent; `to` may be kEndOfFile.
  std::function<void(std::uint64_t from, std::uint64_t to)> write_out;
};

// lseek(2) with SEEK_DATA and SEEK_HOLE. Only holes that decide the answer are written out, so that
// the pages of data stay in the kernel's cache. Errors: those of the file's functions.
Result<std::uint64_t> seek_data(const SeekableFile& file, std::uint64_t offset);
Result<std::uint64_t> seek_hole(const SeekableFile& file, std::uint64_t offset);

}  // namespace lazyfs::fuse
