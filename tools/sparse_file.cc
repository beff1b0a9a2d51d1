#include "tools/sparse_file.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace lazyfs {

void refuse_errno(const std::string& what) {
  throw std::runtime_error(what + ": " + std::strerror(errno));
}

void put_sparse(int fd, const std::string& path, std::uint64_t at,
                std::span<const std::byte> bytes) {
  if (std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; })) return;
  while (!bytes.empty()) {
    const ssize_t n = pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (n <= 0) refuse_errno(path);
    at += static_cast<std::uint64_t>(n);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

}  // namespace lazyfs
