// A band as the volume accounts it: its state, its counters, and what data it takes.
#pragma once

#include <cstdint>
#include <string>

#include "base/types.h"

namespace lazyfs::data {

enum class BandState : std::uint8_t {
  kSuper,      // superblock
  kLog,        // metadata log
  kFree,       // nothing written
  kOpen,       // partly written, takes appends
  kFull,       // takes no more appends until it is reset
  kResetting,  // between begin_reset() and finish_reset()
  kCutting,    // between begin_cut() and finish_cut()
  kBad,        // it failed: readable, not written until begin_retry()
};
std::string to_string(BandState state);
constexpr bool is_data(BandState state) {
  return state != BandState::kSuper && state != BandState::kLog;
}

// Data that is written together dies together: each open band belongs to one stream.
enum class Stream : std::uint8_t {
  kSmall,      // new data of small files
  kLarge,      // new data of large files
  kRewritten,  // data that replaces young data, and will likely be replaced soon
  // Data that the collector has moved, by age. Such data has lived longer than its neighbours.
  kCollector,        // may still be replaced soon
  kCollectorMature,  // likely replaced later
  kCollectorOld,     // likely not replaced
};
inline constexpr std::size_t kUserStreams = 3;  // all but the collector's
constexpr bool is_collectors(Stream stream) { return stream >= Stream::kCollector; }

struct BandCounters {
  std::uint64_t appended = 0;  // blocks; where the next append goes
  std::uint64_t live = 0;
  std::uint64_t append_records = 0;
  std::uint64_t delete_records = 0;
};

struct Band {
  BandState state = BandState::kFree;
  Stream stream = Stream::kSmall;  // of the last append, when there was one
  bool leased = false;
  bool is_conventional = false;
  std::uint32_t blocks = 0;
  std::uint32_t pins = 0;
  std::uint64_t last_append = 0;  // blocks appended to all bands by then; 0: none since the mount
  BandCounters counters;
};

// A copy of a band's state and counters.
struct BandView {
  BandId band;
  BandState state = BandState::kFree;
  std::uint32_t blocks = 0;
  BandCounters counters;
  std::uint64_t last_append = 0;
  Stream stream = Stream::kSmall;
  bool is_leased = false;  // a thread appends to it
  bool is_suspect = false;   // kBad, and perhaps the device is to blame
  bool is_given_up = false;  // kBad until the next mount
};

// Whether bands in this state can be appended to.
constexpr bool takes_appends(BandState state) {
  return state == BandState::kFree || state == BandState::kOpen;
}

// Blocks that can still be appended to a Band or BandView.
template <class AnyBand>
constexpr std::uint64_t room_in(const AnyBand& band) {
  return takes_appends(band.state) ? band.blocks - band.counters.appended : 0;
}

// Whether the band is open or full, was written, and holds nothing live.
constexpr bool is_empty(const Band& band) {
  return (band.state == BandState::kOpen || band.state == BandState::kFull) &&
         band.counters.live == 0 && band.counters.appended > 0;
}

}  // namespace lazyfs::data
