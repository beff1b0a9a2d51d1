#include "meta/log/log_layout.h"

#include <algorithm>

namespace lazyfs::meta {
namespace {

constexpr std::uint64_t kMaxCleanBatch = 512;
constexpr std::uint64_t kMinTransaction = 12;
constexpr std::uint64_t kCrossing = 2;    // blocks lost where a transaction changes bands
constexpr std::uint64_t kOneChange = 48;  // blocks that hold any one operation on files

std::uint64_t div_up(std::uint64_t a, std::uint64_t b) { return (a + b - 1) / b; }

std::uint64_t descriptors_for(std::uint64_t entries) {
  return std::max<std::uint64_t>(1, div_up(entries, kEntriesPerDescriptor));
}

// Descriptors and their copies.
std::uint64_t frame_for(std::uint64_t entries) { return 2 * descriptors_for(entries); }

// Most images that fit into `blocks` together with their descriptors and the copies of these.
std::uint64_t images_in(std::uint64_t blocks) {
  if (blocks < 3) return 0;
  const std::uint64_t groups = div_up(blocks, kEntriesPerDescriptor + 2);
  return std::max(blocks - 2 * groups, (groups - 1) * kEntriesPerDescriptor);
}

PartPlan part_in(const Room& room, std::uint64_t images, std::uint64_t annotations, bool is_last) {
  PartPlan part{.room = room,
                .descriptors = static_cast<std::uint32_t>(descriptors_for(images + annotations)),
                .images = static_cast<std::uint32_t>(images),
                .annotations = static_cast<std::uint32_t>(annotations),
                .is_last = is_last};
  part.room.blocks = 2 * part.descriptors + part.images;
  return part;
}

// Blocks of the cold index of `nodes` nodes: an entry for each and one for its part, twice.
std::uint64_t cold_index_of(std::uint64_t nodes) { return nodes / 40 + 4; }

// Extra blocks for moving the nodes of `images` in batches of `batch`.
std::uint64_t batch_overhead(std::uint64_t images, std::uint64_t batch) {
  return div_up(images, batch) * frame_for(batch);
}

}  // namespace

std::vector<PartPlan> lay_out(std::uint64_t images, std::uint64_t annotations,
                              std::span<const Room> rooms) {
  std::vector<PartPlan> parts;
  for (const Room& room : rooms) {
    if (frame_for(images + annotations) + images <= room.blocks) {
      parts.push_back(part_in(room, images, annotations, true));
      return parts;
    }
    if (const std::uint64_t here = std::min(images, images_in(room.blocks)); here > 0) {
      parts.push_back(part_in(room, here, 0, false));
      images -= here;
    } else if (images == 0) {
      const std::uint64_t some = std::min(annotations, room.blocks / 2 * kEntriesPerDescriptor);
      if (some > 0) parts.push_back(part_in(room, 0, some, false));
      annotations -= some;
    }
  }
  return {};
}

std::uint64_t LogLimits::cost(std::uint64_t images, std::uint64_t annotations) const {
  const std::uint64_t blocks = images + frame_for(images + annotations);
  return blocks + 2 * (1 + blocks / (smallest_band - 2));
}

std::uint64_t LogLimits::achievable(std::uint64_t live) const {
  const std::uint64_t compact = live + 3 * div_up(live, band - 1) +
                                (live > clean_batch ? batch_overhead(live, clean_batch) : 0) +
                                (has_cold ? cold_index_of(live) : 0);
  return capacity > band + compact ? capacity - band - compact : 0;
}

std::uint64_t LogLimits::low_water(std::uint64_t live) const {
  const std::uint64_t needed = reserve + transaction + checkpoint_reserve(live);
  const std::uint64_t reach = achievable(live);
  return needed + (reach > needed ? std::min(band / 4, (reach - needed) / 8) : 0);
}

std::uint64_t LogLimits::checkpoint_reserve(std::uint64_t live) const {
  // Each node takes at most an entry and a part of its own; descriptors take 1 % more.
  return live * kCheckpointBytesOfNode / kCheckpointPieceBytes * 101 / 100;
}

std::uint64_t LogLimits::checkpoint_interval(std::uint64_t pieces, std::uint64_t wanted) const {
  return std::max(16 * (pieces + frame_for(pieces)), std::min(wanted, capacity / 4));
}

LogLimits limits_of(std::span<const std::uint32_t> bands, std::uint64_t transaction_blocks,
                    bool has_rescue_band, bool has_cold_bands) {
  LogLimits limits;
  limits.smallest_band = bands.empty() ? 1 : *std::ranges::min_element(bands) - 1;
  for (const std::uint32_t blocks : bands) {
    limits.capacity += blocks - 1;
    limits.band = std::max<std::uint64_t>(limits.band, blocks - 1);
  }
  const std::size_t rescue_bands = has_rescue_band ? 1 : 0;
  limits.capacity -= std::min(limits.capacity, rescue_bands * limits.band);
  limits.band = std::max<std::uint64_t>(limits.band, 2);  // every band may have failed
  const std::uint64_t one_change =
      std::clamp<std::uint64_t>(limits.capacity / 5, kMinTransaction, kOneChange);
  const bool keeps_cold = bands.size() >= kMinColdBands + rescue_bands &&
                          limits.smallest_band + 1 >= kMinColdBandBlocks;
  limits.has_cold = has_cold_bands || keeps_cold;
  limits.transaction = std::min(limits.smallest_band * 2 / 3, transaction_blocks);
  limits.transaction = std::max(limits.transaction, one_change);
  limits.clean_batch = std::min(limits.band, kMaxCleanBatch);
  limits.frames = batch_overhead(limits.band - 1, limits.clean_batch) + kCrossing;
  // One more batch, because some of the band's nodes may go to the rest of a cold band; and the
  // cold index that lies in the oldest band.
  if (limits.has_cold) {
    limits.frames += frame_for(limits.clean_batch) + kCrossing + cold_index_of(limits.capacity);
  }
  limits.reserve = limits.band - 1 + limits.frames;
  // The most live nodes for which a wholly cleaned log has room for a transaction and the reserve.
  std::uint64_t low = 0, high = limits.capacity;
  while (low < high) {
    const std::uint64_t middle = (low + high + 1) / 2;
    const std::uint64_t needed =
        limits.reserve + limits.transaction + limits.checkpoint_reserve(middle);
    if (limits.achievable(middle) >= needed) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  limits.live_max = low;
  limits.live_ordinary = low - std::max(std::min<std::uint64_t>(low, 3), low / 16);
  limits.live_promised = low - (low - limits.live_ordinary) / 2;
  limits.live_punched = low - (low - limits.live_promised + 1) / 2;
  return limits;
}

}  // namespace lazyfs::meta
