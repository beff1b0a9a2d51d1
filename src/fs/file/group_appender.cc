#include "fs/file/group_appender.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/thread.h"

namespace lazyfs::fs {
namespace {

// The next `count` pages of the part, as the append has placed them from its block `first` on.
std::vector<AppendedSegment> segments_of(const FrozenPart& part, std::size_t count,
                                         const data::Placed& placed, std::size_t first) {
  std::vector<AppendedSegment> segments;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t block = part.pages[part.recorded + i].file_block;
    if (!segments.empty()) {
      AppendedSegment& last = segments.back();
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

// The first pages of the group's parts that are not recorded, at most kGroupBlocks.
std::vector<device::Piece> next_pages(WriteBackGroup& group, data::Stream stream) {
  std::vector<device::Piece> pages;
  for (GroupMember& member : group) {
    const FrozenPart& part = member.part(stream);
    for (std::size_t i = part.recorded; i < part.pages.size() && pages.size() < kGroupBlocks; ++i) {
      pages.push_back(part.pages[i].bytes);
    }
  }
  return pages;
}

}  // namespace

struct GroupAppender::Attempts {
  int failures = 0, room_tries = 0;
  bool mixing = false;    // the next append may use another stream's band
  bool anywhere = false;  // all further ones may: cleaning gained nothing
};

Result<> GroupAppender::record_part(const GroupMember& member, FrozenPart& part,
                                    std::size_t count, const data::Placed& placed,
                                    std::size_t first) try {
  return recorder_.record(member, part, segments_of(part, count, placed, first));
} catch (const std::bad_alloc&) {
  return fail(Errc::kNoMemory);
}

// Records the next blocks of the group's parts, as the append has placed them.
GroupAppender::Recorded GroupAppender::record(WriteBackGroup& group, data::Stream stream,
                                              const data::Placed& placed) {
  Recorded recorded{.blocks = 0, .done = ok()};
  for (GroupMember& member : group) {
    FrozenPart& part = member.part(stream);
    const std::size_t before = part.recorded;
    const std::size_t count =
        std::min<std::size_t>(part.pages.size() - before, placed.blocks() - recorded.blocks);
    if (count == 0) continue;
    recorded.done = record_part(member, part, count, placed, recorded.blocks);
    recorded.blocks += static_cast<std::uint32_t>(part.recorded - before);
    if (!recorded.done) break;
  }
  return recorded;
}

// Begins to append the first of the pages, in a thread of its own if `ahead_`.
std::future<Result<data::Placed>> GroupAppender::begin_append(data::Lease& lease,
                                                              Pages pages) const {
  pages = pages.first(std::min(pages.size(), kAppendBlocks));
  // If no thread can or may be made, the append is done in get().
  const auto policy = ahead_ ? std::launch::async | std::launch::deferred : std::launch::deferred;
  return std::async(policy, [&lease, pages] {
    const SignalStack signal_stack;
    return lease.append(pages);
  });
}

// Appends pages, the first ones of the group's parts that are not recorded, to one band, and
// records them. `band_failed`: whether the band caused the error, so that another band may work.
Result<> GroupAppender::append_once(WriteBackGroup& group, data::Stream stream, Pages pages,
                                    bool anywhere, bool& band_failed) {
  band_failed = false;
  ASSIGN_OR_RETURN(data::Lease lease, appender_.lease(stream, pages.size(), anywhere));
  pages = pages.first(std::min<std::size_t>(pages.size(), lease.room()));
  if (pages.empty()) return ok();  // the end of the lease closes the band
  Result<data::Placed> appended = lease.append(pages.first(std::min(pages.size(), kAppendBlocks)));
  while (appended) {
    counters_.user_blocks += appended->blocks();
    pages = pages.subspan(appended->blocks());
    std::future<Result<data::Placed>> next;
    if (!pages.empty()) next = begin_append(lease, pages);
    const Recorded recorded = record(group, stream, *appended);
    CHECK(!recorded.done || recorded.blocks == appended->blocks());
    if (recorded.done && next.valid()) appended = next.get();
    next = {};  // after an error: waits for the append that has begun
    lease.recorded(recorded.blocks);
    if (!recorded.done) {
      lose_unrecorded(store_, bands_, lease);
      return recorded.done;
    }
    if (pages.empty()) return ok();
  }
  band_failed = true;
  return fail(appended.error());
}

// After no band was found: true when the next attempt may find one.
bool GroupAppender::try_again(Attempts& attempts) {
  if (!std::exchange(attempts.mixing, true) && bands_.user_room() > 0) return true;
  if (attempts.room_tries++ < kMaxRoomTries && make_room_()) {
    attempts.mixing = false;
    return true;
  }
  attempts.room_tries = 0;
  return !std::exchange(attempts.anywhere, true);
}

Result<> GroupAppender::append(WriteBackGroup& group, data::Stream stream) {
  Attempts attempts;
  for (;;) {  // each turn records blocks, or counts an attempt
    const std::vector<device::Piece> pages = next_pages(group, stream);
    if (pages.empty()) return ok();
    keep_up_(std::min<std::size_t>(pages.size(), bands_.largest_band_blocks()));
    bool band_failed = false;
    const auto done =
        append_once(group, stream, pages, attempts.anywhere || attempts.mixing, band_failed);
    if (done) {
      attempts.room_tries = 0;
      attempts.mixing = false;
      continue;
    }
    if (done.error() == Errc::kNoSpace && try_again(attempts)) continue;
    // The lease has set the failed band aside.
    const bool may_try = band_failed && ++attempts.failures < data::kMaxFailedBands;
    if (!may_try || store_.failed()) return done;
  }
}

}  // namespace lazyfs::fs
