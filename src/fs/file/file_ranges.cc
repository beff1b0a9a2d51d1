#include "fs/file/file_ranges.h"

#include <algorithm>
#include <array>

#include "fs/file/extent_map.h"
#include "fs/file/inline_block.h"
#include "fs/inode/write_back_token.h"

namespace lazyfs::fs {
namespace {

// Data that is passed over at once, under the inode's lock.
constexpr std::uint64_t kBlocksAStep = 8192;

Result<> check_range(std::uint64_t offset, std::uint64_t length) {
  if (length == 0) return fail(Errc::kInvalid);
  if (offset > kMaxFileBytes || length > kMaxFileBytes - offset) return fail(Errc::kFileTooBig);
  return ok();
}

}  // namespace

// ---- Changing -----------------------------------------------------------------------------------

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
  ASSIGN_OR_RETURN(const std::uint64_t size, file_size(*inode));
  if (flags.keep_size || size >= offset + length) return ok();
  return truncation_.set_size(inode, offset + length);
}

// REQUIRES: `end` is at most the file's size. If it is the size, the last block is freed whole.
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
    ASSIGN_OR_RETURN(const bool is_data, has_data(*inode, offset / kBlockBytes));
    if (!is_data) return ok();
  }
  return writer_.write(inode, offset, std::span(kZeros).first(end - offset), {});
}

Result<> FileRanges::free_whole_blocks(const InodeRef& inode, std::uint64_t first,
                                       std::uint64_t end) {
  const WriteBackToken token(inode);  // keeps its blocks from being written meanwhile
  const auto free_one = [&](std::uint64_t begin, std::uint64_t part_end) {
    WriterLock lock(inode->mu);
    return free_part(*inode, begin, part_end);
  };
  TRY(maps_.free_in_parts(*inode, first, end, SIZE_MAX, free_one));
  return ok();
}

// For every other thread each part is a punch of its own.
Result<> FileRanges::free_part(Inode& inode, std::uint64_t first, std::uint64_t end) {
  if (inode.deleted) return fail(Errc::kStale);
  TRY(free_inline(inode, first, end));
  TRY(maps_.free_blocks(inode, first, end, meta::Reserve::kPunch));
  if (!inode.buffer) return ok();
  bands_.release(inode.buffer->drop_range(first, end));
  if (inode.buffer->clean()) inode.tree_size = inode.record.size;  // I5
  return ok();
}

Result<> FileRanges::free_inline(Inode& inode, std::uint64_t first, std::uint64_t end) {
  TRY(learn_inline(store_, inode));
  if (!inode.inline_state.is_in(first, end - first)) return ok();
  meta::Batch batch;
  erase_inline(batch, inode);
  TRY(store_.try_apply(batch, meta::Reserve::kDelete));
  inode.inline_state = {.is_known = true};
  ++inode.map_version;
  return ok();
}

Result<> FileRanges::touch(const InodeRef& inode, RangeFlags flags) {
  WriterLock lock(inode->mu);
  if (inode->deleted) return fail(Errc::kStale);
  inode->record.modification = inode->record.change = change_time(clock_, {inode.get()});
  if (flags.clear_set_id) drop_set_id(inode->record);
  inode->record_dirty = true;
  dirty_.add(inode, clock_.monotonic());
  return ok();
}

// ---- Finding ------------------------------------------------------------------------------------

// The first block past the data that begins at `block`, at most `end`; `block` itself if it lies in
// a hole.
Result<std::uint64_t> FileRanges::end_of_data(Inode& inode, std::uint64_t block,
                                              std::uint64_t end) {
  ASSIGN_OR_RETURN(const InlineState inline_state, find_inline(store_, inode));
  while (block < end) {  // each turn moves `block` on, until a hole ends it
    const std::uint64_t before = block;
    while (block < end && inode.buffer && inode.buffer->has(block)) ++block;
    const std::uint64_t count = std::min<std::uint64_t>(end - block, kMaxExtentBlocks);
    ASSIGN_OR_RETURN(const auto entries, read_map(store_, inode.no, block, count));
    for (const MapEntry& entry : entries) {
      if (entry.file_block == block) block = entry.end();
    }
    if (block < end && inline_state.is_in(block, 1)) ++block;
    if (block == before) break;
  }
  return block;
}

Result<bool> FileRanges::has_data(Inode& inode, std::uint64_t block) {
  ASSIGN_OR_RETURN(const std::uint64_t data_end, end_of_data(inode, block, block + 1));
  return data_end > block;
}

Result<std::uint64_t> FileRanges::find_data(Inode& inode, std::uint64_t offset) {
  ReaderLock lock(inode.mu);
  if (offset >= inode.record.size) return fail(Errc::kNoSuchRange);
  const std::uint64_t block = offset / kBlockBytes;
  ASSIGN_OR_RETURN(const bool is_data, has_data(inode, block));
  if (is_data) return offset;
  std::uint64_t next = meta::kMaxOffset;
  ASSIGN_OR_RETURN(const auto items,
                   store_.scan(key_of(inode.no, Kind::kExtent, block),
                                    key_of(inode.no, Kind::kExtent, meta::kMaxOffset), 1));
  if (!items.empty()) next = items.front().key.offset;
  if (const auto held = inode.buffer ? inode.buffer->first_from(block) : std::nullopt) {
    next = std::min(next, *held);
  }
  ASSIGN_OR_RETURN(const InlineState inline_state, find_inline(store_, inode));
  if (inline_state.is_in(block, next - block)) next = inline_state.block;
  if (next >= blocks_for(inode.record.size)) return fail(Errc::kNoSuchRange);
  return next * kBlockBytes;
}

Result<std::uint64_t> FileRanges::find_hole(Inode& inode, std::uint64_t offset) {
  for (std::uint64_t block = offset / kBlockBytes;;) {  // each turn moves `block` on
    ReaderLock lock(inode.mu);
    if (offset >= inode.record.size) return fail(Errc::kNoSuchRange);
    const std::uint64_t step_end = block + kBlocksAStep;
    ASSIGN_OR_RETURN(block, end_of_data(inode, block, step_end));
    if (block == step_end && block < blocks_for(inode.record.size)) continue;
    return std::min(inode.record.size, std::max(offset, block * kBlockBytes));
  }
}

}  // namespace lazyfs::fs
