#include "meta/store/log_sizer.h"

#include <algorithm>

#include "base/log.h"

namespace lazyfs::meta {

void LogSizer::update_limits() {
  const auto sizes = log_.band_sizes();
  if (sizes.empty()) return;  // every band has failed: nothing is written any more
  WriterLock lock(tree_.mu);
  tree_.limits = limits_of(sizes, 2 * options_.transaction_bytes / kBlockBytes,
                           needs_rescue_band(device_.capabilities()),
                           log_.figures().cold_bands > 0);
  tree_.high_watermark = std::max<std::size_t>(64, tree_.limit_nodes / 2);
  tree_.low_watermark =
      std::min({options_.transaction_bytes / kBlockBytes,
                static_cast<std::size_t>(tree_.limits.transaction / 2), tree_.high_watermark / 2});
}

void LogSizer::note_less_space() {
  update_limits();
  on_less_space_();
}

bool LogSizer::lacks_bands() const {
  if (!needs_rescue_band(device_.capabilities())) return false;
  const Log::Figures log = log_.figures();
  return !log.has_rescue_band || log.bands < min_log_bands(device_.capabilities());
}

SizeChange LogSizer::wanted(SpaceDemand demand) const {
  if (!source_.take || !source_.give_back) return SizeChange::kKeep;
  LogSize size{.bands = log_.band_sizes(),
               .bands_min = superblock_.current().min_log_bands,
               .transaction_blocks = 2 * options_.transaction_bytes / kBlockBytes,
               .has_rescue_band = needs_rescue_band(device_.capabilities())};
  const Log::Figures log = log_.figures();
  size.free_bands = log.free_bands;
  size.has_cold_bands = log.cold_bands > 0;
  size.available = log.space.available;
  {
    ReaderLock lock(tree_.mu);
    size.live = tree_.cache.nodes();
  }
  return choose_size_change(size, demand);
}

bool LogSizer::is_due() const {
  const SizeChange change = wanted(SpaceDemand::kOrdinary);
  return change == SizeChange::kGrow || change == SizeChange::kShrink;
}

void LogSizer::resize(SpaceDemand demand) {
  const SizeChange change = wanted(demand);
  if (change == SizeChange::kGrow) {
    ignore_error(grow(), "ordinary work is refused when the log is full, not before");
  } else if (change == SizeChange::kShrink) {
    shrink(demand);
  }
}

Result<> LogSizer::grow() {
  std::vector<BandId> bands = log_.bands();
  if (!source_.take || bands.size() >= kMaxLogBands) return fail(Errc::kLogFull);
  bands.reserve(bands.size() + 1);
  const auto band = take_usable();
  if (!band) return fail(Errc::kLogFull);
  bands.push_back(*band);
  if (auto written = superblock_.write_log_bands(std::move(bands)); !written) {
    if (source_.give_back) source_.give_back(*band);
    return fail(Errc::kLogFull);
  }
  log_.add_band(*band);
  update_limits();
  log::info("metadata log: band {} added", band->value);
  return ok();
}

// Takes bands from the source until one fits and can be reset. The refused ones are given back at
// the end, because the source could give them out again.
std::optional<BandId> LogSizer::take_usable() {
  const device::Geometry& geometry = device_.geometry();
  std::optional<BandId> usable;
  std::vector<BandId> refused;
  while (!usable && refused.size() < kMaxRefused) {
    const auto band = source_.take();
    if (!band) break;
    const bool fits = geometry.has(*band) && geometry.blocks_of(*band) >= kMinLogBandBlocks;
    if (fits && device_.reset(*band)) {
      usable = *band;
    } else {
      refused.push_back(*band);
    }
  }
  for (const BandId band : refused) {
    log::error("band {} is too small, or cannot be reset: the log does not take it", band.value);
    if (source_.give_back) source_.give_back(band);
  }
  return usable;
}

// Gives back every free band that the log can do without, those farthest from the middle first.
// A superblock that does not list them is durable before the volume gets them. So after a crash
// each band is either listed and unused by the volume, or not listed.
void LogSizer::shrink(SpaceDemand demand) {
  std::vector<BandId> removed;
  while (wanted(demand) == SizeChange::kShrink) {
    const auto band = log_.remove_free_band();
    if (!band) break;
    removed.push_back(*band);
  }
  if (removed.empty()) return;
  if (auto written = superblock_.write_log_bands(log_.bands()); !written) {
    log::error("metadata log: no band given back, for the superblock cannot be written: {}",
               describe(written.error()));
    for (const BandId band : removed) log_.add_band(band);
    return;
  }
  update_limits();
  for (const BandId band : removed) source_.give_back(band);
  log::info("metadata log: {} bands given back", removed.size());
}

}  // namespace lazyfs::meta
