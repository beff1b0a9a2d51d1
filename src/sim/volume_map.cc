#include "sim/volume_map.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "sim/random.h"

namespace lazyfs::sim {
namespace {

constexpr unsigned kRounds = 4;

std::uint64_t count_of(std::uint64_t sectors, std::uint64_t unit) {
  return unit == 0 ? 1 : std::max<std::uint64_t>(1, sectors / unit);
}

std::uint64_t volume_sectors(const VolumeShape& shape) {
  if (shape.disks == 1) return shape.disk_sectors;
  return shape.disk_sectors / shape.stripe_sectors * shape.stripe_sectors * shape.disks;
}

// Moves the sector to the unit that takes its unit's place. Sectors past the last whole unit stay.
std::uint64_t moved(std::uint64_t sector, std::uint64_t unit, std::uint64_t sectors,
                    const Permutation& permutation) {
  const std::uint64_t number = sector / unit;
  if (number >= sectors / unit) return sector;
  return permutation(number) * unit + sector % unit;
}

}  // namespace

Permutation::Permutation(std::uint64_t count, std::uint64_t seed)
    : count_(count),
      seed_(seed),
      half_bits_((static_cast<unsigned>(std::bit_width(count)) + 1) / 2) {
  CHECK(count > 0);
}

std::uint64_t Permutation::round_trip(std::uint64_t number) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = number >> half_bits_, right = number & mask;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    const std::uint64_t next = left ^ (mix64(right ^ mix64(seed_ * kRounds + round)) & mask);
    left = right;
    right = next;
  }
  return left << half_bits_ | right;
}

std::uint64_t Permutation::operator()(std::uint64_t number) const {
  // The network permutes the numbers below the next power of four. A result that is too large goes
  // through it again, until one is not. The cycle of `number` has at least one that is not:
  // `number` itself.
  do number = round_trip(number);
  while (number >= count_);
  return number;
}

VolumeMap::VolumeMap(const VolumeShape& shape)
    : shape_(shape),
      sectors_(volume_sectors(shape)),
      chunks_(count_of(sectors_, shape.chunk_sectors), shape.permute_seed),
      blocks_(count_of(sectors_, kStupidBlockSectors), ~shape.stupid_seed) {
  CHECK(shape.disks > 0);
  CHECK(shape.disk_sectors > 0);
  CHECK(shape.stripe_sectors > 0);
}

std::uint64_t VolumeMap::permuted(std::uint64_t sector) const {
  if (shape_.is_stupid) sector = moved(sector, kStupidBlockSectors, sectors_, blocks_);
  if (shape_.chunk_sectors) sector = moved(sector, shape_.chunk_sectors, sectors_, chunks_);
  return sector;
}

std::uint64_t VolumeMap::straight(std::uint64_t sector) const {
  std::uint64_t length = sectors_ - sector;
  const auto limit = [&](std::uint64_t unit) { length = std::min(length, unit - sector % unit); };
  if (shape_.is_stupid) limit(kStupidBlockSectors);
  if (shape_.chunk_sectors) limit(shape_.chunk_sectors);
  return length;
}

void VolumeMap::pieces(std::uint64_t sector, std::uint32_t sectors, const Visit& visit) const {
  struct {
    std::uint32_t disk = 0, sectors = 0;
    std::uint64_t sector = 0;
  } joined;
  const auto add = [&](std::uint32_t disk, std::uint64_t at, std::uint32_t length) {
    const bool joins = joined.disk == disk && joined.sector + joined.sectors == at;
    if (joins && !shape_.is_stupid && joined.sectors > 0) {
      joined.sectors += length;
      return;
    }
    if (joined.sectors > 0) visit(joined.disk, joined.sector, joined.sectors);
    joined = {disk, length, at};
  };
  while (sectors > 0) {
    std::uint64_t length = std::min<std::uint64_t>(sectors, straight(sector));
    const std::uint64_t to = permuted(sector);
    if (shape_.disks == 1) {
      add(0, to, static_cast<std::uint32_t>(length));
    } else {
      const std::uint64_t stripe = to / shape_.stripe_sectors, offset = to % shape_.stripe_sectors;
      length = std::min(length, shape_.stripe_sectors - offset);
      add(static_cast<std::uint32_t>(stripe % shape_.disks),
          stripe / shape_.disks * shape_.stripe_sectors + offset,
          static_cast<std::uint32_t>(length));
    }
    sector += length;
    sectors -= static_cast<std::uint32_t>(length);
  }
  if (joined.sectors > 0) visit(joined.disk, joined.sector, joined.sectors);
}

}  // namespace lazyfs::sim
