#include "fs/file/extent_recorder.h"

#include <algorithm>

#include "fs/file/inline_block.h"

namespace lazyfs::fs {
namespace {

// The inode's tree_size once `blocks` more of the part are recorded, the last one before
// `recorded_end` (I5).
std::uint64_t safe_size(const GroupMember& member, const Inode& inode, const FrozenPart& part,
                        std::size_t blocks, std::uint64_t recorded_end)
    REQUIRES_SHARED(inode.mu) {
  std::uint64_t next = meta::kMaxOffset;  // the first frozen block that is not recorded
  for (const FrozenPart& p : member.parts) {
    next = std::min(next, p.next_block(p.recorded + (&p == &part ? blocks : 0)));
  }
  // The frozen blocks were the lowest dirty ones. So the tree has all data up to the last recorded
  // block, as it was when they were frozen, unless a frozen block before it is not recorded. Once
  // every frozen block is recorded, it has all data up to the next dirty block.
  const std::uint64_t frozen_end = next == meta::kMaxOffset
                                       ? std::max(recorded_end, member.next_dirty)
                                       : std::min(next, recorded_end);
  const std::uint64_t frozen =
      frozen_end >= blocks_for(member.size) ? member.size : frozen_end * std::uint64_t{kBlockBytes};
  if (const auto dirty = inode.buffer->first_dirty()) next = std::min(next, *dirty);
  const std::uint64_t size = inode.record.size;
  const std::uint64_t safe =
      next > size / kBlockBytes ? size : std::min(size, next * std::uint64_t{kBlockBytes});
  return std::max({inode.tree_size, safe, frozen});
}

}  // namespace

Result<> ExtentRecorder::record(const GroupMember& member, FrozenPart& part,
                                std::span<const AppendedSegment> segments) {
  const auto record_now = [&] {
    return meta::when_room(store_, [&] { return record_at_once(member, part, segments); });
  };
  Result<> done = record_now();
  // Cleaning empties bands, into which the log can grow, and erases the bands' own logs.
  for (int tries = 0; !done && done.error() == Errc::kLogFull && !store_.failed() &&
                      tries < kMaxRoomTries && make_room_();
       ++tries) {
    done = record_now();
  }
  if (done || done.error() != Errc::kBatchTooLarge) return done;
  if (segments.size() > 1) {
    TRY(record(member, part, segments.first(segments.size() / 2)));
    return record(member, part, segments.subspan(segments.size() / 2));
  }
  // A segment that replaces blocks in many bands changes a node or two for each of these bands.
  const AppendedSegment& whole = segments.front();
  const std::size_t half = whole.crcs.size() / 2;
  if (half == 0) return done;
  const AppendedSegment first{whole.file_block, whole.at, whole.crcs.first(half)};
  const AppendedSegment second{whole.file_block + half,
                               {whole.at.band, whole.at.rba + static_cast<std::uint32_t>(half)},
                               whole.crcs.subspan(half)};
  TRY(record(member, part, std::span(&first, 1)));
  return record(member, part, std::span(&second, 1));
}

Result<> ExtentRecorder::record_at_once(const GroupMember& member, FrozenPart& part,
                                        std::span<const AppendedSegment> segments) {
  Inode& inode = *member.inode;
  WriterLock lock(inode.mu);
  TRY(learn_inline(store_, inode));
  MapBatch batch = maps_.batch();
  MapChange& change = batch.change(inode.no);
  std::size_t blocks = 0;
  bool covers_inline = false;
  for (const AppendedSegment& segment : segments) {
    const ExtentRecord extent{
        segment.at, segment.at.rba, {segment.crcs.begin(), segment.crcs.end()}};
    TRY(change.map(segment.file_block, extent));
    blocks += extent.blocks();
    covers_inline |= inode.inline_state.is_in(segment.file_block, extent.blocks());
  }
  const std::uint64_t recorded_end = segments.back().file_block + segments.back().crcs.size();
  batch.put_inode(inode, inode.record, safe_size(member, inode, part, blocks, recorded_end),
                  change);
  if (covers_inline) erase_inline(batch.items(), inode);
  add(batch.items(), CounterChange{.user_blocks = blocks});
  TRY(batch.apply(meta::Reserve::kPromised));

  inode.record_dirty = inode.tree_size != inode.record.size;
  if (covers_inline) inode.inline_state = {.is_known = true};
  part.recorded += blocks;
  return ok();
}

}  // namespace lazyfs::fs
