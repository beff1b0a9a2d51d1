// The contents of a simulated disk, in a sparse file. Not thread-safe.
//
// Invariants:
//   K1  a block that is written as zeros or punched takes no space in the file
//   K2  if byte n of the fills file is not 0, block n consists of this byte and takes no space in
//       the file
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <span>
#include <string>

namespace lazyfs {

class DriveContents {
 public:
  // Opens the file, and makes it if it does not exist; an existing file must have that size.
  // `keeps_fills`: a block of one repeated byte, as benchmarks write them, is kept as that byte in
  // PATH.fills. An existing fills file is used in any case. The error says what cannot be used.
  static std::expected<std::unique_ptr<DriveContents>, std::string> open(const std::string& path,
                                                                         std::uint64_t size_bytes,
                                                                         bool keeps_fills);
  ~DriveContents();
  DriveContents(const DriveContents&) = delete;
  DriveContents& operator=(const DriveContents&) = delete;

  // Each returns 0 or a negative errno. REQUIRES: the range lies within the size.
  int read(std::uint64_t offset, std::span<std::byte> to);
  int write(std::uint64_t offset, std::span<const std::byte> bytes);
  int punch(std::uint64_t offset, std::uint64_t length);

 private:
  DriveContents(int fd, int fills_fd) : fd_(fd), fills_fd_(fills_fd) {}
  int write_out(std::uint64_t offset, std::span<const std::byte> bytes);
  int write_in_runs(std::uint64_t offset, std::span<const std::byte> bytes);
  // If the block that contains `offset` is kept as a byte, writes its contents to the file.
  int spell_out(std::uint64_t offset);

  const int fd_;
  const int fills_fd_;  // -1: none
};

}  // namespace lazyfs
