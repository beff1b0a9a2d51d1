// Finds extents that were lost with their metadata node, by the append logs: if a block was
// appended for an inode, has not died, and belongs to no extent, the inode has lost it. This holds
// only where the extent's key may lie in a lost range and the key of a delete record for the block
// does not.
#include <sys/stat.h>

#include <algorithm>

#include "base/buffer.h"
#include "base/crc32c.h"
#include "fsck/inline_items.h"
#include "fsck/lost_keys.h"
#include "fsck/passes.h"

namespace lazyfs::fsck {
namespace {

// Whether the extent may be lost that maps block `i` of the append: it begins there, or at any
// block of the append before it.
bool is_extent_lost(const LostKeys& lost, const AppendRecord& append, std::uint32_t i) {
  return lost.overlap(key_of(append.inode, Kind::kExtent, append.file_block),
                      key_of(append.inode, Kind::kExtent, append.file_block + i));
}

// Whether extents of any inode are among what is lost.
bool may_hold_extents(const meta::KeyRange& range) { return range.first.owner <= kMaxInode; }

class Salvage {
 public:
  explicit Salvage(Context& context) : c_(context), lost_(context.lost) {}

  void run() {
    for (std::uint32_t i = 0; i < c_.bands.size() && c_.good(); ++i) {
      if (c_.readable_blocks(BandId{i}) > 0) band(BandId{i});
    }
    std::ranges::sort(c_.inodes, {}, &InodeFacts::inode);
  }

 private:
  // Items of a band in memory: its append log alone, as in a check.
  void band(BandId id) {
    std::vector<std::pair<std::uint32_t, AppendRecord>> records;
    c_.visit_kind(id, Kind::kAppendRecord, [&](const meta::Item& item) {
      const auto record = decode_append_record(item.value);
      const std::uint64_t rba = item.key.offset, readable = c_.readable_blocks(id);
      if (!record || record->inode.value == 0 || record->inode.value > kMaxInode ||
          rba > readable || record->blocks > readable - rba ||
          record->file_block > blocks_for(kMaxFileBytes) - record->blocks) {
        return;
      }
      if (is_extent_lost(lost_, *record, record->blocks - 1)) {
        records.emplace_back(static_cast<std::uint32_t>(rba), *record);
      }
    });
    if (records.empty()) return;
    BlockSet dead;
    c_.visit_kind(id, Kind::kDeleteRecord, [&](const meta::Item& item) {
      const auto record = decode_delete_record(item.value);
      if (record && record->rba < c_.band(id)->blocks &&
          record->blocks <= c_.band(id)->blocks - record->rba) {
        dead.add(record->rba, record->blocks);
      }
    });
    for (const auto& [rba, record] : records) append({id, rba}, record, dead);
  }

  void append(BandAddress at, const AppendRecord& record, const BlockSet& dead) {
    std::vector<bool> wanted(record.blocks);
    bool any = false;
    for (std::uint32_t i = 0; i < record.blocks; ++i) {
      const std::uint32_t rba = at.rba + i;
      const meta::Key first_death = key_of(at.band, Kind::kDeleteRecord, at.rba);
      const meta::Key last_death = key_of(at.band, Kind::kDeleteRecord, rba);
      wanted[i] = !dead.has(rba) && !c_.band(at.band)->live.has(rba) &&
                  is_extent_lost(lost_, record, i) && !lost_.overlap(first_death, last_death);
      any |= wanted[i];
    }
    if (!any) return;
    const auto crcs = read(at, record);
    if (!crcs) return;
    for (std::uint32_t i = 0; i < record.blocks;) {
      std::uint32_t end = i;
      while (end < record.blocks && wanted[end] && end - i < kMaxExtentBlocks) ++end;
      if (end > i) {
        restore(at, i, end, record, *crcs);
        i = end;
      } else {
        ++i;
      }
    }
  }

  // The blocks' checksums, if they are what was appended.
  std::optional<std::vector<std::uint32_t>> read(BandAddress at, const AppendRecord& record) {
    AlignedBuffer block(kBlockBytes);
    std::vector<std::uint32_t> crcs;
    for (std::uint32_t i = 0; i < record.blocks; ++i) {
      if (!c_.device.read({at.band, at.rba + i}, block.span())) return std::nullopt;
      crcs.push_back(crc32c(block.span()));
    }
    if (checksum_of(crcs) != record.checksum) return std::nullopt;
    return crcs;
  }

  // Blocks [begin, end) of the append, as an extent, unless the file has something else there.
  void restore(BandAddress at, std::uint32_t begin, std::uint32_t end, const AppendRecord& append,
               const std::vector<std::uint32_t>& crcs) {
    const std::uint64_t file_block = append.file_block + begin;
    if (!is_unmapped(append.inode, file_block, end - begin)) return;
    auto record = c_.inode(append.inode);
    const bool is_new = !record;
    if (is_new) record = make_record(append.inode);
    if (!S_ISREG(record->mode) && record->mode != kSharedMode) return;
    const std::uint64_t reaches =
        std::min((file_block + end - begin) * kBlockBytes, largest_size(record->mode));
    // References decide what a shared-extent inode keeps, not its size.
    if (is_new || is_rebuilt(append.inode) || record->mode == kSharedMode) {
      record->size = std::max(record->size, reaches);
    } else if (reaches > blocks_for(record->size) * kBlockBytes) {
      return;  // truncated since
    }
    ExtentRecord extent{{at.band, at.rba + begin}, at.rba, {}};
    extent.crcs.assign(crcs.begin() + begin, crcs.begin() + end);
    c_.put(key_of(append.inode, Kind::kExtent, file_block), encode(extent));
    InlineItems::erase(c_, append.inode, file_block, end - begin);
    c_.put_inode(append.inode, *record);
    c_.add_extent(extent);
    c_.repair.salvaged_blocks += end - begin;
    if (is_new) {
      c_.inodes.push_back({.inode = append.inode,
                           .links = 1,
                           .type = type_of(*record),
                           .is_rebuilt = true});
      c_.last_inode = std::max(c_.last_inode, append.inode.value);
    }
    c_.repaired("Inode {}: {} blocks from block {} on are recovered by the append log of band {}",
                append.inode.value, end - begin, file_block, at.band.value);
  }

  // Whether the inode's record was rebuilt, by this repair or by an interrupted one: its size is
  // then only that of the blocks that were found.
  bool is_rebuilt(InodeNo inode) const {
    const meta::Key record = key_of(inode, Kind::kInode);
    return lost_.overlap(record, record) &&
           !c_.orphan_work(inode);
  }

  InodeRecord make_record(InodeNo inode) const {
    InodeRecord r;
    r.mode = c_.is_target(inode) ? kSharedMode : S_IFREG | 0600;
    r.links = 1;
    r.access = r.modification = r.change = r.birth = c_.now;
    return r;
  }

  bool is_unmapped(InodeNo inode, std::uint64_t file_block, std::uint32_t blocks) {
    const std::uint64_t from = file_block < kMaxExtentBlocks ? 0 : file_block - kMaxExtentBlocks;
    bool free = true;
    c_.visit(key_of(inode, Kind::kExtent, from),
             key_of(inode, Kind::kExtent, file_block + blocks - 1), "",
             [&](const meta::Item& item) {
               const auto record = decode_map_record(item.value);
               free &= record && item.key.offset + blocks_of(*record) <= file_block;
             });
    return free;
  }

  Context& c_;
  const LostKeys lost_;
};

}  // namespace

void salvage_extents(Context& c) {
  if (std::ranges::any_of(c.lost, may_hold_extents)) Salvage(c).run();
}

}  // namespace lazyfs::fsck
