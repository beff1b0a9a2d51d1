// A volume's statistics, as `lazyfsctl stats` would show them.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/json.h"
#include "fs/volume/volume.h"

namespace lazyfs {

// REQUIRES: the volume's answer is JSON.
inline Json stats_of(fs::Volume& volume) { return Json::parse(volume.stats_json()).value(); }
inline std::uint64_t stat_of(fs::Volume& volume, std::string_view group, std::string_view name) {
  const Json stats = stats_of(volume);
  return stats[group][name].number();
}

}  // namespace lazyfs
