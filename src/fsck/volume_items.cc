// The items of the volume itself: counters, the orphan list, band summaries, and the lost ranges
// that an unfinished repair has recorded.
#include <algorithm>

#include "fsck/passes.h"

namespace lazyfs::fsck {
namespace {

void summary_item(Context& c, const meta::Item& item) {
  const auto summary = decode_band_summary(item.value);
  if (!summary) return c.bad_item(item.key);
  if (item.key.offset >= c.bands.size()) {
    if (c.finding(Action::kRemove, "Band {} has a summary, but the device has no such band",
                  item.key.offset)) {
      c.erase(item.key);
    }
    return;
  }
  BandFacts& band = c.bands[item.key.offset];
  // A log band may still have a summary from its time as a data band: bands.cc.
  const bool may_stay = band.use == BandFacts::Use::kLog && summary->live == 0;
  if (band.use != BandFacts::Use::kData && !may_stay &&
      c.finding(Action::kRemove, "Band {} has a summary of file data, but holds {}",
                item.key.offset, to_string(band.use))) {
    return c.erase(item.key);
  }
  if (summary->appended > band.blocks) {
    c.band_finding(BandId{static_cast<std::uint32_t>(item.key.offset)},
                   "Band {} has {} blocks, but its summary counts {} appended ones",
                   item.key.offset, band.blocks, summary->appended);
  }
  band.has_summary = true;
  band.summary = *summary;
}

void orphan_item(Context& c, const meta::Item& item) {
  const auto orphan = decode_orphan(item.value);
  if (!orphan || item.key.offset == 0 || item.key.offset > kMaxInode) return c.bad_item(item.key);
  c.orphans.push_back({InodeNo{item.key.offset}, orphan->work});
  c.report.orphans += 1;
}

void lost_range_item(Context& c, const meta::Item& item) {
  const auto range = decode_lost_range(item.value);
  if (!range) return c.bad_item(item.key);
  const std::uint64_t of_now = first_lost_range(c.store.superblock().session);
  const std::uint64_t number = item.key.offset % kLostRangesASession;
  c.problem("A repair has not ended: of the metadata that it found to be lost, range {} of session "
            "{} is noted",
            number, item.key.offset / kLostRangesASession);
  c.lost.push_back({range->first, range->end});
  if (item.key.offset - number != of_now) c.lost_before.push_back({range->first, range->end});
}

void counters_item(Context& c, const meta::Item& item) {
  const auto counters = decode_counters(item.value);
  if (!counters || item.key.offset != 0) return c.bad_item(item.key);
  c.counters = *counters;
  if (c.repairs()) c.last_inode = std::max(c.last_inode, counters->next_inode - 1);
}

}  // namespace

void volume_items_pass(Context& c) {
  c.visit({kVolumeOwner, 0, 0}, {kVolumeOwner, 255, meta::kMaxOffset}, "volume",
          [&](const meta::Item& item) {
            c.report.items += 1;
            switch (static_cast<Kind>(item.key.kind)) {
              case Kind::kCounters: return counters_item(c, item);
              case Kind::kOrphan: return orphan_item(c, item);
              case Kind::kBandSummary: return summary_item(c, item);
              case Kind::kLostRange: return lost_range_item(c, item);
              default: return c.bad_item(item.key);
            }
          });
}

void counters_pass(Context& c) {
  if (!c.report.complete) return;
  CounterRecord counters = c.counters.value_or(CounterRecord{});
  const auto inodes = static_cast<std::uint64_t>(std::ranges::count_if(
      c.inodes, [](const InodeFacts& inode) { return inode.type != kSharedType; }));
  if (!c.counters) {
    c.finding(Action::kRebuild, "The volume's counters are missing");
    counters = {.next_inode = 0, .inodes = inodes};
  } else if (counters.next_inode <= c.highest_inode) {
    c.finding(Action::kCorrect, "Inode {} exists, but the next number to be given out is {}",
              c.highest_inode, counters.next_inode);
  }
  // An inode that was lost, or added by a repair, is a finding already.
  const bool is_explained = c.report.problems + c.repair.repairs > 0;
  if (counters.inodes != inodes && !is_explained) {
    c.finding(Action::kCorrect, "The volume counts {} inodes, but has {}", counters.inodes, inodes);
  }
  if (!c.repairs()) return;
  // A repair may have given out numbers itself.
  if (counters.next_inode > c.last_inode && counters.inodes == inodes && c.counters) return;
  counters.next_inode = std::max(counters.next_inode, c.last_inode + 1);
  counters.inodes = inodes;
  c.put(key_of(kVolumeOwner, Kind::kCounters), encode(counters));
}

}  // namespace lazyfs::fsck
