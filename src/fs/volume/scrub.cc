#include "fs/volume/scrub.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/large_pages.h"
#include "base/log.h"
#include "data/verified_read.h"
#include "fs/file/extent_map.h"

namespace lazyfs::fs {
namespace {

constexpr std::size_t kScrubScanItems = 512;
constexpr std::uint64_t kScrubStepItems = 64 * kScrubScanItems;
constexpr std::uint64_t kBlocksAStep = 8192;  // 32 MiB: other requests may wait for this one

}  // namespace

class Scrubber::Step {
 public:
  Step(Scrubber& scrubber, std::size_t max_damaged)
      : in_(scrubber), max_damaged_(max_damaged) {}

  Result<ScrubStep> run(ScrubPlace from) {
    meta::Key next = key_of(InodeNo{from.inode}, Kind::kExtent, from.file_block);
    for (std::uint64_t read = 0; read < kScrubStepItems; read += kScrubScanItems) {
      auto items = in_.store_.scan(next, kLast, kScrubScanItems);
      std::optional<meta::Key> end = items ? end_of(*items) : in_.store_.end_of_part(next);
      if (end && (*end <= next || *end > kLast)) end.reset();
      if (!items) {  // perhaps only the part of the tree that holds `next` can be read
        items = in_.store_.scan(next, end ? last_below(*end) : kLast, SIZE_MAX);
        if (!items) {
          report_part(next, end, items.error());
          items = std::vector<meta::Item>();
        }
      }
      for (const meta::Item& item : *items) {
        if (item.key.kind != static_cast<std::uint8_t>(Kind::kExtent)) continue;
        if (is_enough()) return stop_at(item.key.owner, item.key.offset);
        check(item);
      }
      if (!end) return std::move(step_);
      next = *end;
      if (is_enough()) break;
    }
    // The next step begins at an extent: of this inode, or of the next one.
    constexpr auto kExtent = static_cast<std::uint8_t>(Kind::kExtent);
    return stop_at(next.kind > kExtent ? next.owner + 1 : next.owner,
                   next.kind == kExtent ? next.offset : 0);
  }

 private:
  static constexpr meta::Key kLast{kMaxInode, 255, meta::kMaxOffset};

  // Where the scan that found `items` continues; nullopt: it has found all items.
  static std::optional<meta::Key> end_of(const std::vector<meta::Item>& items) {
    if (items.size() < kScrubScanItems) return std::nullopt;
    meta::Key next = items.back().key;
    if (++next.offset == 0) next = key_of(InodeNo{next.owner + 1}, Kind::kInode);
    return next;
  }
  static meta::Key last_below(meta::Key key) {
    if (key.offset-- > 0) return key;
    if (key.kind-- > 0) return key;
    --key.owner;
    return key;
  }
  // No item from `first` up to `end` can be read.
  void report_part(meta::Key first, std::optional<meta::Key> end, Errc why) {
    const InodeNo last{last_below(end.value_or(kLast)).owner};
    log::error("scrub: metadata of inodes {} to {} cannot be read: {}", first.owner, last.value,
               describe(why));
    step_.damaged.push_back({InodeNo{first.owner}, 0, why, last});
  }

  bool is_enough() const {
    return step_.blocks >= kBlocksAStep || step_.damaged.size() + kMaxExtentBlocks > max_damaged_;
  }
  Result<ScrubStep> stop_at(std::uint64_t inode, std::uint64_t file_block) {
    step_.next = ScrubPlace{inode, file_block};
    return std::move(step_);
  }

  void check(const meta::Item& item) {
    const auto record = decode_map_record(item.value);
    if (!record) {
      report(item, 0, Errc::kItemBad);
    } else if (const auto* extent = std::get_if<ExtentRecord>(&*record)) {
      check_extent(item, *extent);
    } else {
      check_reference(item, std::get<ReferenceRecord>(*record));
    }
  }

