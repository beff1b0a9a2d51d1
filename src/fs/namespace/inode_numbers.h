// Gives out inode numbers, never one twice in a volume's life.
#pragma once

#include <cstdint>

#include "base/mutex.h"
#include "base/result.h"
#include "base/types.h"
#include "meta/store/store.h"

namespace lazyfs::fs {

// Invariant: every number below next_ has been given out or skipped; limit_, which the tree's
// counter record holds, is at or above next_. So a crash skips at most kChunk numbers and repeats
// none. The counter record is not trusted: numbers that have items are skipped. Thread-safe; mu_ is
// held while the counter record is changed, once in kChunk numbers.
class InodeNumbers {
 public:
  static constexpr std::uint64_t kChunk = 4096;
  InodeNumbers(meta::Store& store, std::uint64_t next) : store_(store), next_(next), limit_(next) {}

  // Errors: those of Store::try_apply().
  Result<InodeNo> take() EXCLUDES(mu_);

 private:
  Result<> take_chunk() REQUIRES(mu_);

  meta::Store& store_;
  Mutex mu_;
  std::uint64_t next_ GUARDED_BY(mu_);
  std::uint64_t limit_ GUARDED_BY(mu_);
};

}  // namespace lazyfs::fs
