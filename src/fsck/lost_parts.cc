#include "fsck/lost_parts.h"

#include <sys/stat.h>

#include <algorithm>

namespace lazyfs::fsck {
namespace {

std::uint64_t above(std::uint64_t count, std::uint64_t less) {
  return count - std::min(count, less);
}

// Losses of the inode's blocks that earlier passes have reported.
std::uint64_t reported_blocks(const Context& c, InodeNo inode) {
  std::uint64_t blocks = 0;
  for (const Loss& loss : c.repair.losses) blocks += loss.inode == inode ? loss.blocks : 0;
  return blocks;
}

}  // namespace

void LostParts::report(InodeNo inode, const InodeRecord& was, const InodeRecord& is) {
  const InodeFacts* facts = c_.find_inode(inode);
  if (!facts || facts->type == kSharedType) return;  // files report what they refer to
  if (c_.orphan_work(inode) == OrphanRecord::Work::kDelete) return;
  no_ = inode;
  other_.clear();
  if (facts->is_rebuilt || may_be_rebuilt(was, is)) {
    record(facts->type, facts->is_rebuilt);
  } else if (may_be_lost(Kind::kInode, Kind::kExtent)) {
    if (facts->type == kRegularType) contents(was, is.blocks);
    if (facts->type == kDirectoryType) names(was.entries, is.entries);
    const std::uint64_t attributes = above(was.xattrs, is.xattrs);
    if (attributes > 0 && may_be_lost(Kind::kXattrName, Kind::kXattrValue)) {
      add(fmt::format("{} of its extended attributes", attributes));
    }
  }
  if (!other_.empty()) c_.lost_other(no_, other_);
}

// Whether an interrupted repair may have made the record. One that a user of the volume made may
// look the same, if root made the inode, and nobody has changed it since. But a repair counts what
// it finds, so a record that counts what is lost is a user's.
bool LostParts::may_be_rebuilt(const InodeRecord& was, const InodeRecord& is) const {
  const bool counts_more =
      was.blocks > is.blocks || was.entries > is.entries || was.xattrs > is.xattrs;
  const meta::Key record = key_of(no_, Kind::kInode);
  if (counts_more || !lost_before_.overlap(record, record)) return false;
  const bool is_new = was.access == was.birth && was.modification == was.birth &&
                      was.change == was.birth;
  if (!is_new || was.owner != Owner{}) return false;
  const std::uint32_t of_directories = no_ == kRootInode ? 0755 : 0700;
  const std::uint32_t mode = was.mode & 07777;
  return mode == (S_ISREG(was.mode) ? 0600 : S_ISDIR(was.mode) ? of_directories : 0777);
}

// The counters of the inode are lost with its record, so other losses are only possible ones.
void LostParts::record(std::uint8_t type, bool is_certain) {
  const bool is_file = type == kRegularType;
  add(fmt::format("{}{}owner, mode and times", is_certain ? "" : "perhaps ",
                  is_file ? "size, " : ""));
  if (is_file && may_be_lost(Kind::kInline, Kind::kExtent)) add("perhaps contents");
  if (type == kDirectoryType && may_names_be_lost()) add("perhaps names");
  if (may_be_lost(Kind::kXattrName, Kind::kXattrValue)) add("perhaps extended attributes");
}

void LostParts::contents(const InodeRecord& was, std::uint64_t mapped) {
  const Unmapped left = unmapped(blocks_for(was.size));
  if (left.blocks == 0) return;
  const std::uint64_t reported = reported_blocks(c_, no_);
  const std::uint64_t lost = std::min(left.perhaps_lost, above(was.blocks, mapped + reported));
  if (lost > 0) c_.lost_blocks(no_, left.first_lost, lost, "were mapped by metadata that is lost");
  // The record does not count inline data: where all else is a hole, such data may have been.
  if (left.blocks > lost + reported && is_inline_data_lost(was.size)) {
    add("perhaps contents, which read as zeros");
  }
}

// An extent that is lost began in the gap. From the first key on where one may have begun, each
// block of the gap may have been part of it or of a later one.
LostParts::Unmapped LostParts::unmapped(std::uint64_t file_blocks) {
  Unmapped found;
  std::uint64_t at = 0;
  const auto gap = [&](std::uint64_t end) {
    end = std::min(end, file_blocks);
    if (at >= end) return;
    found.blocks += end - at;
    const auto lost =
        lost_.first_in(key_of(no_, Kind::kExtent, at), key_of(no_, Kind::kExtent, end - 1));
    if (!lost) return;
    if (found.perhaps_lost == 0) found.first_lost = lost->offset;
    found.perhaps_lost += end - lost->offset;
  };
  c_.visit_kind(no_, Kind::kExtent, [&](const meta::Item& item) {
    const auto record = decode_map_record(item.value);
    if (!record) return;
    gap(item.key.offset);
    at = std::max(at, item.key.offset + blocks_of(*record));
  });
  gap(file_blocks);
  return found;
}

// Checks the one block that may have inline data: any block, if no piece remains that names it.
bool LostParts::is_inline_data_lost(std::uint64_t file_bytes) {
  std::uint64_t block = 0;
  unsigned pieces = 0;  // a bit for each
  c_.visit_kind(no_, Kind::kInline, [&](const meta::Item& item) {
    block = inline_block(item.key);
    pieces |= 1u << inline_piece(item.key);
  });
  const std::uint64_t last = blocks_for(file_bytes) - 1;
  if (pieces == 0) {
    return lost_.overlap(inline_key(no_, 0), inline_key(no_, last, kInlinePieces - 1));
  }
  for (std::uint64_t piece = 0; piece < kInlinePieces; ++piece) {
    const meta::Key key = inline_key(no_, block, piece);
    const bool is_in_file = block * kBlockBytes + piece * kInlinePieceBytes < file_bytes;
    if (is_in_file && (pieces >> piece & 1) == 0 && lost_.overlap(key, key)) return true;
  }
  return false;
}

// Names that the repair has removed, because what they led to is lost, are losses already.
void LostParts::names(std::uint64_t was, std::uint64_t is) {
  if (was <= is || !may_names_be_lost()) return;
  const auto removed = static_cast<std::uint64_t>(
      std::ranges::count(c_.repair.losses, no_, &Loss::directory));
  const std::uint64_t lost = above(was, is + removed);
  if (lost > 0) add(fmt::format("{} of its names", lost));
}

void LostParts::add(std::string_view words) {
  if (!other_.empty()) other_ += "; ";
  other_ += words;
}

}  // namespace lazyfs::fsck
