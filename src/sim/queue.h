// The requests that wait for one disk, and which of them is next. Not thread-safe.
//
// Invariants:
//   Q1  a flush waits for all requests before it, and all requests after it wait for the flush
//   Q2  of requests that a policy finds equal, the one that came first is next
#pragma once

#include <cstdint>
#include <deque>

#include "sim/request.h"

namespace lazyfs::sim {

enum class QueuePolicy : std::uint8_t {
  kFcfs,   // first come, first served
  kSstf,   // shortest seek first
  kClook,  // the next one towards the centre; at the end again from the outer edge
};

struct Queued {
  Request request;
  std::uint32_t cylinder = 0;
  std::uint64_t owner = 0;  // index of the request that it is a piece of
};

class RequestQueue {
 public:
  // `depth`: the policy chooses among this many of the oldest requests.
  RequestQueue(QueuePolicy policy, std::uint32_t depth) : policy_(policy), depth_(depth) {}

  void push(const Queued& queued) { queue_.push_back(queued); }
  bool empty() const { return queue_.empty(); }
  // Takes out the next request. REQUIRES: !empty().
  Queued take(std::uint32_t arm_cylinder);

 private:
  std::size_t choose(std::uint32_t arm_cylinder) const;

  const QueuePolicy policy_;
  const std::uint32_t depth_;
  std::deque<Queued> queue_;
};

}  // namespace lazyfs::sim
