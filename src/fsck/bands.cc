// The append and delete logs of the bands, against the extents (BandFacts::live), the summaries and
// the device. At its end a repair rebuilds the logs of each band that has a finding:
// rebuild_bands.cc. Memory holds one band's append log at a time.
#include <algorithm>

#include "fsck/passes.h"

namespace lazyfs::fsck {
namespace {

struct Appended {
  std::uint32_t rba = 0;
  AppendRecord record;
};

class BandPass {
 public:
  explicit BandPass(Context& context) : c_(context) {}

  void item(const meta::Item& item) {
    c_.report.items += 1;
    const std::uint64_t number = item.key.owner - kBandOwnerBase;
    if (item.key.owner < kBandOwnerBase || number >= c_.bands.size()) {
      return c_.stray_item(item.key);
    }
    advance_to(static_cast<std::uint32_t>(number));
    if (!band().has_log_items) begin_log();
    band().has_log_items = true;
    switch (static_cast<Kind>(item.key.kind)) {
      case Kind::kAppendRecord: return append_item(item);
      case Kind::kDeleteRecord: return delete_item(item);
      default: return c_.bad_item(item.key);
    }
  }
  void finish() { advance_to(static_cast<std::uint32_t>(c_.bands.size())); }

 private:
  void bad_item(const meta::Key& key) {
    c_.touch(BandId{number_});
    c_.bad_item(key);
  }
  BandFacts& band() { return c_.bands[number_]; }

  // Ends every band before `number`, also one without a log.
  void advance_to(std::uint32_t number) {
    for (; number_ < number; ++number_) {
      end_band();
      appended_.clear();
      dead_.clear();
      is_leftover_ = false;
      covered_ = append_items_ = delete_items_ = 0;
    }
  }

  // Whether the band's logs may be from before its reset: a crash came before their erasure was
  // durable. The band may be in use again, or given to the metadata log. The next mount erases the
  // logs.
  bool may_be_leftover() {
    return band().has_summary && band().summary.live == 0 && band().live.count() == 0;
  }

  void begin_log() {
    const bool is_reset = band().use == BandFacts::Use::kLog || !band().is_end_known ||
                          (band().device.kind == device::BandKind::kShingled &&
                           band().device.write_pointer < band().summary.appended);
    is_leftover_ = is_reset && may_be_leftover();
    if (is_leftover_) return;
    if (band().use != BandFacts::Use::kData) {
      c_.band_finding(BandId{number_}, "Band {} has an append log of file data, but holds {}",
                      number_, to_string(band().use));
    } else if (!band().has_summary) {
      c_.band_finding(BandId{number_}, "Band {} has append or delete records, but no summary",
                      number_);
    }
  }

  void append_item(const meta::Item& item) {
    append_items_ += 1;
    const auto record = decode_append_record(item.value);
    if (!record || item.key.offset > band().blocks ||
        record->blocks > band().blocks - item.key.offset || record->inode.value > kMaxInode) {
      return bad_item(item.key);
    }
    const auto rba = static_cast<std::uint32_t>(item.key.offset);
    if (append_items_ == 1 && rba > 0 && may_be_leftover()) is_leftover_ = true;  // erased up to it
    if (is_leftover_) return;
    if (rba > covered_) {
      c_.band_finding(BandId{number_}, "Band {}: no append record covers the blocks from {} to {}",
                      number_, covered_, rba - 1);
    } else if (rba < covered_) {
      c_.band_finding(BandId{number_}, "Band {}: append record {} overlaps the one before it",
                      number_, rba);
    }
    covered_ = std::max<std::uint64_t>(covered_, rba + record->blocks);
    appended_.push_back({rba, *record});
    if (record->inode.value == 0) dead_.add(rba, record->blocks);
  }

  const AppendRecord* find_append(std::uint32_t rba) const {
    const auto at = std::ranges::lower_bound(appended_, rba, {}, &Appended::rba);
    return at != appended_.end() && at->rba == rba ? &at->record : nullptr;
  }

