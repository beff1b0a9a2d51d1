// Rebuilds the map from what recovery has found in the log.
#pragma once

#include <cstdint>
#include <span>

#include "meta/log/band_pool.h"
#include "meta/log/cold_bands.h"
#include "meta/log/hot_chain.h"
#include "meta/log/live_map.h"
#include "meta/log/recovered_log.h"

namespace lazyfs::meta {

struct RebuiltMap {
  // False if lazyfs cannot have written this log. In a sound log every cold band belongs to the log
  // and is not in the chain, and parts do not overlap.
  bool is_sound = true;
  std::uint64_t after_checkpoint = 0;  // blocks of the transactions after the newest checkpoint
};

// REQUIRES: the map is empty; `chain` and `pool` have the bands that recovery has found.
class MapRebuilder {
 public:
  MapRebuilder(LiveMap& map, ColdBands& cold, HotChain& chain, BandPool& pool)
      : map_(map), cold_(cold), chain_(chain), pool_(pool) {}
  RebuiltMap run(const RecoveredLog& found);

 private:
  void read_checkpoint(const MapCheckpoint& checkpoint);
  void read_transaction(std::span<const RecoveredPart> transaction);
  void read_part(const RecoveredPart& from);
  bool finish();

  LiveMap& map_;
  ColdBands& cold_;
  HotChain& chain_;
  BandPool& pool_;
};

}  // namespace lazyfs::meta
