#include "plain/grow.h"

#include <algorithm>

namespace lazyfs::plain {

Result<Growth> plan_growth(const Identity& now, std::uint64_t size_bytes) {
  const std::uint64_t bands =
      std::min<std::uint64_t>(bands_in(size_bytes, now.band_bytes), kMaxBands);
  if (bands <= now.band_count) return fail(Errc::kGrowNoRoom);
  Growth growth;
  growth.identity = now;
  growth.identity.volume_bytes = size_bytes;
  growth.identity.band_count = static_cast<std::uint32_t>(bands);
  ++growth.identity.generation;

  const std::uint64_t end_at = last_mib_at(size_bytes);
  const std::uint64_t end_bytes = (size_bytes - end_at) / kBlockBytes * kBlockBytes;
  AlignedBuffer end = AlignedBuffer::zeroed(end_bytes);
  encode(growth.identity, end.span().subspan(copy_at(size_bytes) - end_at).first<kBlockBytes>());
  growth.steps.push_back({end_at, std::move(end)});

  AlignedBuffer first(kBlockBytes);
  encode(growth.identity, first.span().first<kBlockBytes>());
  growth.steps.push_back({kIdentityAt, std::move(first)});
  return growth;
}

}  // namespace lazyfs::plain
