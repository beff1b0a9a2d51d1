#include "fsck/lost_keys.h"

#include <algorithm>

namespace lazyfs::fsck {

LostKeys::LostKeys(std::vector<meta::KeyRange> ranges) {
  std::ranges::sort(ranges, {}, &meta::KeyRange::first);
  for (const meta::KeyRange& range : ranges) {
    const bool joins =
        !ranges_.empty() && (!ranges_.back().end || range.first <= *ranges_.back().end);
    if (!joins) {
      ranges_.push_back(range);
    } else if (ranges_.back().end && (!range.end || *range.end > *ranges_.back().end)) {
      ranges_.back().end = range.end;
    }
  }
}

std::optional<meta::Key> LostKeys::first_in(const meta::Key& first, const meta::Key& last) const {
  const auto at = std::ranges::partition_point(
      ranges_, [&](const meta::KeyRange& range) { return range.end && *range.end <= first; });
  if (at == ranges_.end() || at->first > last) return std::nullopt;
  return std::max(first, at->first);
}

}  // namespace lazyfs::fsck
