// Repairs sample volumes, and reads their contents before and after a repair.
#pragma once

#include <string>
#include <vector>

#include "device/faulty.h"
#include "test/fsck/readable.h"
#include "fsck/repair.h"

namespace lazyfs::fsck {

using Strings = std::vector<std::string>;

struct Repaired {
  RepairReport report;
  Strings changes;
};

inline Repaired repair(SampleVolume& volume, const std::vector<meta::KeyRange>& lost = {}) {
  Repaired repaired;
  FixedClock clock;
  EXPECT_TRUE(note_lost_ranges(*volume.store, lost));
  const auto listener = [&](const std::string& text) { repaired.changes.push_back(text); };
  repaired.report = fsck::repair(*volume.store, *volume.device, clock, listener);
  const Result<>& result = repaired.report.result;
  EXPECT_TRUE(result) << describe(result.error());
  EXPECT_EQ(repaired.report.repairs, repaired.changes.size());
  return repaired;
}

// Everything that one inode has.
inline meta::KeyRange all_of(InodeNo inode) {
  return {key_of(inode, Kind::kInode), key_of(InodeNo{inode.value + 1}, Kind::kInode)};
}

inline Readable::Contents readable(SampleVolume& volume) {
  EXPECT_TRUE(volume.store->close());
  Readable::Contents contents = Readable::of(*volume.device);
  volume.open();
  return contents;
}

// For every n: repairs a volume that `lose` has damaged, commits after every change, and cuts the
// power before the n-th write; a second repair completes the first. `see` gets the contents before
// the damage and after the second repair.
template <class Lose, class See>
void interrupt_everywhere(Lose lose, const meta::KeyRange& lost, See see) {
  bool interrupted = true;
  for (std::uint64_t n = 1; interrupted; ++n) {
    SCOPED_TRACE(n);
    SampleVolume volume;
    const auto before = readable(volume);
    lose(volume);
    ASSERT_TRUE(volume.store->close());
    volume.store.reset();
    bool anything_durable = false;
    {
      device::FaultyDevice faulty(*volume.device);
      const auto store = *meta::Store::open(faulty, {.background = false});
      faulty.cut_power_at_change(n);
      FixedClock clock;
      const auto listener = [&](const std::string&) {
        anything_durable |= store->commit().has_value();
      };
      interrupted =
          !note_lost_ranges(*store, {lost}) ||
          !fsck::repair(*store, faulty, clock, listener).result;
    }
    volume.open();
    // With nothing durable the tree is as damaged as it was, and is found to be.
    repair(volume, anything_durable ? std::vector<meta::KeyRange>{} : std::vector{lost});
    EXPECT_EQ(volume.problems({.data = true}), Strings{});
    see(before, readable(volume));
    EXPECT_EQ(repair(volume).changes, Strings{});
    ASSERT_LT(n, 1000u);
  }
}

}  // namespace lazyfs::fsck
