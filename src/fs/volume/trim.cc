#include "fs/volume/trim.h"

#include <vector>

namespace lazyfs::fs {
namespace {

bool is_free(device::Device& device, const data::BandView& view) {
  if (view.state == data::BandState::kFree) {
    return device.geometry().band_kinds[view.band.value] == device::BandKind::kShingled;
  }
  if (view.state != data::BandState::kLog) return false;
  const auto report = device.report(view.band);
  return report && report->condition == device::BandCondition::kEmpty;
}

Result<std::uint64_t> discard_all(device::Device& device, const std::vector<BandId>& bands) {
  std::uint64_t done = 0;
  for (const BandId band : bands) {
    ASSIGN_OR_RETURN(const std::uint64_t bytes, device.discard(band));
    done += bytes;
  }
  return done;
}

}  // namespace

Result<std::uint64_t> trim_free_bands(device::Device& device, const data::BandTable& bands,
                                      const TrimRange& range) {
  const std::uint64_t total_bytes = device.geometry().total_blocks() * kBlockBytes;
  if (range.start >= total_bytes || range.length < kBlockBytes) return fail(Errc::kInvalid);
  std::uint64_t at = 0, done = 0, run_bytes = 0;
  std::vector<BandId> run;
  const auto end_run = [&]() -> Result<> {
    if (run_bytes >= range.min_bytes) {
      ASSIGN_OR_RETURN(const std::uint64_t bytes, discard_all(device, run));
      done += bytes;
    }
    run.clear();
    run_bytes = 0;
    return ok();
  };
  for (const data::BandView& view : bands.all()) {
    const std::uint64_t bytes = std::uint64_t{view.blocks} * kBlockBytes;
    const bool is_inside = at >= range.start && at - range.start < range.length;
    at += bytes;
    if (bytes == 0) continue;  // linked to an earlier band
    if (is_inside && is_free(device, view)) {
      run.push_back(view.band);
      run_bytes += bytes;
    } else {
      TRY(end_run());
    }
  }
  TRY(end_run());
  return done;
}

}  // namespace lazyfs::fs
