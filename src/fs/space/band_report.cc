#include "fs/space/band_report.h"

#include <algorithm>
#include <cctype>

#include "fs/item/schema.h"
#include "fs/space/visit_items.h"

namespace lazyfs::fs {
namespace {

using data::BandState;

double share(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 1.0 : static_cast<double>(part) / static_cast<double>(whole);
}

// Visits the volume's own items of one kind.
Result<> visit_all(meta::Store& store, Kind kind, const VisitItem& visit) {
  return visit_items(store, key_of(kVolumeOwner, kind),
                     key_of(kVolumeOwner, kind, meta::kMaxOffset), visit);
}

// The summary of every band, by band number; all 0 for a band that has none.
Result<std::vector<BandSummaryRecord>> read_summaries(meta::Store& store, std::uint32_t bands) {
  std::vector<BandSummaryRecord> summaries(bands);
  TRY(visit_all(store, Kind::kBandSummary, [&](const meta::Item& item) -> Result<> {
    ASSIGN_OR_RETURN(const BandSummaryRecord record, decode_band_summary(item.value));
    if (item.key.offset >= bands || record.live > record.appended) return fail(Errc::kItemBad);
    summaries[item.key.offset] = record;
    return ok();
  }));
  return summaries;
}

// For a device that does not know the ends of bands: takes the write pointer from the summary, as
// far as it is recorded. mark_metadata() sets that of log bands.
device::BandReport with_known_end(device::BandReport on_device, const BandSummaryRecord& summary) {
  on_device.write_pointer =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(summary.appended, on_device.blocks));
  on_device.condition = device::condition_of(on_device.write_pointer, on_device.blocks);
  return on_device;
}

BandState state_of_data(const device::BandReport& on_device, const BandSummaryRecord& summary) {
  if (on_device.condition == device::BandCondition::kOffline) return BandState::kBad;
  if (on_device.kind == device::BandKind::kConventional) return BandState::kOpen;
  if (on_device.write_pointer == 0 && summary.appended == 0) return BandState::kFree;
  return on_device.write_pointer < on_device.blocks ? BandState::kOpen : BandState::kFull;
}

void count(const BandLine& line, BandTotals& totals) {
  totals.set_aside_bands += line.is_set_aside;
  if (line.state == BandState::kSuper || line.state == BandState::kBad) return;
  if (line.state == BandState::kLog) {
    totals.log_live += line.live;
    totals.log_dead += line.dead;
    totals.log_bands += 1;
    return;
  }
  totals.live += line.live;
  totals.dead += line.dead;
  totals.free += line.blocks - std::min(line.blocks, line.live + line.dead);
  totals.free_bands += line.state == BandState::kFree;
}

// Lines as the device and the summaries have them. mark_metadata() then marks the metadata bands.
Result<std::vector<BandLine>> list_bands(meta::Store& store, device::Device& device) {
  const std::uint32_t bands = device.geometry().band_count();
  ASSIGN_OR_RETURN(const auto summaries, read_summaries(store, bands));
  const bool keeps_pointers = device.capabilities().keeps_write_pointers;
  std::vector<BandLine> lines(bands);
  for (std::uint32_t i = 0; i < bands; ++i) {
    ASSIGN_OR_RETURN(device::BandReport on_device, device.report(BandId{i}));
    if (!keeps_pointers) on_device = with_known_end(on_device, summaries[i]);
    lines[i] = {.band = BandId{i},
                .state = state_of_data(on_device, summaries[i]),
                .is_conventional = on_device.kind == device::BandKind::kConventional &&
                                   on_device.condition != device::BandCondition::kOffline,
                .blocks = on_device.blocks,
                .write_pointer = on_device.write_pointer,
                .live = summaries[i].live,
                .dead = summaries[i].appended - summaries[i].live,
                .log_records = summaries[i].append_records + summaries[i].delete_records};
  }
  return lines;
}

Result<> mark_metadata(meta::Store& store, bool keeps_pointers, std::vector<BandLine>& lines) {
  const auto mark = [&](BandId band, BandState state, std::uint64_t live) -> Result<> {
    if (band.value >= lines.size()) return fail(Errc::kSuperblockBad);
    BandLine& line = lines[band.value];
    line.state = state;
    line.is_conventional = false;
    if (!keeps_pointers) line.write_pointer = live > 0 ? line.blocks : 0;
    line.live = std::min(live, line.write_pointer);
    line.dead = line.write_pointer - line.live;
    return ok();
  };
  // Of the superblocks in a super band only the newest is live.
  const meta::Superblock superblock = store.superblock();
  for (const BandId band : superblock.super_bands) TRY(mark(band, BandState::kSuper, 1));
  for (const auto& [band, live] : store.log_band_use()) TRY(mark(band, BandState::kLog, live));
  return ok();
}

// As recovery decides it (fs/volume/recovery.cc).
bool lacks_blocks(const BandLine& line) {
  const std::uint64_t appended = line.live + line.dead;
  return appended > line.blocks ||
         (!line.is_conventional && line.live > 0 && line.write_pointer < appended);
}

void mark_set_aside(const std::optional<std::vector<BandId>>& named, std::vector<BandLine>& lines) {
  for (BandLine& line : lines) {
    const bool is_used = line.state == BandState::kOpen || line.state == BandState::kFull ||
                         line.state == BandState::kFree;
    line.is_set_aside = is_used && (named ? std::ranges::find(*named, line.band) != named->end()
                                          : lacks_blocks(line));
    if (line.is_set_aside) line.state = BandState::kBad;
  }
}

Result<> count_pending_deletions(meta::Store& store, BandTotals& totals) {
  return visit_all(store, Kind::kOrphan, [&](const meta::Item& item) -> Result<> {
    ASSIGN_OR_RETURN(const OrphanRecord orphan, decode_orphan(item.value));
    if (orphan.work != OrphanRecord::Work::kDelete) return ok();
    ++totals.pending_deletions;
    const InodeNo inode{item.key.offset};
    ASSIGN_OR_RETURN(const auto own, store.get(key_of(inode, Kind::kInode)));
    if (!own) return ok();
    ASSIGN_OR_RETURN(const InodeRecord record, decode_inode(*own));
    totals.pending_blocks += record.blocks;
    return ok();
  });
}

}  // namespace