  void delete_item(const meta::Item& item) {
    delete_items_ += 1;
    const auto record = decode_delete_record(item.value);
    if (!record || record->rba != item.key.offset || record->rba > band().blocks ||
        record->blocks > band().blocks - record->rba) {
      return bad_item(item.key);
    }
    if (append_items_ == 0 && may_be_leftover()) is_leftover_ = true;  // append records go first
    if (is_leftover_) return;
    const AppendRecord* append = find_append(record->append_record);
    if (!append) {
      return c_.band_finding(
          BandId{number_},
          "Band {}: delete record {} names append record {}, which does not exist", number_,
          record->rba, record->append_record);
    }
    const std::uint64_t skip = record->rba - record->append_record;
    if (append->inode != record->inode || append->file_block + skip != record->file_block ||
        skip + record->blocks > append->blocks) {
      c_.band_finding(
          BandId{number_},
          "Band {}: delete record {} (inode {}, file block {}, {} blocks) is not part of "
          "append record {} (inode {}, file block {}, {} blocks)",
          number_, record->rba, record->inode.value, record->file_block, record->blocks,
          record->append_record, append->inode.value, append->file_block, append->blocks);
    }
    if (const auto twice = dead_.add(record->rba, record->blocks)) {
      c_.band_finding(BandId{number_}, "Band {}: block {} in delete record {} is dead already",
                      number_, *twice, record->rba);
    }
  }

  // ---- after the last item of a band ----

  void end_band() {
    if (band().use != BandFacts::Use::kData) return;
    if (is_leftover_) {
      if (band().is_end_known) c_.report.unaccounted_blocks += band().device.write_pointer;
      return;
    }
    check_write_pointer();
    if (!band().has_summary && !band().has_log_items) return;
    const BandSummaryRecord& s = band().summary;
    const auto must_agree = [&](std::string_view what, std::uint64_t counted, std::uint64_t found) {
      if (counted == found) return;
      c_.band_finding(BandId{number_}, "Band {}: the summary counts {} {}, but there are {}",
                      number_, counted, what, found);
    };
    must_agree("appended blocks", s.appended, covered_);
    must_agree("append records", s.append_records, append_items_);
    must_agree("delete records", s.delete_records, delete_items_);
    must_agree("live blocks", s.live, band().live.count());
    check_blocks();
  }

  // Each appended block is either live or dead.
  void check_blocks() {
    c_.report.dead_blocks += dead_.count();
    for (std::uint32_t block = 0; block < covered_;) {
      const bool live = band().live.has(block), dead = dead_.has(block);
      std::uint32_t end = block + 1;
      while (end < covered_ && band().live.has(end) == live && dead_.has(end) == dead) ++end;
      if (live == dead) {
        c_.band_finding(BandId{number_}, "Band {}: the blocks from {} to {} are {}", number_,
                        block, end - 1,
                        live ? "dead, but an extent refers to them" : "neither live nor dead");
      }
      block = end;
    }
  }

  void check_write_pointer() {
    const device::BandReport& report = band().device;
    const std::uint64_t appended = band().summary.appended;
    // An offline band may have lost its write pointer.
    const bool is_known =
        band().is_end_known && report.condition != device::BandCondition::kOffline;
    if (report.kind == device::BandKind::kConventional || !is_known) return;
    if (report.write_pointer < appended) {
      c_.band_finding(BandId{number_},
                      "Band {}: {} blocks are appended, but the write pointer stands at {}",
                      number_, appended, report.write_pointer);
    } else {
      c_.report.unaccounted_blocks += report.write_pointer - appended;
    }
  }

  Context& c_;
  std::uint32_t number_ = 0;  // the band whose items are being read
  std::vector<Appended> appended_;
  BlockSet dead_;
  std::uint64_t covered_ = 0;  // the block after the last append record
  std::uint64_t append_items_ = 0, delete_items_ = 0;
  bool is_leftover_ = false;
};

}  // namespace

void bands_pass(Context& c) {
  BandPass pass(c);
  c.visit({kVolumeOwner + 1, 0, 0}, kLastKey, "bands",
          [&](const meta::Item& item) { pass.item(item); });
  pass.finish();
}

}  // namespace lazyfs::fsck
