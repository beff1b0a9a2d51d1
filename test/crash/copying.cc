#include "crash/copying.h"

#include <algorithm>

#include "base/types.h"
#include "test/support/stats.h"

namespace lazyfs::crash {

Copied copied_in(fs::Volume& volume) {
  return {stat_of(volume, "data", "shared_blocks"), stat_of(volume, "data", "copy_steps")};
}

Workload parts_of(const Operation& copy, std::uint64_t copied, bool at_once, const Model& before) {
  Operation whole = copy;
  whole.length = copied;
  if (!at_once) return {whole};
  const auto part = [&](Act act, std::uint64_t from, std::uint64_t to) {
    Operation o = whole;
    o.act = act;
    o.offset += from;
    o.to += from;
    o.length = to - from;
    return o;
  };
  const std::uint64_t first = std::min(copied, (0 - copy.offset) % kBlockBytes);
  const bool to_both_ends = copy.offset + copied >= before.size_of(copy.path) &&
                            copy.to + copied >= before.size_of(copy.other);
  const std::uint64_t last = to_both_ends ? copied : copied - (copy.offset + copied) % kBlockBytes;
  Workload parts;
  if (first > 0) parts.push_back(part(Act::kCopy, 0, first));
  if (copy.to + first > before.size_of(copy.other)) {
    parts.push_back({.act = Act::kTruncate, .path = copy.other, .offset = copy.to + first});
  }
  parts.push_back(part(Act::kShare, first, last));
  if (last < copied) parts.push_back(part(Act::kCopy, last, copied));
  return parts;
}

}  // namespace lazyfs::crash
