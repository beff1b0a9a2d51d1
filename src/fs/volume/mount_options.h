// The options of a mount. Only src/fs/volume includes this: parts in the rooms below take the
// values that they need in their constructors.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "data/placement.h"
#include "gc/victim.h"

namespace lazyfs::fs {

// When reading sets a file's access time: never; as Linux' relatime; always.
enum class AccessTime : std::uint8_t { kNone, kRelative, kStrict };
// What the collector cleans: whole bands (by age, or by dead blocks alone), ends of bands, or what
// pays more.
using CleanChoice = gc::CleanMode;

struct MountOptions {
  bool read_only = false;
  AccessTime access_time = AccessTime::kRelative;
  bool directory_access_time = true;  // false: reading a directory leaves its access time
  std::chrono::milliseconds commit_interval{5000};   // age at which a change is committed
  std::size_t cache_bytes = std::size_t{128} << 20;  // limit of cached metadata nodes
  std::size_t dirty_bytes = std::size_t{256} << 20;  // dirty file data: above it writers wait
  data::Placement placement = data::Placement::kFirstFit;
  CleanChoice clean = CleanChoice::kAuto;
  bool gc_idle = true;   // collect garbage while users are idle
  bool gc_space = true;  // collect garbage when free space is short, and slow writers then
  // Free space, in percent of what can be free, below which cleaning begins and is urgent.
  unsigned gc_low_percent = 30, gc_high_percent = 10;
  // Users are idle after gc_idle_after without a request, or while they write less than
  // gc_idle_rate bytes a second.
  std::chrono::milliseconds gc_idle_after{2000};
  std::uint64_t gc_idle_rate = std::uint64_t{64} << 10;
  bool discard = true;  // bands that were reset: device/discarding.h
  // Called at most once, when an error has made the mounted filesystem read-only.
  std::function<void()> on_read_only;
  // Own threads for writing back, committing and cleaning. false: this work is done by the calls
  // of sync() and tick() on their caller's thread, so that tests replay exactly.
  bool background = true;
};

}  // namespace lazyfs::fs
