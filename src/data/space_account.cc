#include "data/space_account.h"

#include <algorithm>

#include "base/check.h"
#include "base/test_hook.h"

namespace lazyfs::data {
namespace {

// The log may grow to a 20th of the device and the bands that its cleaner keeps free: a block
// that is overwritten alone takes an extent, an append and a delete record of some 45 bytes each,
// in nodes that are two thirds full, in a log that is at most two thirds live.
constexpr std::uint64_t kLogShare = 20;
constexpr std::uint32_t kLogSpareBands = 3;
// Cleaning a nearly full disk pays only when some blocks stay dead: 1/32, besides the reserve.
constexpr std::uint64_t kDeadShare = 32;
// At most a 64th of the device waits in memory to overwrite what a full disk holds; on small disks
// one large write, provided that the reserve's bands hold two of them.
constexpr std::uint64_t kOverwriteShare = 64;
constexpr std::uint64_t kLargeWriteBlocks = 256;

}  // namespace

std::uint64_t SpaceAccount::log_at_most() const {
  return (bands_.blocks().total + bands_.log_blocks()) / kLogShare +
         std::uint64_t{kLogSpareBands} * bands_.largest_blocks();
}

// A band that the log takes reduces what is kept back, so capacity() stays the same. Past its own
// share the log takes what is kept back for dead blocks.
std::uint64_t SpaceAccount::kept_back() const {
  const std::uint64_t total = bands_.blocks().total, log = bands_.log_blocks();
  const std::uint64_t dead_and_log = log_at_most() + (total + log) / kDeadShare;
  return std::min(total, reserve_blocks() + (dead_and_log > log ? dead_and_log - log : 0));
}

std::uint64_t SpaceAccount::capacity() const {
  const std::uint64_t all = bands_.blocks().total + bands_.log_blocks();
  const std::uint64_t kept = reserve_blocks() + log_at_most() + all / kDeadShare;
  return all > kept ? all - kept : 0;
}

SpaceCounts SpaceAccount::counts() const {
  const BandList::Blocks& blocks = bands_.blocks();
  SpaceCounts counts{.total = blocks.total,
                     .live = blocks.live,
                     .dead = blocks.dead,
                     .unwritten = blocks.unwritten,
                     .reserved = reserved_,
                     .kept_back = kept_back(),
                     .capacity = capacity(),
                     .free_bands = static_cast<std::uint32_t>(bands_.free().size())};
  const std::uint64_t taken = counts.live + counts.reserved + counts.kept_back;
  counts.available = counts.total > taken ? counts.total - taken : 0;
  return counts;
}

bool SpaceAccount::reserve(std::uint64_t blocks) {
  if (counts().available < blocks && !rule_is_disabled(Rule::kReserveSpace)) return false;
  reserved_ += blocks;
  return true;
}

bool SpaceAccount::reserve_to_overwrite(std::uint64_t fresh, std::uint64_t overwriting) {
  const SpaceCounts now = counts();
  const std::uint64_t beyond =
      std::max(now.total / kOverwriteShare, std::min(kLargeWriteBlocks, reserve_blocks() / 2));
  const std::uint64_t taken = now.live + now.reserved + now.kept_back;
  if (now.available < fresh || taken + fresh + overwriting > now.total + beyond) return false;
  reserved_ += fresh + overwriting;
  return true;
}

void SpaceAccount::release(std::uint64_t blocks) {
  CHECK(reserved_ >= blocks);  // S1
  reserved_ -= blocks;
}

bool SpaceAccount::log_may_take(std::uint64_t blocks) const {
  const SpaceCounts now = counts();
  return reserve_blocks() + blocks <= now.kept_back || now.available >= blocks;
}

std::uint64_t SpaceAccount::user_room() const {
  const std::uint64_t free = bands_.blocks().free, kept = kept_from_users(bands_);
  std::uint64_t room = 0, left = free > kept ? free - kept : 0;
  for (const auto& [band_blocks, numbers] : bands_.free_by_blocks()) {  // shorter ones first
    const std::uint64_t begun =
        std::min<std::uint64_t>(numbers.size(), left / band_blocks) * band_blocks;
    room += begun;
    left -= begun;
  }
  for (const std::uint32_t i : bands_.open()) {
    const Band& band = bands_[BandId{i}];
    if (!is_collectors(band.stream)) room += room_in(band);
  }
  return room;
}

}  // namespace lazyfs::data
