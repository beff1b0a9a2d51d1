#include "fsck/block_set.h"

#include <bit>

namespace lazyfs::fsck {

std::optional<std::uint32_t> BlockSet::add(std::uint32_t first, std::uint32_t count) {
  const std::size_t words = (std::size_t{first} + count + 63) / 64;
  if (words_.size() < words) words_.resize(words);
  std::optional<std::uint32_t> twice;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t block = first + i;
    if (has(block) && !twice) twice = block;
    words_[block / 64] |= std::uint64_t{1} << (block % 64);
  }
  return twice;
}

void BlockSet::remove(std::uint32_t first, std::uint32_t count) {
  for (std::uint32_t block = first; block < first + count && block / 64 < words_.size(); ++block) {
    words_[block / 64] &= ~(std::uint64_t{1} << (block % 64));
  }
}

std::uint64_t BlockSet::count() const {
  std::uint64_t sum = 0;
  for (const std::uint64_t word : words_) sum += static_cast<std::uint64_t>(std::popcount(word));
  return sum;
}

}  // namespace lazyfs::fsck
