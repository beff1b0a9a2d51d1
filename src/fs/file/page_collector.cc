#include "fs/file/page_collector.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/buffer.h"
#include "fs/file/extent_map.h"
#include "fs/file/inline_block.h"

namespace lazyfs::fs {
namespace {

constexpr std::uint64_t kLargeFileBytes = std::uint64_t{1} << 20;  // larger files seldom die with
                                                                   // smaller ones
constexpr std::uint64_t kSmallFileBytes = kInlinePieceBytes;

}  // namespace

bool may_move_inline(const Inode& inode) {
  ReaderLock lock(inode.mu);
  const bool has_block = !inode.inline_state.is_known || inode.inline_state.bytes > 0;
  return !inode.deleted && has_block && inode.record.size > kSmallFileBytes;
}

Result<> PageCollector::put_record(Inode& inode) {
  meta::Batch batch;
  batch.put(key_of(inode.no, Kind::kInode), encode(for_tree(inode, inode.record)));
  TRY(store_.try_apply(batch, meta::Reserve::kDelete));
  inode.record_dirty = false;
  return ok();
}

// Makes the inline block dirty, so that it goes to a band, if the file has grown past it or `rule`
// says so. The block stays inline if no space can be reserved.
Result<> PageCollector::move_inline_out(Inode& inode, InlineRule rule) {
  const bool is_dirty = inode.buffer && !inode.buffer->clean();
  const bool moves_last = rule == InlineRule::kOneBlockFiles || rule == InlineRule::kMoveOut;
  if (!is_dirty && !moves_last) return ok();
  TRY(learn_inline(store_, inode));
  const std::uint64_t block = inode.inline_state.block, size = inode.record.size;
  const bool is_last = block + 1 >= blocks_for(size);
  const std::uint64_t largest_that_stays =
      rule == InlineRule::kOneBlockFiles ? kBlockBytes : kSmallFileBytes;
  const bool stays = moves_last ? size <= largest_that_stays : is_last;
  if (inode.inline_state.bytes == 0 || stays) return ok();
  if (is_dirty && inode.buffer->has_dirty(block)) return ok();
  ASSIGN_OR_RETURN(const auto stored, read_inline(store_, inode));
  if (!stored) return fail(Errc::kItemBad);
  if (!inode.buffer) inode.buffer = std::make_unique<data::WriteBuffer>(pages_);
  AlignedBuffer contents = AlignedBuffer::zeroed(kBlockBytes);
  std::ranges::copy(stored->bytes, contents.span().begin());
  if (!bands_.reserve(1)) return ok();
  try {
    inode.buffer->provide(block, contents.span());
  } catch (...) {
    bands_.release(1);
    throw;
  }
  return ok();
}

// Whether the dirty last block of the file goes into the tree, once no other one is dirty.
// REQUIRES: inline_state is known.
Result<bool> PageCollector::is_last_block_inline(const Inode& inode, InlineRule rule) {
  const std::uint64_t size = inode.record.size;
  const std::uint64_t last = blocks_for(size) - 1;
  if (size == 0 || !inode.buffer->has_dirty(last)) return false;
  const std::uint64_t dirty = inode.buffer->dirty_blocks();
  const InlineState& now = inode.inline_state;
  const bool is_free = now.bytes == 0 || now.block == last;
  const bool is_small = size <= kSmallFileBytes && inode.record.blocks == 0;
  if (is_small && is_free && dirty == 1) return true;
  if (rule != InlineRule::kLastParts) return false;
  // Only if the file grew by less than a block since its last write-back. Else the last block goes
  // to a band with the others.
  if (dirty > 1 && (inode.tree_size == 0 || size - inode.tree_size >= kBlockBytes)) return false;
  const bool gets_free = dirty > 1 && inode.buffer->has_dirty(now.block);
  if (!is_free && !gets_free) return false;
  ASSIGN_OR_RETURN(const auto mapped, count_mapped(store_, inode.no, last, 1));
  return mapped == 0;
}

// Writes the last block, which is the only dirty one, into the tree. False: the log has no room.
Result<bool> PageCollector::write_inline(Inode& inode) {
  const std::uint64_t size = inode.record.size;
  const std::uint64_t last = blocks_for(size) - 1;
  const auto contents = inode.buffer->contents(last).first(size - last * kBlockBytes);
  meta::Batch batch;
  const InlineState state = put_inline(batch, inode, last, contents);
  batch.put(key_of(inode.no, Kind::kInode), encode(inode.record));
  if (const auto applied = store_.try_apply(batch); !applied) {
    const bool is_refused =
        applied.error() == Errc::kLogFull || applied.error() == Errc::kBatchTooLarge;
    if (is_refused) return false;
    return fail(applied.error());
  }
  inode.tree_size = size;
  inode.record_dirty = false;
  inode.inline_state = state;
  ++inode.map_version;
  bands_.release(inode.buffer->drop_from(last));
  ++counters_.inline_files;
  if (size > kSmallFileBytes) inline_queue_.add(inode.no, clock_.monotonic());
  return true;
}

// How many of the inode's dirty blocks, lowest first, bring it to the goal; 0: the goal is reached.
// Other threads may dirty blocks as fast as they are written. So once as many blocks as were dirty
// at first are taken, the goal is reached; with `all`, all dirty blocks are taken at once then.
// `but_last`: the last dirty block waits for the next call.
std::size_t PageCollector::blocks_to_take(const Inode& inode, std::size_t max_blocks,
                                          bool but_last, WriteBackGoal& goal) {
  if (!goal.is_set) {
    goal.is_set = true;
    goal.blocks = inode.buffer->dirty_blocks();
    goal.size = inode.record.size;
    goal.end = blocks_for(goal.size);
  }
  const bool is_done = inode.buffer->first_dirty().value_or(meta::kMaxOffset) >= goal.end &&
                         inode.tree_size >= std::min(goal.size, inode.record.size);
  if (goal.is_reached || is_done) return 0;
  if (goal.blocks > 0) {
    const std::uint64_t dirty = inode.buffer->dirty_blocks() - (but_last ? 1 : 0);
    const std::size_t blocks = std::min<std::size_t>(max_blocks, dirty);
    goal.blocks -= std::min<std::uint64_t>(goal.blocks, blocks);
    return blocks;
  }
  goal.is_reached = true;
  return goal.all ? inode.buffer->dirty_blocks() : 0;
}

Result<std::size_t> PageCollector::collect(const InodeRef& inode, WriteBackToken& token,
                                           std::size_t max_blocks, WriteBackGroup& group,
                                           WriteBackGoal& goal) {
  TRY(truncation_.try_finish(inode, token));
  const auto collect_with = [&](bool may_be_inline) {
    return meta::when_room(store_, [&] {
      WriterLock lock(inode->mu);
      return collect_locked(inode, max_blocks, may_be_inline, token, group, goal);
    });
  };
  const auto collected = collect_with(true);
  if (collected || collected.error() != Errc::kLogFull) return collected;
  return collect_with(false);
}

// After an error the goal is unchanged.
Result<std::size_t> PageCollector::collect_locked(const InodeRef& inode, std::size_t max_blocks,
                                                  bool may_be_inline, WriteBackToken& token,
                                                  WriteBackGroup& group, WriteBackGoal& goal) {
  if (inode->deleted) return 0;
  TRY(move_inline_out(*inode, goal.inline_rule));
  if (!inode->buffer || inode->buffer->clean()) {
    if (inode->record_dirty) TRY(put_record(*inode));
    return 0;
  }
  ASSIGN_OR_RETURN(const bool goes_inline, is_last_block_inline(*inode, goal.inline_rule));
  const bool is_only_one = inode->buffer->dirty_blocks() == 1;
  if (goes_inline && is_only_one && may_be_inline) {
    ASSIGN_OR_RETURN(const bool done, write_inline(*inode));
    if (done) return 0;
  }
  const std::size_t to_take =
      blocks_to_take(*inode, max_blocks, goes_inline && !is_only_one, goal);
  if (to_take == 0) return 0;
  if (group.size() == group.capacity()) group.reserve(2 * group.size() + 1);
  const auto frozen = inode->buffer->begin_writing(to_take);
  FrozenParts parts;
  if (const auto sorted = sort_all(*inode, frozen, parts); !sorted) {
    inode->buffer->abort_writing();  // no page was overwritten meanwhile, so none is released
    return fail(sorted.error());
  }
  group.push_back({.inode = inode,
                   .token = std::move(token),
                   .size = inode->record.size,
                   .next_dirty = inode->buffer->first_dirty().value_or(meta::kMaxOffset),
                   .parts = std::move(parts)});
  return group.back().blocks();
}

Result<> PageCollector::sort_all(Inode& inode, std::span<const data::DirtyRun> frozen,
                                 FrozenParts& parts) try {
  for (const data::DirtyRun& run : frozen) TRY(sort_by_stream(inode, run, parts));
  return ok();
} catch (const std::bad_alloc&) {
  return fail(Errc::kNoMemory);
}

// Blocks that replace young ones are likely to be replaced soon too, so they go to kRewritten.
Result<> PageCollector::sort_by_stream(Inode& inode, const data::DirtyRun& run,
                                       FrozenParts& parts) {
  const bool is_large = inode.record.size >= kLargeFileBytes;
  std::vector<data::Stream> streams(run.pages.size(),
                                    is_large ? data::Stream::kLarge : data::Stream::kSmall);
  if (inode.record.blocks > 0) {
    ASSIGN_OR_RETURN(const auto replaced,
                     read_extents(store_, inode.no, run.first_block, run.pages.size()));
    for (const MappedExtent& extent : replaced) {
      if (!bands_.is_young(extent.extent.at.band)) continue;
      const auto first = streams.begin() + static_cast<std::ptrdiff_t>(
                                                extent.file_block - run.first_block);
      std::fill_n(first, extent.extent.blocks(), data::Stream::kRewritten);
    }
  }
  for (std::size_t i = 0; i < streams.size(); ++i) {
    const auto stream = static_cast<std::size_t>(streams[i]);
    parts[stream].pages.push_back({run.first_block + i, run.pages[i]});
  }
  return ok();
}

}  // namespace lazyfs::fs
