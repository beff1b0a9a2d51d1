#include "fs/file/file_ranges.h"

#include <algorithm>
#include <array>

#include "fs/file/extent_map.h"
#include "fs/file/write_back.h"

namespace lazyfs::fs {
namespace {

constexpr std::size_t kExtentsABatch = 128;

Result<> check_range(std::uint64_t offset, std::uint64_t length) {
  if (length == 0) return fail(Errc::kInvalid);
  if (offset > kMaxFileBytes || length > kMaxFileBytes - offset) return fail(Errc::kFileTooBig);
  return ok();
}

}  // namespace

// ---- Changing -----------------------------------------------------------------------------------

Result<> FileRanges::grow(const InodeRef& inode, std::uint64_t size) {
  ASSIGN_OR_RETURN(const std::uint64_t now, file_size(*inode));
  return size > now ? writer_.truncate(inode, size) : ok();
}

Result<> FileRanges::punch(const InodeRef& inode, std::uint64_t offset, std::uint64_t length,
                           RangeFlags flags) {
  TRY(check_range(offset, length));
  ASSIGN_OR_RETURN(const std::uint64_t size, file_size(*inode));
  if (offset < size) TRY(clear(inode, offset, offset + std::min(length, size - offset)));
  return touch(inode, flags);
}

Result<> FileRanges::zero(const InodeRef& inode, std::uint64_t offset, std::uint64_t length,
                          RangeFlags flags) {
  TRY(punch(inode, offset, length, flags));
  return flags.keep_size ? ok() : grow(inode, offset + length);
}

// Requires that `end` is not behind the end of the file. The block there goes whole when the range
// reaches the end.
Result<> FileRanges::clear(const InodeRef& inode, std::uint64_t offset, std::uint64_t end) {
  ASSIGN_OR_RETURN(const std::uint64_t size, file_size(*inode));
  const std::uint64_t first = blocks_for(offset);
  const std::uint64_t last = end >= size ? blocks_for(end) : end / kBlockBytes;
  if (offset % kBlockBytes != 0) {
    TRY(clear_part(inode, offset, std::min(end, first * kBlockBytes)));
  }
  if (last >= first && end > last * kBlockBytes) {
    TRY(clear_part(inode, last * kBlockBytes, end));
  }
  return first < last ? free_whole_blocks(inode, first, last) : ok();
}

// Writes zeros over a part of one block, unless that lies in a hole.
Result<> FileRanges::clear_part(const InodeRef& inode, std::uint64_t offset, std::uint64_t end) {
  static constexpr std::array<std::byte, kBlockBytes> kZeros{};
  {
    ReaderLock lock(inode->mu);
    const std::uint64_t block = offset / kBlockBytes;
    ASSIGN_OR_RETURN(const std::uint64_t behind, end_of_data(*inode, block));
    if (behind == block) return ok();
  }
  return writer_.write(inode, offset, std::span(kZeros).first(end - offset), false);
}

Result<> FileRanges::free_whole_blocks(const InodeRef& inode, std::uint64_t first,
                                       std::uint64_t end) {
  const WriteBackToken token(inode);  // no block of it is being written
  WriterLock lock(inode->mu);
  if (inode->deleted) return fail(Errc::kStale);
  if (first == 0) TRY(erase_inline(*inode));
  TRY(unmap(*inode, first, end));
  if (!inode->buffer) return ok();
  core_.bands.release(inode->buffer->drop_range(first, end));
  if (inode->buffer->clean()) inode->tree_size = inode->record.size;  // I5
  return ok();
}

Result<> FileRanges::erase_inline(Inode& inode) {
  ASSIGN_OR_RETURN(const bool is_inline, has_inline(inode));
  if (!is_inline) return ok();
  meta::Batch batch;
  batch.erase(key_of(inode.no, Kind::kInline));
  TRY(core_.store.apply(batch, meta::Reserve::kDelete));
  inode.inline_known = true;
  inode.inline_bytes = 0;
  ++inode.map_version;
  return ok();
}

// In as many batches as it takes: a crash in between leaves a part of the range.
Result<> FileRanges::unmap(Inode& inode, std::uint64_t first, std::uint64_t end) {
  std::size_t at_most = kExtentsABatch;
  while (first < end && inode.record.blocks > 0) {
    ASSIGN_OR_RETURN(const auto items,
                     core_.store.scan(key_of(inode.no, Kind::kExtent, first),
                                      key_of(inode.no, Kind::kExtent, end - 1), at_most));
    std::uint64_t until = end;
    if (items.size() == at_most) {
      ASSIGN_OR_RETURN(const auto last, decode_map_record(items.back().value));
      until = std::min(end, items.back().key.offset + blocks_of(last));
    }
    SharedChange shared(core_.shared);
    MapChange change(core_.store, inode.no, &shared);
    TRY(change.unmap(first, until - first));
    InodeRecord record = inode.record;
    record.blocks += static_cast<std::uint64_t>(change.blocks_delta());
    meta::Batch batch;
    change.put_into(batch);
    shared.put_into(batch);
    batch.put(key_of(inode.no, Kind::kInode), encode(for_tree(inode, record)));
    const auto applied = core_.store.apply(batch, meta::Reserve::kDelete);
    if (!applied) {
      if (applied.error() != Errc::kBatchTooLarge || at_most == 1) return fail(applied.error());
      at_most /= 2;  // the extents' bands are many
      continue;
    }
    change.account(core_.bands);
    shared.account(core_.bands);
    ++inode.map_version;
    inode.record.blocks = record.blocks;
    first = until;
  }
  return ok();
}

Result<> FileRanges::touch(const InodeRef& inode, RangeFlags flags) {
  WriterLock lock(inode->mu);
  if (inode->deleted) return fail(Errc::kStale);
  inode->record.modification = inode->record.change = core_.clock.now();
  if (flags.clear_set_id) drop_set_id(inode->record);
  inode->record_dirty = true;
  core_.dirty.add(inode, core_.clock.monotonic());
  return ok();
}

// ---- Finding ------------------------------------------------------------------------------------

Result<bool> FileRanges::has_inline(Inode& inode) {
  if (inode.inline_known) return inode.inline_bytes > 0;
  if (inode.record.size > 0 && inode.record.blocks > 0) {
    ASSIGN_OR_RETURN(const auto mapped, read_map(core_.store, inode.no, 0, 1));
    if (!mapped.empty()) return false;
  }
  ASSIGN_OR_RETURN(const auto value, core_.store.get(key_of(inode.no, Kind::kInline)));
  return value.has_value();
}

// The first block behind the data that begins at `block`; `block` itself when a hole is there.
Result<std::uint64_t> FileRanges::end_of_data(Inode& inode, std::uint64_t block) {
  for (;;) {
    const std::uint64_t before = block;
    while (inode.buffer && inode.buffer->has(block)) ++block;
    ASSIGN_OR_RETURN(const auto entries, read_map(core_.store, inode.no, block, kMaxExtentBlocks));
    for (const MapEntry& entry : entries) {
      if (entry.file_block == block) block = entry.end();
    }
    if (block == 0) {
      ASSIGN_OR_RETURN(const bool is_inline, has_inline(inode));
      if (is_inline) block = 1;
    }
    if (block == before) return block;
  }
}

Result<std::uint64_t> FileRanges::find_data(Inode& inode, std::uint64_t offset) {
  ReaderLock lock(inode.mu);
  if (offset >= inode.record.size) return fail(Errc::kNoSuchRange);
  const std::uint64_t block = offset / kBlockBytes;
  ASSIGN_OR_RETURN(const std::uint64_t behind, end_of_data(inode, block));
  if (behind > block) return offset;
  std::uint64_t next = meta::kMaxOffset;
  ASSIGN_OR_RETURN(const auto items,
                   core_.store.scan(key_of(inode.no, Kind::kExtent, block),
                                    key_of(inode.no, Kind::kExtent, meta::kMaxOffset), 1));
  if (!items.empty()) next = items.front().key.offset;
  if (const auto held = inode.buffer ? inode.buffer->first_from(block) : std::nullopt) {
    next = std::min(next, *held);
  }
  if (next >= blocks_for(inode.record.size)) return fail(Errc::kNoSuchRange);
  return next * kBlockBytes;
}

Result<std::uint64_t> FileRanges::find_hole(Inode& inode, std::uint64_t offset) {
  ReaderLock lock(inode.mu);
  if (offset >= inode.record.size) return fail(Errc::kNoSuchRange);
  ASSIGN_OR_RETURN(const std::uint64_t behind, end_of_data(inode, offset / kBlockBytes));
  return std::min(inode.record.size, std::max(offset, behind * kBlockBytes));
}

}  // namespace lazyfs::fs
