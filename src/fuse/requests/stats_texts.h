// Texts of statistics that readers fetch piece by piece.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/mutex.h"

namespace lazyfs::fuse {

// Keeps the last few texts. Thread-safe; mu_ is a leaf lock.
class StatsTexts {
 public:
  // Returns the text's number, which is never 0.
  std::uint64_t put(std::string text);
  struct Piece {
    std::string text;
    std::size_t total_bytes = 0;  // of the whole text
  };
  // A copy of up to `length` bytes at `offset`; nothing when the text was replaced by newer ones.
  std::optional<Piece> get(std::uint64_t number, std::size_t offset, std::size_t length) const;

 private:
  static constexpr std::size_t kKept = 8;
  mutable Mutex mu_;
  std::uint64_t last_ GUARDED_BY(mu_) = 0;
  std::array<std::string, kKept> texts_ GUARDED_BY(mu_);
};

}  // namespace lazyfs::fuse
