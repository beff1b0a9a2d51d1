#include "fs/file/page_collector.h"

#include <algorithm>
#include <utility>

#include "fs/file/extent_map.h"

namespace lazyfs::fs {
namespace {

constexpr std::uint64_t kLargeFileBytes = std::uint64_t{1} << 20;  // larger files seldom die with
                                                                   // smaller ones

}  // namespace

Result<> PageCollector::put_record(Inode& inode) {
  meta::Batch batch;
  batch.put(key_of(inode.no, Kind::kInode), encode(for_tree(inode, inode.record)));
  TRY(store_.apply(batch, meta::Reserve::kDelete));
  inode.record_dirty = false;
  return ok();
}

// Writes a small file into the tree; false when it is not small.
Result<bool> PageCollector::write_inline(Inode& inode) {
  if (inode.record.size > kMaxInlineBytes || inode.record.size == 0 || inode.record.blocks > 0 ||
      inode.buffer->dirty_blocks() != 1 || !inode.buffer->has_dirty(0)) {
    return false;
  }
  const auto contents = inode.buffer->contents(0).first(inode.record.size);
  meta::Batch batch;
  batch.put(key_of(inode.no, Kind::kInline), contents);
  batch.put(key_of(inode.no, Kind::kInode), encode(inode.record));
  TRY(store_.apply(batch, meta::Reserve::kDelete));
  inode.tree_size = inode.record.size;
  inode.record_dirty = false;
  inode.inline_known = true;
  inode.inline_bytes = inode.record.size;
  ++inode.map_version;
  bands_.release(inode.buffer->drop_from(0));
  ++counters_.inline_files;
  return true;
}

// How many of the inode's dirty blocks, lowest first, bring it to the goal; 0: the goal is reached.
// Other threads may dirty blocks as fast as they are written. So after as many blocks as were dirty
// at first, all are taken at once.
std::size_t PageCollector::blocks_to_take(const Inode& inode, std::size_t max_blocks,
                                          WriteBackGoal& goal) {
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
    const std::size_t blocks = std::min<std::size_t>(max_blocks, inode.buffer->dirty_blocks());
    goal.blocks -= std::min<std::uint64_t>(goal.blocks, blocks);
    return blocks;
  }
  goal.is_reached = true;
  return goal.all ? inode.buffer->dirty_blocks() : 0;
}

Result<std::size_t> PageCollector::collect(const InodeRef& inode, std::size_t max_blocks,
                                           WriteBackGroup& group, WriteBackGoal& goal) {
  WriteBackToken token(inode);
  WriterLock lock(inode->mu);
  if (inode->deleted) return 0;
  TRY(truncation_.finish_locked(*inode));
  if (!inode->buffer || inode->buffer->clean()) {
    if (inode->record_dirty) TRY(put_record(*inode));
    return 0;
  }
  ASSIGN_OR_RETURN(const bool done, write_inline(*inode));
  if (done) return 0;
  const std::size_t to_take = blocks_to_take(*inode, max_blocks, goal);
  if (to_take == 0) return 0;
  const auto frozen = inode->buffer->begin_writing(to_take);
  GroupMember member{.inode = inode,
                .token = std::move(token),
                .size = inode->record.size,
                .next_dirty = inode->buffer->first_dirty().value_or(meta::kMaxOffset),
                .parts = {}};
  for (const data::DirtyRun& run : frozen) {
    const auto sorted = sort_by_stream(*inode, run, member);
    if (sorted) continue;
    inode->buffer->abort_writing();  // no page was overwritten meanwhile, so none is released
    return fail(sorted.error());
  }
  const std::size_t blocks = member.blocks();
  group.push_back(std::move(member));
  return blocks;
}

// Blocks that replace young ones are likely to be replaced soon too: they have a stream of their
// own.
Result<> PageCollector::sort_by_stream(Inode& inode, const data::DirtyRun& run,
                                       GroupMember& member) {
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
    member.part(streams[i]).pages.push_back({run.first_block + i, run.pages[i]});
  }
  return ok();
}

}  // namespace lazyfs::fs
