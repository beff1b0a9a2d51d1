#include "fs/write_back.h"

#include <algorithm>

#include "base/check.h"
#include "base/log.h"

namespace lazyfs::fs {

WriteBackToken::WriteBackToken(InodeRef inode) : inode_(std::move(inode)) {
  MutexLock lock(inode_->write_back_mu);
  while (inode_->writing_back) inode_->write_back_done.wait(inode_->write_back_mu);
  inode_->writing_back = true;
}

WriteBackToken::~WriteBackToken() {
  if (!inode_) return;
  MutexLock lock(inode_->write_back_mu);
  inode_->writing_back = false;
  inode_->write_back_done.notify_all();
}

struct WriteBack::Member {
  InodeRef inode;
  WriteBackToken token;
  std::vector<data::DirtyRun> runs;
  std::uint64_t size = 0;    // of the file when the runs were frozen
  std::size_t blocks = 0;    // pages of all runs
  std::size_t recorded = 0;  // of these, in the map already
};

struct WriteBack::Segment {
  std::uint64_t file_block = 0;
  BandAddress at;
  std::span<const std::uint32_t> crcs;
};

namespace {

// The file block of the page number `page` of these runs.
std::uint64_t file_block_of(const std::vector<data::DirtyRun>& runs, std::size_t page) {
  for (const data::DirtyRun& run : runs) {
    if (page < run.pages.size()) return run.first_block + page;
    page -= run.pages.size();
  }
  return meta::kMaxOffset;
}

// How many of the pages from `page` on belong to the same run.
std::size_t rest_of_run(const std::vector<data::DirtyRun>& runs, std::size_t page) {
  for (const data::DirtyRun& run : runs) {
    if (page < run.pages.size()) return run.pages.size() - page;
    page -= run.pages.size();
  }
  return 0;
}

}  // namespace

// ---- Collecting ---------------------------------------------------------------------------------

Result<> WriteBack::put_record(Inode& inode) {
  meta::Batch batch;
  batch.put(key_of(inode.no, Kind::kInode), encode(for_tree(inode, inode.record)));
  TRY(core_.store.apply(batch, meta::Reserve::kDelete));
  inode.record_dirty = false;
  return ok();
}

// A small file goes into the tree: true when that was done.
Result<bool> WriteBack::write_inline(Inode& inode) {
  if (inode.record.size > kMaxInlineBytes || inode.record.size == 0 || inode.record.blocks > 0 ||
      inode.buffer->dirty_blocks() != 1 || !inode.buffer->has_dirty(0)) {
    return false;
  }
  const auto contents = inode.buffer->contents(0).first(inode.record.size);
  meta::Batch batch;
  batch.put(key_of(inode.no, Kind::kInline), contents);
  batch.put(key_of(inode.no, Kind::kInode), encode(inode.record));
  TRY(core_.store.apply(batch, meta::Reserve::kDelete));
  inode.tree_size = inode.record.size;
  inode.record_dirty = false;
  inode.inline_known = true;
  inode.inline_bytes = inode.record.size;
  ++inode.map_version;
  core_.bands.release(inode.buffer->drop_from(0));
  ++core_.counters.inline_files;
  return true;
}

// Takes what is dirty in the inode, at most `max_blocks`, into the group. Returns how many blocks.
Result<std::size_t> WriteBack::collect(const InodeRef& inode, std::size_t max_blocks,
                                       std::vector<Member>& group) {
  WriteBackToken token(inode);
  WriterLock lock(inode->mu);
  if (inode->gone) return 0;
  if (!inode->buffer || inode->buffer->clean()) {
    if (inode->record_dirty) TRY(put_record(*inode));
    return 0;
  }
  ASSIGN_OR_RETURN(const bool done, write_inline(*inode));
  if (done) return 0;
  Member member{
      inode, std::move(token), inode->buffer->begin_writing(max_blocks), inode->record.size, 0, 0};
  for (const data::DirtyRun& run : member.runs) member.blocks += run.pages.size();
  const std::size_t blocks = member.blocks;
  group.push_back(std::move(member));
  return blocks;
}

// ---- Appending ----------------------------------------------------------------------------------

// Maps newly written segments of one inode, as one batch unless that would be too large for the
// log.
Result<> WriteBack::record(Member& member, std::span<const Segment> segments) {
  Result<> done = record_at_once(member, segments);
  // Cleaning empties bands for the log to grow into, and logs of bands that take its space.
  while (!done && done.error() == Errc::kLogFull && !core_.store.failed() && make_room_()) {
    done = record_at_once(member, segments);
  }
  if (done || done.error() != Errc::kBatchTooLarge || segments.size() == 1) return done;
  TRY(record(member, segments.first(segments.size() / 2)));
  return record(member, segments.subspan(segments.size() / 2));
}

Result<> WriteBack::record_at_once(Member& member, std::span<const Segment> segments) {
  Inode& inode = *member.inode;
  WriterLock lock(inode.mu);
  MapChange change(core_.store, inode.no);
  meta::Batch batch;
  std::size_t blocks = 0;
  bool covers_block_0 = false;
  for (const Segment& segment : segments) {
    const ExtentRecord extent{
        segment.at, segment.at.rba, {segment.crcs.begin(), segment.crcs.end()}};
    TRY(change.map(segment.file_block, extent));
    blocks += extent.blocks();
    covers_block_0 |= segment.file_block == 0;
  }
  InodeRecord record = inode.record;
  record.blocks += static_cast<std::uint64_t>(change.blocks_delta());
  // All data below the first block that is not recorded yet is in the tree (I5).
  std::uint64_t safe_block = file_block_of(member.runs, member.recorded + blocks);
  if (const auto dirty = inode.buffer->first_dirty()) safe_block = std::min(safe_block, *dirty);
  const std::uint64_t safe_size = safe_block > record.size / kBlockBytes
                                      ? record.size
                                      : std::min(record.size, safe_block * kBlockBytes);
  // Blocks that were frozen were the lowest dirty ones, so all data up to the last recorded one is
  // in the tree as it was then, whatever was written since.
  const std::uint64_t recorded_end = segments.back().file_block + segments.back().crcs.size();
  const std::uint64_t frozen_size = std::min(member.size, recorded_end * kBlockBytes);
  const std::uint64_t tree_size = std::max({inode.tree_size, safe_size, frozen_size});
  InodeRecord item = record;
  item.size = tree_size;
  batch.put(key_of(inode.no, Kind::kInode), encode(item));
  if (covers_block_0 && !(inode.inline_known && inode.inline_bytes == 0)) {
    batch.erase(key_of(inode.no, Kind::kInline));
  }
  change.put_into(batch);
  const std::int64_t written[] = {0, static_cast<std::int64_t>(blocks), 0};
  batch.add(key_of(kVolumeOwner, Kind::kCounters), written);
  TRY(core_.store.apply(batch));

  change.account(core_.bands);
  inode.record.blocks = record.blocks;
  inode.tree_size = tree_size;
  inode.record_dirty = tree_size != inode.record.size;
  if (covers_block_0) {
    inode.inline_known = true;
    inode.inline_bytes = 0;
  }
  ++inode.map_version;
  member.recorded += blocks;
  return ok();
}

// Appends pages of the group, of which `first_page` is the number of the first, to one band, and
// records them. Returns how many were done.
Result<std::size_t> WriteBack::append_once(std::vector<Member>& group,
                                           std::span<const device::Piece> pages,
                                           std::size_t first_page) {
  ASSIGN_OR_RETURN(data::Lease lease, core_.appender.lease(data::Stream::kFresh, pages.size()));
  if (lease.room() == 0) return 0;
  ASSIGN_OR_RETURN(const data::Placed placed, lease.append(pages));
  core_.counters.user_blocks += placed.blocks();

  std::size_t done = 0;       // pages of this append recorded so far
  std::size_t member_at = 0;  // number of the member's first page in the group
  for (Member& member : group) {
    const std::size_t member_end = member_at + member.blocks;
    std::vector<Segment> segments;
    std::size_t planned = member.recorded;
    std::size_t used = done;
    while (used < placed.blocks() && first_page + used < member_end &&
           first_page + used >= member_at) {
      const std::size_t count = std::min({rest_of_run(member.runs, planned), placed.blocks() - used,
                                          std::size_t{kMaxExtentBlocks}});
      segments.push_back({file_block_of(member.runs, planned),
                          {placed.at.band, placed.at.rba + static_cast<std::uint32_t>(used)},
                          std::span(placed.crcs).subspan(used, count)});
      planned += count;
      used += count;
    }
    if (!segments.empty()) {
      TRY(record(member, segments));
      lease.recorded(static_cast<std::uint32_t>(used - done));
      done = used;
    }
    member_at = member_end;
  }
  CHECK(done == placed.blocks());
  return done;
}

Result<> WriteBack::append_group(std::vector<Member>& group) {
  std::vector<device::Piece> pages;
  for (const Member& member : group) {
    for (const data::DirtyRun& run : member.runs) {
      pages.insert(pages.end(), run.pages.begin(), run.pages.end());
    }
  }
  std::size_t at = 0;
  int failures = 0;
  while (at < pages.size()) {
    const auto done = append_once(group, std::span(pages).subspan(at), at);
    if (done) {
      at += *done;
      continue;
    }
    const bool no_band = done.error() == Errc::kNoSpace;
    if (no_band && make_room_()) continue;
    // A band that fails is set aside by the lease; another one may do.
    constexpr int kMaxFailures = 8;
    if (no_band || core_.store.failed() || ++failures >= kMaxFailures) return fail(done.error());
    std::size_t recorded = 0;
    for (const Member& member : group) recorded += member.recorded;
    at = recorded;
  }
  return ok();
}

void WriteBack::finish(Member& member, bool good, Errc error) {
  Inode& inode = *member.inode;
  WriterLock lock(inode.mu);
  if (good) {
    inode.buffer->finish_writing();
    core_.bands.release(member.blocks);
  } else {
    const std::uint64_t before = inode.buffer->dirty_blocks();
    inode.buffer->abort_writing();
    // Blocks that were overwritten meanwhile had two pages, each with its reservation.
    core_.bands.release(before - inode.buffer->dirty_blocks());
    inode.last_write_error = error;
    ++inode.write_errors;
    log::error("inode {}: writing back failed: {}", inode.no.value, describe(error));
  }
  if (!inode.buffer->clean() || inode.record_dirty) {
    core_.dirty.add(member.inode, core_.clock.monotonic());
  }
}

Result<> WriteBack::flush_group(std::vector<Member>& group) {
  if (group.empty()) return ok();
  const Result<> done = append_group(group);
  for (Member& member : group) {
    const bool good = member.recorded == member.blocks;
    finish(member, good, done ? Errc::kDeviceWrite : done.error());
  }
  group.clear();  // gives the tokens back
  progress_();
  return done;
}

// ---- From outside -------------------------------------------------------------------------------

Result<> WriteBack::write_inode(const InodeRef& inode) {
  for (;;) {
    std::vector<Member> group;
    ASSIGN_OR_RETURN(const std::size_t blocks, collect(inode, kGroupBlocks, group));
    if (blocks == 0) return ok();
    TRY(flush_group(group));
  }
}

Result<> WriteBack::write_dirty(std::chrono::nanoseconds before) {
  MutexLock one_pass(pass_mu_);
  Result<> first_error = ok();
  const auto note = [&](const Result<>& result) {
    if (!result && first_error) first_error = result;
  };
  std::vector<Member> group;
  std::size_t room = kGroupBlocks;
  // An inode comes back to the list when it is written to meanwhile or fails; it waits for the next
  // pass then, or this one would never end, and would wait for a token that its own group holds.
  const DirtyList::Sequence end = core_.dirty.end();
  while (auto inode = core_.dirty.take(before, end)) {
    {
      WriterLock lock((*inode)->mu);
      (*inode)->on_dirty_list = false;
    }
    for (;;) {
      const auto blocks = collect(*inode, room, group);
      if (!blocks) {
        note(fail(blocks.error()));
        WriterLock lock((*inode)->mu);
        core_.dirty.add(*inode, core_.clock.monotonic());
        break;
      }
      room -= *blocks;
      if (room > 0) break;
      const auto flushed = flush_group(group);
      note(flushed);
      room = kGroupBlocks;
      if (!flushed) break;
    }
  }
  note(flush_group(group));
  return first_error;
}

}  // namespace lazyfs::fs
