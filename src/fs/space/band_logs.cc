#include "fs/space/band_logs.h"

#include <ranges>

#include "fs/item/schema.h"

namespace lazyfs::fs {
namespace {

constexpr std::size_t kErasedABatch = 1024;

}  // namespace

Result<> erase_band_logs(meta::Store& store, BandId band) {
  for (std::size_t at_most = kErasedABatch;;) {
    ASSIGN_OR_RETURN(const auto items,
                     store.scan(meta::Key{band_owner(band), 0, 0},
                                meta::Key{band_owner(band), 0xFF, meta::kMaxOffset}, at_most + 1));
    const bool last = items.size() <= at_most;
    meta::Batch batch;
    for (const meta::Item& item : items | std::views::take(at_most)) batch.erase(item.key);
    if (last) batch.erase(key_of(kVolumeOwner, Kind::kBandSummary, band.value));
    const auto erased = store.apply(batch, meta::Reserve::kDelete);
    if (erased && last) return ok();
    if (erased) continue;
    if (erased.error() != Errc::kBatchTooLarge || at_most == 1) return fail(erased.error());
    at_most /= 2;  // a small log
  }
}

}  // namespace lazyfs::fs
