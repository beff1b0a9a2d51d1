// Scrubbing: reading file contents from the device, past every buffer, to find what has rotted
// (fs/volume/mounted_volume.h).
#include <algorithm>

#include "base/buffer.h"
#include "base/log.h"
#include "fs/file/extent_map.h"
#include "fs/volume/mounted_volume.h"

namespace lazyfs::fs {
namespace {

constexpr std::size_t kItemsAScan = 512;
constexpr std::uint64_t kItemsAStep = 64 * kItemsAScan;
constexpr std::uint64_t kBlocksAStep = 8192;  // 32 MiB: a step is a request, which others wait for

class Scrub {
 public:
  Scrub(const Core& core, std::size_t max_damaged)
      : core_(core),
        max_damaged_(max_damaged),
        buffer_(std::size_t{kMaxExtentBlocks} * kBlockBytes) {}

  Result<ScrubStep> run(ScrubPlace from) {
    meta::Key next = key_of(InodeNo{from.inode}, Kind::kExtent, from.file_block);
    for (std::uint64_t items_read = 0; items_read < kItemsAStep; items_read += kItemsAScan) {
      auto items = core_.store.scan(next, kLast, kItemsAScan);
      std::optional<meta::Key> behind = items ? end_of(*items) : core_.store.end_of_part(next);
      if (behind && (*behind <= next || *behind > kLast)) behind.reset();
      if (!items) {  // perhaps only of the part that `next` lies in
        items = core_.store.scan(next, behind ? last_below(*behind) : kLast, SIZE_MAX);
        if (!items) {
          report_part(next, behind, items.error());
          items = std::vector<meta::Item>();
        }
      }
      for (const meta::Item& item : *items) {
        if (item.key.kind != static_cast<std::uint8_t>(Kind::kExtent)) continue;
        if (is_enough()) return stop_at(item.key.owner, item.key.offset);
        TRY(entry(item));
      }
      if (!behind) return std::move(step_);
      next = *behind;
      if (is_enough()) break;
    }
    // Only extents are of interest: what lies before those of the next inode is passed over.
    const bool behind = next.kind > static_cast<std::uint8_t>(Kind::kExtent);
    const bool before = next.kind < static_cast<std::uint8_t>(Kind::kExtent);
    return stop_at(behind ? next.owner + 1 : next.owner, behind || before ? 0 : next.offset);
  }

 private:
  static constexpr meta::Key kLast{kMaxInode, 255, meta::kMaxOffset};

  // Where a scan goes on that has found these; nullopt: it has come to its end.
  static std::optional<meta::Key> end_of(const std::vector<meta::Item>& items) {
    if (items.size() < kItemsAScan) return std::nullopt;
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
  // Of what the metadata has between the keys nothing can be read.
  void report_part(meta::Key first, std::optional<meta::Key> behind, Errc why) {
    const InodeNo last{last_below(behind.value_or(kLast)).owner};
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

  Result<> entry(const meta::Item& item) {
    const auto record = decode_map_record(item.value);
    if (!record) {
      report(item, 0, Errc::kItemBad);
    } else if (const auto* extent = std::get_if<ExtentRecord>(&*record)) {
      TRY(own(item, *extent));
    } else {
      return reference(item, std::get<ReferenceRecord>(*record));
    }
    return ok();
  }

  // A shared inode's extents are read for each file that refers to them, to be named with it.
  // One whose record cannot be read is taken for a file's.
  bool is_shared(InodeNo inode) {
    if (inode != looked_up_) {
      const auto value = core_.store.get(key_of(inode, Kind::kInode));
      const auto record = value && *value ? decode_inode(**value) : fail(Errc::kItemBad);
      looked_up_ = inode;
      looked_up_is_shared_ = record && record->mode == kSharedMode;
    }
    return looked_up_is_shared_;
  }

  Result<> own(const meta::Item& item, const ExtentRecord& extent) {
    if (is_shared(InodeNo{item.key.owner})) return ok();
    if (extent.at.band.value >= core_.bands.band_count()) {
      report(item, 0, Errc::kItemBad);
      return ok();
    }
    // Pinned, the band keeps what it has; before, the blocks may have moved and the band been
    // reset.
    const auto pin = core_.bands.pin(extent.at.band);
    if (is_still_there(item)) verify(item, 0, extent);
    return ok();
  }

  Result<> reference(const meta::Item& item, const ReferenceRecord& record) {
    const auto inode = core_.inodes.get(InodeNo{item.key.owner});
    if (!inode && inode.error() != Errc::kStale) report(item, 0, inode.error());
    if (!inode) return ok();
    Result<std::vector<SharedInodes::Piece>> pieces;
    {
      ReaderLock lock((*inode)->mu);
      if (!is_still_there(item)) return ok();
      pieces = core_.shared.resolve(0, record, core_.bands);
    }
    if (!pieces) report(item, 0, pieces.error());
    if (!pieces) return ok();
    for (const SharedInodes::Piece& piece : *pieces) {
      verify(item, static_cast<std::uint32_t>(piece.extent.file_block), piece.extent.extent);
    }
    return ok();
  }

  // The extent holds what the item maps from its block `skip` on.
  void verify(const meta::Item& item, std::uint32_t skip, const ExtentRecord& extent) {
    step_.blocks += extent.blocks();
    const auto all = buffer_.span().first(std::size_t{extent.blocks()} * kBlockBytes);
    if (data::read_verified(core_.device, extent.at, extent.crcs, all)) return;
    for (std::uint32_t i = 0; i < extent.blocks(); ++i) {
      const auto one = data::read_verified(core_.device, {extent.at.band, extent.at.rba + i},
                                           std::span(extent.crcs).subspan(i, 1),
                                           buffer_.span().first(kBlockBytes));
      if (one) continue;
      if (one.error() == Errc::kDeviceRead) {
        ++core_.counters.read_errors;
        core_.bands.note_unreadable(extent.at.band);
      }
      report(item, skip + i, one.error());
    }
  }

  // False when the extent has been moved or cut since it was looked up: its blocks may hold
  // something else by now, and what it has become was verified when it was written.
  bool is_still_there(const meta::Item& item) const {
    const auto now = core_.store.get(item.key);
    return now && *now && std::ranges::equal(bytes_of(**now), bytes_of(item.value));
  }

  void report(const meta::Item& item, std::uint32_t block, Errc why) {
    if (!is_still_there(item)) return;
    const std::uint64_t offset = (item.key.offset + block) * kBlockBytes;
    log::error("scrub: inode {}, byte {}: {}", item.key.owner, offset, describe(why));
    if (why == Errc::kDataChecksumBad) ++core_.counters.checksum_errors;
    step_.damaged.push_back({InodeNo{item.key.owner}, offset, why, std::nullopt});
  }

  const Core& core_;
  const std::size_t max_damaged_;
  AlignedBuffer buffer_;
  ScrubStep step_;
  InodeNo looked_up_;
  bool looked_up_is_shared_ = false;
};

}  // namespace

Result<ScrubStep> MountedVolume::scrub(ScrubPlace from, std::size_t max_damaged) {
  TRY(check_usable(false));
  if (from.inode == 0 || from.inode > kMaxInode) return fail(Errc::kInvalid);
  return Scrub(core_, std::max<std::size_t>(max_damaged, kMaxExtentBlocks)).run(from);
}

}  // namespace lazyfs::fs
