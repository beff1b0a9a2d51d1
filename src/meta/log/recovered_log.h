// What recovery has found in the log: the input from which Log rebuilds its map.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/types.h"
#include "meta/log/checkpoint_format.h"
#include "meta/log/log_format.h"
#include "meta/log/log_loss.h"

namespace lazyfs::meta {

struct RecoveredPart {
  PartPlace place;
  BandId band;
  std::uint32_t descriptors = 0;
  std::vector<DescriptorEntry> entries;
};

struct RecoveredLog {
  std::optional<MapCheckpoint> checkpoint;  // the map before `parts`; nullopt: it was empty
  std::vector<RecoveredPart> parts;         // in the order of the log
  std::vector<ChainBand> chain;             // the hot log, oldest first; the last one is the head
  std::vector<BandId> spare;    // the other bands: cold ones, and those that hold nothing needed
  std::uint32_t head_rba = 0;   // where the head band continues; its size: nowhere
  Seq seq;                      // newest transaction
  NodeNo next_node;
  LogLoss loss;
};

}  // namespace lazyfs::meta
