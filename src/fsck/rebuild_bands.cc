// Append and delete logs, and the summaries. The extents are right by now. A band that disagrees
// with them gets a new append log: one record for each extent, and records without an inode for the
// dead blocks between. The former owners of dead blocks are not kept.
#include <algorithm>

#include "fsck/passes.h"

namespace lazyfs::fsck {
namespace {

constexpr std::size_t kExtentsAtOnce = std::size_t{4} << 20;

struct Mapped {
  BandAddress at;
  InodeNo inode;
  std::uint64_t file_block = 0;
};

class BandRebuild {
 public:
  explicit BandRebuild(Context& context) : c_(context) {}

  void run() {
    for (std::uint32_t i = 0; i < c_.bands.size(); ++i) {
      if (c_.bands[i].disagrees && c_.can_rebuild(BandId{i})) wrong_.push_back(BandId{i});
    }
    if (wrong_.empty()) return;
    c_.inodes = {};  // the extents need memory
    c_.names = {};
    // As many bands at a time as fit into memory, at least one.
    while (!wrong_.empty() && c_.good()) {
      std::vector<Mapped> extents = collect();
      std::size_t from = 0;
      for (const BandId band : now_) {
        std::size_t end = from;
        while (end < extents.size() && extents[end].at.band == band) ++end;
        rebuild(band, std::span(extents).subspan(from, end - from));
        from = end;
      }
    }
  }

 private:
  // The extents of the next wrong bands (now_), by address. Takes these off wrong_.
  std::vector<Mapped> collect() {
    std::uint64_t expected = 0;
    now_.clear();
    while (!wrong_.empty()) {
      const std::uint64_t extents = c_.bands[wrong_.back().value].extents;
      if (!now_.empty() && expected + extents > kExtentsAtOnce) break;
      expected += extents;
      now_.push_back(wrong_.back());
      wrong_.pop_back();
    }
    std::ranges::sort(now_);
    std::vector<Mapped> extents;
    c_.visit(kFirstKey, kLastInodeKey, "extents",
             [&](const meta::Item& item) {
               if (item.key.kind != static_cast<std::uint8_t>(Kind::kExtent)) return;
               const auto extent = decode_extent(item.value);
               if (!extent || !std::ranges::binary_search(now_, extent->at.band)) return;
               extents.push_back({extent->at, InodeNo{item.key.owner}, item.key.offset});
             });
    std::ranges::sort(extents, {}, &Mapped::at);
    return extents;
  }

  void flush_at(std::size_t items) {
    if (batch_.size() < items || batch_.empty()) return;
    c_.apply(batch_);
    batch_.clear();
  }

  void erase_logs(BandId band) {
    const meta::Key last = key_of(band, Kind{255}, meta::kMaxOffset);
    for (;;) {
      const auto items = c_.store.scan(key_of(band, Kind{0}), last, kBatchItems);
      if (!items) return c_.fail_with(items.error());
      if (items->empty() || !c_.good()) return;
      for (const meta::Item& item : *items) batch_.erase(item.key);
      flush_at(1);
    }
  }

  void put_append(BandId band, std::uint32_t rba, const AppendRecord& record) {
    batch_.put(key_of(band, Kind::kAppendRecord, rba), encode(record));
    summary_.append_records += 1;
    flush_at(kBatchItems);
  }

  void rebuild(BandId band, std::span<const Mapped> extents) {
    erase_logs(band);
    const meta::Key summary_key = key_of(kVolumeOwner, Kind::kBandSummary, band.value);
    summary_ = {};
    std::uint32_t at = 0;
    for (const Mapped& mapped : extents) at = add(band, at, mapped);
    const BandFacts& facts = c_.bands[band.value];
    const bool conventional = facts.device.kind == device::BandKind::kConventional;
    const std::uint32_t end = conventional ? at : c_.readable_blocks(band);
    if (end > at) put_append(band, at, {InodeNo{0}, 0, end - at, 0});
    summary_.appended = std::max(at, end);
    if (summary_.append_records == 0) {
      batch_.erase(summary_key);
    } else {
      batch_.put(summary_key, encode(summary_));
    }
    flush_at(1);
    c_.repair.rebuilt_bands += 1;
    c_.repaired("Band {}: its append log is rebuilt: {} blocks, {} of them live, in {} records",
                band.value, summary_.appended, summary_.live, summary_.append_records);
  }

  // One extent, and what is dead in front of it. Returns where the next one may begin.
  std::uint32_t add(BandId band, std::uint32_t at, const Mapped& mapped) {
    const meta::Key key = key_of(mapped.inode, Kind::kExtent, mapped.file_block);
    const auto value = c_.get(key);
    const auto found = value ? decode_extent(*value) : fail(Errc::kItemBad);
    if (!found || found->at.rba < at) return at;
    ExtentRecord extent = *found;
    if (extent.at.rba > at) put_append(band, at, {InodeNo{0}, 0, extent.at.rba - at, 0});
    extent.append_record = extent.at.rba;
    batch_.put(key, encode(extent));
    summary_.live += extent.blocks();
    put_append(band, extent.at.rba,
               {mapped.inode, mapped.file_block, extent.blocks(), checksum_of(extent.crcs)});
    return extent.at.rba + extent.blocks();
  }

  Context& c_;
  std::vector<BandId> wrong_, now_;
  BandSummaryRecord summary_;
  meta::Batch batch_;
};

}  // namespace

void rebuild_bands(Context& c) { BandRebuild(c).run(); }

}  // namespace lazyfs::fsck
