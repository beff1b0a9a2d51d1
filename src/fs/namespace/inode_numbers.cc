#include "fs/namespace/inode_numbers.h"

#include "base/log.h"
#include "fs/item/schema.h"

namespace lazyfs::fs {

// Makes sure that the next kChunk numbers are free: in a damaged volume some may be in use. Each
// turn steps twice as far past the highest number that it finds in use, so that some 60 turns come
// to the last number that can be, whatever is in use.
Result<> InodeNumbers::take_chunk() {
  std::uint64_t first = limit_;
  for (std::uint64_t step = 1;; step *= 2) {
    if (first > kMaxInode - kChunk) return fail(Errc::kNoSpace);
    ASSIGN_OR_RETURN(const auto used,
                     store_.last_in(key_of(InodeNo{first}, Kind{}),
                                    {first + kChunk - 1, UINT8_MAX, meta::kMaxOffset}));
    if (!used) break;
    log::error("inode {}: in use, though its number is still to be given out", used->key.owner);
    first = used->key.owner + step;
  }
  meta::Batch batch;
  add(batch, CounterChange{.next_inode = first + kChunk - limit_});
  TRY(store_.try_apply(batch));
  next_ = first;
  limit_ = first + kChunk;
  return ok();
}

Result<InodeNo> InodeNumbers::take() {
  MutexLock lock(mu_);
  if (next_ == limit_) TRY(take_chunk());
  return InodeNo{next_++};
}

}  // namespace lazyfs::fs
