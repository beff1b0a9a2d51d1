#include "fs/numbers.h"

#include "fs/schema.h"

namespace lazyfs::fs {

Result<InodeNo> InodeNumbers::take() {
  MutexLock lock(mu_);
  if (next_ == limit_) {
    if (limit_ > kMaxInode - kChunk) return fail(Errc::kNoSpace);
    meta::Batch batch;
    const std::int64_t deltas[] = {static_cast<std::int64_t>(kChunk), 0, 0};
    batch.add(key_of(kVolumeOwner, Kind::kCounters), deltas);
    TRY(store_.apply(batch));
    limit_ += kChunk;
  }
  return InodeNo{next_++};
}

}  // namespace lazyfs::fs
