#include "data/band_ages.h"

#include <algorithm>

namespace lazyfs::data {
namespace {

// Ages at which data is no longer young, and at which it is old, in lifespans. Found by trying 1/2
// to 3 and 2 to 16 (docs/garbage-collection.md).
constexpr std::uint64_t kYoungLifespans = 2, kOldLifespans = 4;
constexpr std::uint64_t kLifespanWeight = 16;  // of the past: 15/16

}  // namespace

BandAges::BandAges(std::size_t bands, std::uint64_t total_blocks)
    : births_(bands),
      clock_(kOldLifespans * total_blocks),  // data of earlier sessions is old
      lifespan_(total_blocks / 4) {}

void BandAges::appended(BandId band, Stream stream, std::uint64_t before, std::uint32_t blocks) {
  Birth& birth = births_.at(band.value);
  if (!is_collectors(stream)) {
    clock_ += blocks;
    birth.sum += clock_ * blocks;
  }
  if (before == 0) birth.begun = clock_;
}

void BandAges::moved(BandId from, std::uint64_t from_blocks, BandId to, std::uint32_t blocks) {
  if (from_blocks == 0) return;
  births_.at(to.value).sum += births_.at(from.value).sum / from_blocks * blocks;
}

void BandAges::cut(BandId band, std::uint64_t before, std::uint64_t after) {
  Birth& birth = births_.at(band.value);
  birth.sum = birth.sum / before * after;
}

void BandAges::reset(BandId band, bool was_rewritten) {
  Birth& birth = births_.at(band.value);
  if (was_rewritten && birth.begun) {
    lifespan_ = (lifespan_ * (kLifespanWeight - 1) + (clock_ - *birth.begun)) / kLifespanWeight;
  }
  birth = {};
}

std::uint64_t BandAges::age(BandId band, std::uint64_t blocks) const {
  const std::uint64_t born = births_.at(band.value).sum / std::max<std::uint64_t>(blocks, 1);
  return clock_ - std::min(clock_, born);
}

bool BandAges::is_young(BandId band, std::uint64_t blocks) const {
  return age(band, blocks) < kYoungLifespans * lifespan_;
}

Stream BandAges::stream_for_moved(BandId band, std::uint64_t blocks) const {
  if (is_young(band, blocks)) return Stream::kCollector;
  return age(band, blocks) < kOldLifespans * lifespan_ ? Stream::kCollectorMature
                                                       : Stream::kCollectorOld;
}

}  // namespace lazyfs::data
