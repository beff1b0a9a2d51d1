#include "sim/queue.h"

#include <algorithm>

namespace lazyfs::sim {
namespace {

// Less is sooner.
std::uint64_t distance(QueuePolicy policy, std::uint32_t arm, std::uint32_t to) {
  switch (policy) {
    case QueuePolicy::kFcfs: return 0;
    case QueuePolicy::kSstf: return to > arm ? to - arm : arm - to;
    case QueuePolicy::kClook: return to >= arm ? to - arm : (std::uint64_t{1} << 32) + to;
  }
  return 0;
}

}  // namespace

std::size_t RequestQueue::choose(std::uint32_t arm_cylinder) const {
  if (policy_ == QueuePolicy::kFcfs || queue_.front().request.op == Op::kFlush) return 0;
  const std::size_t count = std::min<std::size_t>(queue_.size(), depth_);
  std::size_t best = 0;
  std::uint64_t least = UINT64_MAX;
  for (std::size_t i = 0; i < count && queue_[i].request.op != Op::kFlush; ++i) {  // Q1
    const std::uint64_t here = distance(policy_, arm_cylinder, queue_[i].cylinder);
    if (here < least) {
      least = here;
      best = i;
    }
  }
  return best;
}

Queued RequestQueue::take(std::uint32_t arm_cylinder) {
  const auto at = queue_.begin() + static_cast<std::ptrdiff_t>(choose(arm_cylinder));
  const Queued next = *at;
  queue_.erase(at);
  return next;
}

}  // namespace lazyfs::sim
