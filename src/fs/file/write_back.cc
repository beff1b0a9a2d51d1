#include "fs/file/write_back.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/log.h"
#include "fs/file/file_writer.h"

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

// A frozen page and where it belongs in its file.
struct WriteBack::Page {
  std::uint64_t file_block = 0;
  device::Piece bytes;
};

// Blocks of one inode that go to one stream, in the order of the file.
struct WriteBack::Part {
  std::vector<Page> pages;
  std::size_t recorded = 0;  // of these, in the map already

  // The first block that is not in the map once `recorded` of them are.
  std::uint64_t next_block(std::size_t recorded_pages) const {
    return recorded_pages < pages.size() ? pages[recorded_pages].file_block : meta::kMaxOffset;
  }
};

struct WriteBack::Member {
  InodeRef inode;
  WriteBackToken token;
  std::uint64_t size = 0;                      // of the file when its pages were frozen
  std::uint64_t next_dirty = 0;                // the first block that was dirty and not frozen then
  std::array<Part, data::kUserStreams> parts;  // by stream

  Part& part(data::Stream stream) { return parts[static_cast<std::size_t>(stream)]; }
  std::size_t blocks() const {
    std::size_t sum = 0;
    for (const Part& p : parts) sum += p.pages.size();
    return sum;
  }
  std::size_t recorded() const {
    std::size_t sum = 0;
    for (const Part& p : parts) sum += p.recorded;
    return sum;
  }
};

// Consecutive file blocks that one append has placed.
struct WriteBack::Segment {
  std::uint64_t file_block = 0;
  BandAddress at;
  std::span<const std::uint32_t> crcs;
};

