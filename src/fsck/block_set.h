// A set of blocks of one band.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace lazyfs::fsck {

// One bit for each block; takes memory from the first set bit on.
class BlockSet {
 public:
  // Adds [first, first + count). Returns the first block that was in already, if any.
  std::optional<std::uint32_t> add(std::uint32_t first, std::uint32_t count);
  void remove(std::uint32_t first, std::uint32_t count);
  bool has(std::uint32_t block) const {
    return block / 64 < words_.size() && (words_[block / 64] >> (block % 64) & 1) != 0;
  }
  std::uint64_t count() const;
  void clear() { words_.clear(); }

 private:
  std::vector<std::uint64_t> words_;
};

}  // namespace lazyfs::fsck
