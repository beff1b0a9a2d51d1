// Files that are written with holes for zeros.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace lazyfs {

inline constexpr std::size_t kPieceBytes = std::size_t{1} << 20;  // copied at once

// Throws std::runtime_error("what: why"), for errno.
[[noreturn]] void refuse_errno(const std::string& what);

// Writes `bytes` at `at`. If all of them are zeros, writes nothing: in a new file they become a
// hole. `path` is for messages. Throws std::runtime_error("path: why").
void put_sparse(int fd, const std::string& path, std::uint64_t at,
                std::span<const std::byte> bytes);

}  // namespace lazyfs
