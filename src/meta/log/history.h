// What the last transactions of the log have changed, to be said once more in the next one.
//
// A small transaction leaves most of its descriptor empty. The rest of it takes the entries of the
// transactions directly before, and recovery need not read those: however small they are, it reads
// a descriptor for some 247 images. It costs no block, and what it tells of is durable by the rule
// that nothing is written before everything older is.
#pragma once

#include <deque>
#include <span>
#include <vector>

#include "meta/log/log_format.h"

namespace lazyfs::meta {

// Invariants:
//   H1  it holds transactions directly behind one another, newest first, all in one band, each one
//       part with one descriptor, without a snapshot, and the part before it lies in that band too
//   H2  they fit into one descriptor
// Not thread-safe.
class History {
 public:
  // The transaction that was written last: `entries` are all that it says itself.
  void add(const PartPlace& part, const PartPlace& previous,
           std::span<const DescriptorEntry> entries);
  // The transaction that was written last is not one of those.
  void forget();
  // At most `room` entries that tell of the transactions before `seq`, which begins in the band of
  // `slot`.
  std::vector<DescriptorEntry> before(Seq seq, std::uint64_t slot, std::size_t room) const;

 private:
  struct Transaction {
    PartAddress address;
    std::vector<DescriptorEntry> entries;  // the first one says where it lies
  };
  std::deque<Transaction> transactions_;
  std::size_t entries_ = 0;
};

}  // namespace lazyfs::meta
