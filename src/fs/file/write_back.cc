#include "fs/file/write_back.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/log.h"

namespace lazyfs::fs {
namespace {

// Overwrites go first: their blocks are mapped already, so that recording them cannot advance the
// tree_size past blocks that are not recorded yet (I5).
constexpr data::Stream kOrder[] = {data::Stream::kRewritten, data::Stream::kSmall,
                                   data::Stream::kLarge};
static_assert(std::size(kOrder) == data::kUserStreams);

// Inline blocks that stay in the tree for a while, unless their files are small: each takes one or
// two nodes of the log.
constexpr std::chrono::nanoseconds kInlineAge = std::chrono::seconds(30);
constexpr std::size_t kMaxInlineBlocks = 1024;
constexpr std::uint64_t kInlineShare = 256;  // and at most this part of the volume's blocks

}  // namespace

WriteBack::WriteBack(meta::Store& store, InodeTable& inodes, FileMaps& maps,
                     Truncation& truncation, data::BandTable& bands, data::Appender& appender,
                     data::PagePool& pages, DirtyList& dirty, Counters& counters, Clock& clock,
                     Hooks hooks, bool ahead)
    : inodes_(inodes),
      bands_(bands),
      dirty_(dirty),
      counters_(counters),
      clock_(clock),
      hooks_(std::move(hooks)),
      collector_(store, truncation, bands, pages, inline_queue_, clock, counters),
      recorder_(store, maps, hooks_.make_room),
      appender_(store, recorder_, bands, appender, counters, hooks_.make_room, hooks_.keep_up,
                ahead) {}

void WriteBack::finish(GroupMember& member, Errc error) {
  Inode& inode = *member.inode;
  WriterLock lock(member.inode->mu);
  inode.assert_held();
  if (member.recorded() == member.blocks()) {
    inode.buffer->finish_writing();
    bands_.release(member.blocks());
  } else {
    const std::uint64_t before = inode.buffer->dirty_blocks();
    inode.buffer->abort_writing();
    // A block that was overwritten meanwhile had two pages, each with its reservation.
    bands_.release(before - inode.buffer->dirty_blocks());
    inode.last_write_error = error;
    ++inode.write_errors;
    ++counters_.write_back_errors;
    log::error("inode {}: write-back failed: {}", inode.no.value, describe(error));
  }
  if (!inode.buffer->clean() || inode.record_dirty) {
    dirty_.add(member.inode, clock_.monotonic());
  }
}

Result<> WriteBack::flush_group(WriteBackGroup& group) {
  if (group.empty()) return ok();
  Result<> done = ok();
  for (const data::Stream stream : kOrder) {
    if (done) done = appender_.append(group, stream);
  }
  for (GroupMember& member : group) finish(member, done ? Errc::kDeviceWrite : done.error());
  group.clear();  // releases the tokens
  hooks_.progress();
  return done;
}

Result<> WriteBack::write_inode(const InodeRef& inode, InlineRule rule) {
  WriteBackGoal goal{.all = true, .inline_rule = rule};
  const auto done = reach(goal, inode);
  if (rule != InlineRule::kOneBlockFiles) return done;
  WriterLock lock(inode->mu);
  if (inode->buffer && !inode->buffer->clean()) {  // perhaps with a block that was inline (I2)
    dirty_.add(inode, clock_.monotonic());
  }
  return done;
}

Result<> WriteBack::reach(WriteBackGoal& goal, const InodeRef& inode) {
  for (;;) {
    WriteBackGroup group;
    ASSIGN_OR_RETURN(const std::size_t blocks,
                     collector_.collect(inode, kGroupBlocks, group, goal));
    if (blocks == 0) return ok();
    TRY(flush_group(group));
  }
}

// ---- Passes over many inodes --------------------------------------------------------------------

std::optional<InodeRef> WriteBack::next_dirty(std::chrono::nanoseconds before,
                                              DirtyList::Sequence end) {
  auto inode = dirty_.take(before, end);
  if (!inode) return std::nullopt;
  WriterLock lock((*inode)->mu);
  (*inode)->on_dirty_list = false;
  return inode;
}

Result<> WriteBack::write_each(const std::function<std::optional<InodeRef>()>& next,
                               const WriteBackGoal& goal_of_each) {
  Result<> first_error = ok();
  const auto note = [&](const Result<>& result) {
    if (!result && first_error) first_error = result;
  };
  WriteBackGroup group;
  std::size_t room = kGroupBlocks;
  while (auto inode = next()) {
    WriteBackGoal goal = goal_of_each;
    for (;;) {
      const auto blocks = collector_.collect(*inode, room, group, goal);
      if (!blocks) {
        note(fail(blocks.error()));
        WriterLock lock((*inode)->mu);
        dirty_.add(*inode, clock_.monotonic());
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

Result<> WriteBack::write_dirty(std::chrono::nanoseconds before, bool all) {
  MutexLock one_pass(pass_mu_);
  // An inode that is written to meanwhile, or fails, is added to the list again and waits for the
  // next pass. Else this pass would never end, and would wait for a token that its own group holds.
  const DirtyList::Sequence end = dirty_.end();
  return write_each([&] { return next_dirty(before, end); }, {.all = all});
}

Result<> WriteBack::move_inline(bool all) {
  MutexLock one_pass(pass_mu_);
  const std::size_t at_most =
      std::min<std::size_t>(kMaxInlineBlocks, bands_.space().total / kInlineShare);
  const auto before = all ? kEver : clock_.monotonic() - kInlineAge;
  std::size_t left = inline_queue_.size();  // others may add as fast as this pass takes
  const auto next = [&]() -> std::optional<InodeRef> {
    while (left > 0) {
      --left;
      const auto number = inline_queue_.take(before, at_most);
      if (!number) return std::nullopt;
      auto inode = inodes_.get(*number);
      if (inode) return std::move(*inode);  // else it was deleted
    }
    return std::nullopt;
  };
  return write_each(next, {.inline_rule = InlineRule::kMoveOut});
}

}  // namespace lazyfs::fs
