// Counters of the work on file data, for the statistics.
#pragma once

#include <atomic>
#include <cstdint>

namespace lazyfs::fs {

// Each counts since the mount.
struct Counters {
  std::atomic<std::uint64_t> user_blocks{0};       // data blocks appended for users
  std::atomic<std::uint64_t> inline_files{0};      // write-backs of a file into the tree
  std::atomic<std::uint64_t> shared_blocks{0};     // that copies refer to instead of being written
  std::atomic<std::uint64_t> copy_steps{0};        // of copies of whole blocks, see FileCopier
  std::atomic<std::uint64_t> checksum_errors{0};
  std::atomic<std::uint64_t> read_errors{0};        // reads of file data that the device failed
  std::atomic<std::uint64_t> write_back_errors{0};  // failed write-backs of inodes
};

}  // namespace lazyfs::fs
