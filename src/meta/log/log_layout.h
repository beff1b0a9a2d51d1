// How transactions are laid into bands, and how full the log may become: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"
#include "device/device.h"
#include "meta/log/log_format.h"
#include "meta/log/checkpoint_format.h"

namespace lazyfs::meta {

inline constexpr std::uint32_t kMinLogBands = 4;
inline constexpr std::uint32_t kMinLogBandBlocks = 16;
// On a device that keeps no write pointers the log has one more free band, the rescue band. Only a
// transaction that empties another band may begin it. So after a crash a session always has a band
// to write to.
constexpr bool needs_rescue_band(const device::Capabilities& device) {
  return !device.keeps_write_pointers;
}
constexpr std::uint32_t min_log_bands(const device::Capabilities& device) {
  return kMinLogBands + (needs_rescue_band(device) ? 1 : 0);
}
// A log of fewer or smaller bands has no cold ones, which would take too much of its space.
inline constexpr std::uint32_t kMinColdBands = 6;
inline constexpr std::uint32_t kMinColdBandBlocks = 32;

// The slots of a session increase, are higher than those of earlier sessions, and are never used
// twice, even when what a session wrote is lost in a crash.
constexpr std::uint64_t first_slot_of(std::uint64_t session) { return session << 32; }

// Space that a part can use: the rest of the head band, or a free band past its header.
struct Room {
  BandId band;
  std::uint64_t slot = 0;
  std::uint32_t rba = 0;     // of the first usable block
  std::uint32_t blocks = 0;  // usable
};

// Space left to write to, in blocks.
struct LogSpace {
  std::uint64_t available = 0;  // for transactions: the rest of the head band, and free bands
  std::uint64_t cold_room = 0;  // in the cold band that the cleaner fills
};

struct PartPlan {
  Room room;                      // with the part's own rba and blocks
  std::uint32_t descriptors = 0;  // and as many copies
  std::uint32_t images = 0;
  std::uint32_t annotations = 0;  // entries without a block: nodes freed, and cold indexes
  bool is_last = false;     // its last copy is the commit record
};

// Lays a transaction into `rooms`, in their order. Each part lies in one band and has its own
// descriptors. Empty if the transaction does not fit.
std::vector<PartPlan> lay_out(std::uint64_t images, std::uint64_t annotations,
                              std::span<const Room> rooms);

// In blocks, unless a comment says otherwise. docs/metadata-log.md derives the figures.
struct LogLimits {
  std::uint64_t capacity = 0;  // blocks past the headers of all bands but the rescue band
  std::uint64_t band = 0;      // capacity of the largest band
  std::uint64_t smallest_band = 0;
  std::uint64_t transaction = 0;  // most that a transaction of ordinary work may take
  std::uint64_t clean_batch = 0;  // nodes that the cleaner moves in one transaction
  std::uint64_t reserve = 0;      // what cleaning one band may take; ordinary work leaves it free,
                                  // in the log or in the cold band that is being filled
  std::uint64_t frames = 0;       // the reserve's descriptors, which cold bands have no room for
  std::uint64_t live_max = 0;     // nodes that may exist, so that cleaning always makes room
  std::uint64_t live_ordinary = 0;  // the same limit for work that does not free space
  std::uint64_t live_promised = 0;  // the same limit for recording data that was accepted before
  std::uint64_t live_punched = 0;   // the same limit for punching holes
  bool has_cold = false;            // the log is large enough for cold bands, or has some now

  // Most blocks that a transaction can take, wherever the head stands.
  std::uint64_t cost(std::uint64_t images, std::uint64_t annotations) const;
  // Blocks that cleaning the whole log leaves available when `live` nodes exist.
  std::uint64_t achievable(std::uint64_t live) const;
  // Whether a transaction of this cost leaves the reserve alone.
  bool admits(std::uint64_t cost, const LogSpace& space) const {
    return cost + frames <= space.available && cost + reserve <= space.available + space.cold_room;
  }
  // The cleaner works while fewer blocks than this are left, including the cold room.
  std::uint64_t low_water(std::uint64_t live) const;
  bool is_low(std::uint64_t live, const LogSpace& space) const {
    return space.available + space.cold_room < low_water(live) ||
           space.available < frames + transaction + checkpoint_reserve(live);
  }
  // Most blocks that a checkpoint of the map takes, with its descriptors; 0 for few live nodes.
  std::uint64_t checkpoint_reserve(std::uint64_t live) const;
  // The next checkpoint, of `pieces`, is due after this many blocks of log: `wanted`, at most a
  // fourth of the log, but enough that at most a sixteenth of the blocks written are checkpoints.
  std::uint64_t checkpoint_interval(std::uint64_t pieces, std::uint64_t wanted) const;
  // Whether the log should have another band: more than 70 % of live_max is live.
  bool should_grow(std::uint64_t live) const { return live * 10 > live_max * 7; }
};

// `bands`: the sizes of the log's bands, in blocks including the header. `transaction_blocks`: the
// size of a transaction that the caller wants. The rescue band, if the log has one, does not count.
// `has_cold_bands`: the log has cold bands now.
LogLimits limits_of(std::span<const std::uint32_t> bands, std::uint64_t transaction_blocks,
                    bool has_rescue_band = false, bool has_cold_bands = false);

}  // namespace lazyfs::meta
