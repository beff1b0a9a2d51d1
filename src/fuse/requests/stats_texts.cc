#include "fuse/requests/stats_texts.h"

#include <utility>

namespace lazyfs::fuse {

std::uint64_t StatsTexts::put(std::string text) {
  MutexLock lock(mu_);
  texts_[++last_ % kKept] = std::move(text);
  return last_;
}

std::optional<StatsTexts::Piece> StatsTexts::get(std::uint64_t number, std::size_t offset,
                                                 std::size_t length) const {
  MutexLock lock(mu_);
  if (number == 0 || number > last_ || number + kKept <= last_) return {};
  const std::string& text = texts_[number % kKept];
  if (offset > text.size()) return {};
  return Piece{text.substr(offset, length), text.size()};
}

}  // namespace lazyfs::fuse
