#include "fs/volume/recovery.h"

#include <fmt/core.h>

#include <map>

#include "base/log.h"
#include "fs/file/map_change.h"
#include "fs/space/band_logs.h"

namespace lazyfs::fs {
namespace {

constexpr std::size_t kOwnerScanItems = 1024;

Result<std::vector<meta::Item>> scan_all(meta::Store& store, std::uint64_t owner, Kind kind) {
  std::vector<meta::Item> all;
  std::uint64_t from = 0;
  for (;;) {
    ASSIGN_OR_RETURN(auto items,
                     store.scan(key_of(owner, kind, from), key_of(owner, kind, meta::kMaxOffset),
                                kOwnerScanItems));
    const bool last = items.size() < kOwnerScanItems || items.back().key.offset == meta::kMaxOffset;
    if (!last) from = items.back().key.offset + 1;
    std::move(items.begin(), items.end(), std::back_inserter(all));
    if (last) return all;
  }
}

// Recovers one band at a time.
class BandRecovery {
 public:
  BandRecovery(device::Device& device, meta::Store& store, data::BandTable& bands, bool read_only)
      : device_(device),
        store_(store),
        bands_(bands),
        read_only_(read_only),
        keeps_pointers_(device.capabilities().keeps_write_pointers),
        ends_known_(store.was_clean() && store.superblock().data_ends_known()) {}

  Result<> recover(BandId band, const BandSummaryRecord& summary) {
    const auto report = device_.report(band);
    if (!report || report->condition == device::BandCondition::kOffline ||
        summary.appended > report->blocks) {
      return set_aside(band, summary.live > 0 ? fmt::format("it cannot be used, with {} blocks of "
                                                            "files in it",
                                                            summary.live)
                                              : "it cannot be used");
    }
    const bool conventional = report->kind == device::BandKind::kConventional;
    ASSIGN_OR_RETURN(const std::uint64_t pointer, conventional
                                                      ? Result<std::uint64_t>(summary.appended)
                                                      : end_of(band, summary, *report));
    if (summary.live == 0 && (pointer > 0 || summary.appended > 0)) {
      ++found_.reset;
      return reset(band, conventional, pointer);
    }
    data::BandCounters counters{summary.appended, summary.live, summary.append_records,
                                summary.delete_records};
    if (pointer < summary.appended) {
      // The collector can move out the blocks that remain.
      if (counters.live <= counters.appended) bands_.restore(band, counters);
      return set_aside(band, fmt::format("blocks of files are missing: {} were appended, but the "
                                         "device's write pointer is at {}",
                                         summary.appended, pointer));
    }
    if (pointer > summary.appended) {
      const auto recorded = record_lost(band, static_cast<std::uint32_t>(summary.appended),
                                        static_cast<std::uint32_t>(pointer - summary.appended));
      if (!recorded && recorded.error() == Errc::kLogFull) {
        bands_.restore(band, counters);
        return set_aside(band, "the metadata log has no room for a record of it", false);
      }
      TRY(recorded);
      counters.appended = pointer;
      ++counters.append_records;
    }
    bands_.restore(band, counters);
    const bool is_read_only = report->condition == device::BandCondition::kReadOnly;
    return is_read_only ? set_aside(band, "the device lets it only be read") : ok();
  }

  const RecoveredBands& found() const { return found_; }

 private:
  // Returns where appends continue, as far as is known.
  Result<std::uint64_t> end_of(BandId band, const BandSummaryRecord& summary,
                               const device::BandReport& report) {
    const bool may_be_unknown = !keeps_pointers_ && report.write_pointer == report.blocks;
    if (!may_be_unknown) return report.write_pointer;
    if (summary.appended == 0) return 0;
    if (!ends_known_ || summary.appended == report.blocks) return report.blocks;
    if (read_only_) return summary.appended;
    TRY(device_.set_write_pointer(band, static_cast<std::uint32_t>(summary.appended)));
    return summary.appended;
  }

  Result<> set_aside(BandId band, std::string_view why, bool for_good = true) {
    log::error("band {}: set aside: {}", band.value, why);
    bands_.set_bad(band, for_good);
    if (!read_only_) device_.seal(band);
    return ok();
  }

  Result<> reset(BandId band, bool conventional, std::uint64_t pointer) {
    if (read_only_) return ok();
    const Result<> reset = conventional || pointer == 0 ? ok() : device_.reset(band);
    if (!reset) return set_aside(band, describe(reset.error()));
    const auto erased = erase_band_logs(store_, band);
    if (erased || erased.error() != Errc::kLogFull) return erased;
    return set_aside(band, "the metadata log has no room to erase its logs", false);
  }

  Result<> record_lost(BandId band, std::uint32_t rba, std::uint32_t blocks) {
    if (read_only_) return ok();
    log::debug("band {}: {} blocks from {} on were appended but not recorded before the crash",
               band.value, blocks, rba);
    ++found_.with_lost_blocks;
    found_.lost_blocks += blocks;
    MapChange change(store_, InodeNo{0});
    change.lost({band, rba}, blocks);
    meta::Batch batch;
    change.put_into(batch);
    TRY(store_.apply(batch, meta::Reserve::kDelete));
    return ok();
  }

  device::Device& device_;
  meta::Store& store_;
  data::BandTable& bands_;
  const bool read_only_;
  const bool keeps_pointers_;
  RecoveredBands found_;
  const bool ends_known_;  // without write pointers: bands end where summaries say
};

}  // namespace

Result<RecoveredBands> recover_bands(device::Device& device, meta::Store& store,
                                     data::BandTable& bands, bool read_only) {
  ASSIGN_OR_RETURN(const auto items, scan_all(store, kVolumeOwner, Kind::kBandSummary));
  std::map<BandId, BandSummaryRecord> summaries;
  for (const meta::Item& item : items) {
    if (item.key.offset >= bands.band_count()) {
      log::error("band {}: it has a summary, but does not exist", item.key.offset);
      continue;
    }
    const BandId band{static_cast<std::uint32_t>(item.key.offset)};
    const auto summary = decode_band_summary(item.value);
    if (summary && summary->live == 0 && !read_only && !bands.is_data(band)) {
      // The band became a log band before the erasure of its data logs was durable.
      TRY(erase_band_logs(store, band));
      continue;
    }
    if (!summary || !bands.is_data(band)) {
      log::error("band {}: its summary is damaged or it is no data band", item.key.offset);
      if (bands.is_data(band)) bands.set_bad(band);
      continue;
    }
    summaries[band] = *summary;
  }
  BandRecovery recovery(device, store, bands, read_only);
  for (std::uint32_t i = 0; i < bands.band_count(); ++i) {
    const BandId band{i};
    if (!bands.is_data(band) || bands.view(band).state == data::BandState::kBad) continue;
    TRY(recovery.recover(band, summaries[band]));
  }
  return recovery.found();
}

Result<> erase_lost_ranges(meta::Store& store) {
  ASSIGN_OR_RETURN(const auto items, scan_all(store, kVolumeOwner, Kind::kLostRange));
  for (const meta::Item& item : items) {
    meta::Batch batch;
    batch.erase(item.key);
    TRY(store.apply(batch, meta::Reserve::kDelete));
  }
  return ok();
}

Result<CounterRecord> read_counters(meta::Store& store) {
  ASSIGN_OR_RETURN(const auto value, store.get(key_of(kVolumeOwner, Kind::kCounters)));
  if (!value) return fail(Errc::kItemBad);
  return decode_counters(*value);
}

}  // namespace lazyfs::fs