  // A shared-extent inode's extents are read once for each file that refers to them, so that
  // damage is reported as the file's. An inode whose record cannot be read is taken for a file.
  bool is_shared(InodeNo inode) {
    if (inode != looked_up_) {
      const auto value = in_.store_.get(key_of(inode, Kind::kInode));
      const auto record = value && *value ? decode_inode(**value) : fail(Errc::kItemBad);
      looked_up_ = inode;
      looked_up_is_shared_ = record && record->mode == kSharedMode;
    }
    return looked_up_is_shared_;
  }

  void check_extent(const meta::Item& item, const ExtentRecord& extent) {
    if (is_shared(InodeNo{item.key.owner})) return;
    if (extent.at.band.value >= in_.bands_.band_count()) return report(item, 0, Errc::kItemBad);
    // A pinned band is not reset. The item is read again after the pin: until then its blocks may
    // have moved, and the band may have been reset.
    const auto pin = in_.bands_.pin(extent.at.band);
    if (is_unchanged(item)) verify(item, 0, extent);
  }

  void check_reference(const meta::Item& item, const ReferenceRecord& record) {
    const auto inode = in_.inodes_.get(InodeNo{item.key.owner});
    if (!inode && inode.error() != Errc::kStale) report(item, 0, inode.error());
    if (!inode) return;
    Result<std::vector<SharedExtents::Piece>> pieces;
    {
      ReaderLock lock((*inode)->mu);
      if (!is_unchanged(item)) return;
      pieces = in_.shared_.resolve(0, record, in_.bands_);
    }
    if (!pieces) return report(item, 0, pieces.error());
    for (const SharedExtents::Piece& piece : *pieces) {
      verify(item, static_cast<std::uint32_t>(piece.extent.file_block), piece.extent.extent);
    }
  }

  // `extent` holds the data of the item's blocks from number `skip` on.
  void verify(const meta::Item& item, std::uint32_t skip, const ExtentRecord& extent) {
    step_.blocks += extent.blocks();
    const auto all = buffer_.span().first(std::size_t{extent.blocks()} * kBlockBytes);
    if (data::read_verified(in_.device_, extent.at, extent.crcs, all)) return;
    for (std::uint32_t i = 0; i < extent.blocks(); ++i) {
      const auto one = data::read_verified(in_.device_, {extent.at.band, extent.at.rba + i},
                                           std::span(extent.crcs).subspan(i, 1),
                                           buffer_.span().first(kBlockBytes));
      if (one) continue;
      if (one.error() == Errc::kDeviceRead) {
        ++in_.counters_.read_errors;
        in_.bands_.note_unreadable(extent.at.band);
      }
      report(item, skip + i, one.error());
    }
  }

  // False when the extent was moved or truncated after `item` was read: its old blocks may hold
  // other data by now, and its new ones are verified in a later scrub.
  bool is_unchanged(const meta::Item& item) const {
    const auto now = in_.store_.get(item.key);
    return now && *now && std::ranges::equal(bytes_of(**now), bytes_of(item.value));
  }

  void report(const meta::Item& item, std::uint32_t block, Errc why) {
    if (!is_unchanged(item)) return;
    const std::uint64_t offset = (item.key.offset + block) * kBlockBytes;
    log::error("scrub: inode {}, byte {}: {}", item.key.owner, offset, describe(why));
    if (why == Errc::kDataChecksumBad) ++in_.counters_.checksum_errors;
    step_.damaged.push_back({InodeNo{item.key.owner}, offset, why, std::nullopt});
  }

  Scrubber& in_;
  const std::size_t max_damaged_;
  LargePages buffer_{kLargePageBytes};
  static_assert(kLargePageBytes >= std::size_t{kMaxExtentBlocks} * kBlockBytes);
  ScrubStep step_;
  InodeNo looked_up_;
  bool looked_up_is_shared_ = false;
};

Result<ScrubStep> Scrubber::step(ScrubPlace from, std::size_t max_damaged) {
  if (from.inode == 0 || from.inode > kMaxInode) return fail(Errc::kInvalid);
  return Step(*this, std::max<std::size_t>(max_damaged, kMaxExtentBlocks)).run(from);
}

}  // namespace lazyfs::fs
