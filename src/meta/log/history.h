// The entries of the last transactions of the log, to be repeated in the next one.
//
// A small transaction leaves most of its descriptor empty. The rest of the descriptor repeats the
// entries of the transactions directly before it, so that recovery need not read these
// transactions. However small the transactions are, recovery reads one descriptor for some 247
// images. That costs no block. The repeated transactions are durable, because a transaction is
// written only after all older ones are durable.
#pragma once

#include <deque>
#include <span>
#include <vector>

#include "meta/log/log_format.h"
#include "meta/log/transaction.h"

namespace lazyfs::meta {

// Invariants:
//   H1  the transactions follow one another without a gap, newest first, and all lie in one
//       band; each is one part with one descriptor and without a checkpoint, and the part before it
//       lies in the same band
//   H2  their entries fit into one descriptor
//   H3  none of the entries is of kind kData: what is repeated is durable, and is not proven again
// Not thread-safe.
class History {
 public:
  // Adds a transaction that was written.
  void record(const LogPlan& plan, const PartPlace& previous, std::span<const LogImage> images,
              std::span<const DescriptorEntry> annotations);
  // The same; `entries` are its own entries, without those that it repeats.
  void add(const PartPlace& part, const PartPlace& previous,
           std::span<const DescriptorEntry> entries);
  // Drops everything: the last transaction written cannot be repeated.
  void forget();
  // At most `room` entries that repeat the transactions before `seq`, which begins in the band of
  // `slot`.
  std::vector<DescriptorEntry> before(Seq seq, std::uint64_t slot, std::size_t room) const;

 private:
  struct Transaction {
    PartAddress address;
    std::vector<DescriptorEntry> entries;  // the first one says where the transaction lies
  };
  std::deque<Transaction> transactions_;
  std::size_t entries_ = 0;
};

}  // namespace lazyfs::meta