namespace {

// Cleanings in a row that may fail to give room. Where bands are nearly all live each one fills a
// band for each it empties; whoever waits for the inodes being written back may be the one to free
// something, so the pages then stay dirty and are tried again later.
constexpr int kMaxRooms = 64;

constexpr std::uint64_t kLargeFileBytes = 1
                                          << 20;  // what is larger seldom dies with what is smaller

// What was rewritten shortly before goes first: those blocks are in the map, so that the file's end
// moves only when all new blocks before it are recorded too.
constexpr data::Stream kOrder[] = {data::Stream::kRewritten, data::Stream::kSmall,
                                   data::Stream::kLarge};
static_assert(std::size(kOrder) == data::kUserStreams);

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

// How many of the inode's dirty blocks, lowest first, bring it to the goal: 0 when it is there.
// Others may dirty as many as are written, for ever, so after as many blocks as were dirty at first
// all are taken at once.
std::size_t WriteBack::blocks_to_take(const Inode& inode, std::size_t max_blocks, Goal& goal) {
  if (!goal.is_set) {
    goal.is_set = true;
    goal.blocks = inode.buffer->dirty_blocks();
    goal.size = inode.record.size;
    goal.end = blocks_for(goal.size);
  }
  const bool is_behind = inode.buffer->first_dirty().value_or(meta::kMaxOffset) >= goal.end &&
                         inode.tree_size >= std::min(goal.size, inode.record.size);
  if (goal.is_reached || is_behind) return 0;
  if (goal.blocks > 0) {
    const std::size_t blocks = std::min<std::size_t>(max_blocks, inode.buffer->dirty_blocks());
    goal.blocks -= std::min<std::uint64_t>(goal.blocks, blocks);
    return blocks;
  }
  goal.is_reached = true;
  return goal.all ? inode.buffer->dirty_blocks() : 0;
}

// Takes what is dirty in the inode, at most `max_blocks` unless the goal needs more, into the
// group. Returns how many blocks.
Result<std::size_t> WriteBack::collect(const InodeRef& inode, std::size_t max_blocks,
                                       std::vector<Member>& group, Goal& goal) {
  WriteBackToken token(inode);
  WriterLock lock(inode->mu);
  if (inode->deleted) return 0;
  if (inode->truncate_pending) TRY(free_behind_end(core_, *inode));
  if (!inode->buffer || inode->buffer->clean()) {
    if (inode->record_dirty) TRY(put_record(*inode));
    return 0;
  }
  ASSIGN_OR_RETURN(const bool done, write_inline(*inode));
  if (done) return 0;
  const std::size_t to_take = blocks_to_take(*inode, max_blocks, goal);
  if (to_take == 0) return 0;
  const auto frozen = inode->buffer->begin_writing(to_take);
  Member member{.inode = inode,
                .token = std::move(token),
                .size = inode->record.size,
                .next_dirty = inode->buffer->first_dirty().value_or(meta::kMaxOffset),
                .parts = {}};
  for (const data::DirtyRun& run : frozen) {
    const auto sorted = sort_by_stream(*inode, run, member);
    if (sorted) continue;
    inode->buffer->abort_writing();  // nothing was overwritten meanwhile: no page was given back
    return fail(sorted.error());
  }
  const std::size_t blocks = member.blocks();
  group.push_back(std::move(member));
  return blocks;
}

// What replaces young data is likely to be replaced soon too, and keeps apart from what stays.
Result<> WriteBack::sort_by_stream(Inode& inode, const data::DirtyRun& run, Member& member) {
  const bool is_large = inode.record.size >= kLargeFileBytes;
  std::vector<data::Stream> streams(run.pages.size(),
                                    is_large ? data::Stream::kLarge : data::Stream::kSmall);
  if (inode.record.blocks > 0) {
    ASSIGN_OR_RETURN(const auto replaced,
                     read_extents(core_.store, inode.no, run.first_block, run.pages.size()));
    for (const MappedExtent& extent : replaced) {
      if (!core_.bands.is_young(extent.extent.at.band)) continue;
      const auto first = streams.begin() + (extent.file_block - run.first_block);
      std::fill_n(first, extent.extent.blocks(), data::Stream::kRewritten);
    }
  }
  for (std::size_t i = 0; i < streams.size(); ++i) {
    member.part(streams[i]).pages.push_back({run.first_block + i, run.pages[i]});
  }
  return ok();
}

// ---- Recording ----------------------------------------------------------------------------------

// Maps newly written segments of one inode, as one batch unless that would be too large for the
// log.
Result<> WriteBack::record(Member& member, Part& part, std::span<const Segment> segments) {
  Result<> done = record_at_once(member, part, segments);
  // Cleaning empties bands for the log to grow into, and logs of bands that take its space.
  for (int rooms = 0; !done && done.error() == Errc::kLogFull && !core_.store.failed() &&
                      rooms < kMaxRooms && make_room_();
       ++rooms) {
    done = record_at_once(member, part, segments);
  }
  if (done || done.error() != Errc::kBatchTooLarge) return done;
  if (segments.size() > 1) {
    TRY(record(member, part, segments.first(segments.size() / 2)));
    return record(member, part, segments.subspan(segments.size() / 2));
  }
  // One that replaces blocks in many bands changes a node or two for each of these.
  const Segment& whole = segments.front();
  const std::size_t half = whole.crcs.size() / 2;
  if (half == 0) return done;
  const Segment first{whole.file_block, whole.at, whole.crcs.first(half)};
  const Segment second{whole.file_block + half,
                       {whole.at.band, whole.at.rba + static_cast<std::uint32_t>(half)},
                       whole.crcs.subspan(half)};
  TRY(record(member, part, std::span(&first, 1)));
  return record(member, part, std::span(&second, 1));
}

// The size that the tree may show once `blocks` more of the part are recorded, the last one before
// `recorded_end` (I5).
std::uint64_t WriteBack::safe_size(const Member& member, const Part& part, std::size_t blocks,
                                   std::uint64_t recorded_end) {
  const Inode& inode = *member.inode;
  std::uint64_t next = meta::kMaxOffset;  // the first frozen block that is not recorded
  for (const Part& p : member.parts) {
    next = std::min(next, p.next_block(p.recorded + (&p == &part ? blocks : 0)));
  }
  // Frozen blocks were the lowest dirty ones: all data up to the last recorded one is in the tree
  // as it was then, whatever was written since, unless a frozen one before it is not; and all up to
  // the next dirty one, once every frozen one is.
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

Result<> WriteBack::record_at_once(Member& member, Part& part, std::span<const Segment> segments) {
  Inode& inode = *member.inode;
  WriterLock lock(inode.mu);
  SharedChange shared(core_.shared);
  MapChange change(core_.store, inode.no, &shared);
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
  InodeRecord item = inode.record;
  item.blocks += static_cast<std::uint64_t>(change.blocks_delta());
  item.size =
      safe_size(member, part, blocks, segments.back().file_block + segments.back().crcs.size());
  batch.put(key_of(inode.no, Kind::kInode), encode(item));
  if (covers_block_0 && !(inode.inline_known && inode.inline_bytes == 0)) {
    batch.erase(key_of(inode.no, Kind::kInline));
  }
  change.put_into(batch);
  shared.put_into(batch);
  const std::int64_t written[] = {0, static_cast<std::int64_t>(blocks), 0};
  batch.add(key_of(kVolumeOwner, Kind::kCounters), written);
  TRY(core_.store.apply(batch));

  change.account(core_.bands);
  shared.account(core_.bands);
  inode.record.blocks = item.blocks;
  inode.tree_size = item.size;
  inode.record_dirty = item.size != inode.record.size;
  if (covers_block_0) {
    inode.inline_known = true;
    inode.inline_bytes = 0;
  }
  ++inode.map_version;
  part.recorded += blocks;
  return ok();
}

// ---- Appending ----------------------------------------------------------------------------------

// The next `count` pages of the part, as the append has placed them from its block `first` on.
std::vector<WriteBack::Segment> WriteBack::segments_of(const Part& part, std::size_t count,
                                                       const data::Placed& placed,
                                                       std::size_t first) {
  std::vector<Segment> segments;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t block = part.pages[part.recorded + i].file_block;
    if (!segments.empty()) {
      Segment& last = segments.back();
      const std::size_t length = last.crcs.size();
      if (last.file_block + length == block && length < kMaxExtentBlocks) {
        last.crcs = std::span(last.crcs.data(), length + 1);
        continue;
      }
    }
    segments.push_back({block,
                        {placed.at.band, placed.at.rba + static_cast<std::uint32_t>(first + i)},
                        std::span(placed.crcs).subspan(first + i, 1)});
  }
  return segments;
}

// Appends pages, the first ones of the group's parts that are not recorded, to one band, and
// records them. `band_failed`: of an error whether another band may do.
Result<> WriteBack::append_once(std::vector<Member>& group, data::Stream stream,
                                std::span<const device::Piece> pages, bool anywhere,
                                bool& band_failed) {
  band_failed = false;
  ASSIGN_OR_RETURN(data::Lease lease, core_.appender.lease(stream, pages.size(), anywhere));
  if (lease.room() == 0) return ok();
  const auto appended = lease.append(pages);
  band_failed = !appended;
  if (!appended) return fail(appended.error());
  const data::Placed& placed = *appended;
  core_.counters.user_blocks += placed.blocks();
  std::size_t done = 0;
  for (Member& member : group) {
    Part& part = member.part(stream);
    const std::size_t count = std::min(part.pages.size() - part.recorded, placed.blocks() - done);
    if (count == 0) continue;
    const std::size_t before = part.recorded;
    const auto in_map = record(member, part, segments_of(part, count, placed, done));
    lease.recorded(static_cast<std::uint32_t>(part.recorded - before));
    if (!in_map) {
      lose_unrecorded(core_.store, core_.bands, lease);
      return in_map;
    }
    done += count;
  }
  CHECK(done == placed.blocks());
  return ok();
}

Result<> WriteBack::append_stream(std::vector<Member>& group, data::Stream stream) {
  int failures = 0, rooms = 0;
  bool anywhere = false;  // in any band: cleaning has found nothing
  bool mixing = false;    // for once in another stream's: cleaning is under way
  bool band_failed = false;
  for (;;) {
    std::vector<device::Piece> pages;
    for (Member& member : group) {
      const Part& part = member.part(stream);
      for (std::size_t i = part.recorded; i < part.pages.size() && pages.size() < kGroupBlocks;
           ++i) {
        pages.push_back(part.pages[i].bytes);
      }
    }
    if (pages.empty()) return ok();
    keep_up_(std::min<std::size_t>(pages.size(), core_.bands.largest_band_blocks()));
    const auto done = append_once(group, stream, pages, anywhere || mixing, band_failed);
    if (done) {
      rooms = 0;
      mixing = false;
      continue;
    }
    const bool no_band = done.error() == Errc::kNoSpace;
    if (no_band && !std::exchange(mixing, true) && core_.bands.user_room().blocks > 0) continue;
    if (no_band && rooms++ < kMaxRooms && make_room_()) {
      mixing = false;
      continue;
    }
    if (no_band && !std::exchange(anywhere, true)) {
      rooms = 0;
      continue;
    }
    // A band that fails is set aside by the lease.
    constexpr int kMaxFailures = 8;
    if (!band_failed || core_.store.failed() || ++failures >= kMaxFailures) return done;
  }
}

void WriteBack::finish(Member& member, Errc error) {
  Inode& inode = *member.inode;
  WriterLock lock(inode.mu);
  if (member.recorded() == member.blocks()) {
    inode.buffer->finish_writing();
    core_.bands.release(member.blocks());
  } else {
    const std::uint64_t before = inode.buffer->dirty_blocks();
    inode.buffer->abort_writing();
    // Blocks that were overwritten meanwhile had two pages, each with its reservation.
    core_.bands.release(before - inode.buffer->dirty_blocks());
    inode.last_write_error = error;
    ++inode.write_errors;
    ++core_.counters.write_back_errors;
    log::error("inode {}: writing back failed: {}", inode.no.value, describe(error));
  }
  if (!inode.buffer->clean() || inode.record_dirty) {
    core_.dirty.add(member.inode, core_.clock.monotonic());
  }
}

Result<> WriteBack::flush_group(std::vector<Member>& group) {
  if (group.empty()) return ok();
  Result<> done = ok();
  for (const data::Stream stream : kOrder) {
    if (done) done = append_stream(group, stream);
  }
  for (Member& member : group) finish(member, done ? Errc::kDeviceWrite : done.error());
  group.clear();  // gives the tokens back
  progress_();
  return done;
}

// ---- From outside -------------------------------------------------------------------------------

Result<> WriteBack::write_inode(const InodeRef& inode) {
  Goal goal{.all = true};
  for (;;) {
    std::vector<Member> group;
    ASSIGN_OR_RETURN(const std::size_t blocks, collect(inode, kGroupBlocks, group, goal));
    if (blocks == 0) return ok();
    TRY(flush_group(group));
  }
}

Result<> WriteBack::write_dirty(std::chrono::nanoseconds before, bool all) {
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
    Goal goal{.all = all};
    for (;;) {
      const auto blocks = collect(*inode, room, group, goal);
      if (!blocks) {
        note(fail(blocks.error()));
        WriterLock lock((*inode)->mu);
        core_.dirty.add(*inode, core_.clock.monotonic());
        break;
      }
      room -= std::min(room, *blocks);
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
