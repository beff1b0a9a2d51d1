// Repairs of sample volumes, and what can be read of them before and afterwards.
#pragma once

#include <string>
#include <vector>

#include "fs/readable.h"
#include "fs/repair.h"

namespace lazyfs::fs {

using Strings = std::vector<std::string>;

struct Repaired {
  RepairReport report;
  Strings told;
};

inline Repaired repair(SampleVolume& volume, const std::vector<meta::KeyRange>& lost = {}) {
  Repaired repaired;
  FixedClock clock;
  EXPECT_TRUE(note_lost_ranges(*volume.store, lost));
  const auto report = fs::repair(*volume.store, *volume.device, clock,
                                 [&](const std::string& text) { repaired.told.push_back(text); });
  EXPECT_TRUE(report) << describe(report.error());
  if (report) repaired.report = *report;
  EXPECT_EQ(repaired.report.repairs, repaired.told.size());
  return repaired;
}

inline Readable::Contents readable(SampleVolume& volume) {
  EXPECT_TRUE(volume.store->close());
  Readable::Contents contents = Readable::of(*volume.device);
  volume.open();
  return contents;
}

}  // namespace lazyfs::fs