std::string_view title_of(const BandLine& line) {
  if (line.is_conventional && !line.is_set_aside) return "Conventional";
  switch (line.state) {
    case BandState::kFull: return "Used";
    case BandState::kFree: return "Free";
    case BandState::kOpen: return "Open";
    case BandState::kLog: return "Log";
    case BandState::kSuper: return "Super";
    case BandState::kBad: return line.is_set_aside ? "Set aside" : "Offline";
    case BandState::kResetting:
    case BandState::kCutting: break;  // only while mounted
  }
  return "?";
}

std::string name_of(const BandLine& line) {
  std::string name(title_of(line));
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name;
}

double BandTotals::overhead() const { return share(live + dead, live); }
double BandTotals::write_amplification() const { return share(device_blocks, host_blocks); }

Result<BandReport> report_bands(meta::Store& store, device::Device& device,
                                const std::optional<std::vector<BandId>>& set_aside) {
  BandReport report;
  ASSIGN_OR_RETURN(report.bands, list_bands(store, device));
  TRY(mark_metadata(store, device.capabilities().keeps_write_pointers, report.bands));
  mark_set_aside(set_aside, report.bands);
  std::erase_if(report.bands, [](const BandLine& line) { return line.blocks == 0; });
  for (const BandLine& line : report.bands) count(line, report.totals);
  TRY(count_pending_deletions(store, report.totals));

  ASSIGN_OR_RETURN(const auto item, store.get(key_of(kVolumeOwner, Kind::kCounters)));
  if (!item) return fail(Errc::kItemBad);
  ASSIGN_OR_RETURN(const CounterRecord counters, decode_counters(*item));
  report.totals.host_blocks = counters.user_blocks;
  report.totals.device_blocks = counters.user_blocks + counters.collector_blocks;
  return report;
}

}  // namespace lazyfs::fs
