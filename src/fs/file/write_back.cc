#include "fs/file/write_back.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/log.h"
#include "gc/damage.h"

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

void WriteBack::note_error(Inode& inode, Errc error) {
  inode.last_write_error = error;  // before the flag, which the throttle reads without a lock
  inode.write_back_failed = true;
  ++inode.write_errors;
  ++counters_.write_back_errors;
  log::error("inode {}: write-back failed: {}", inode.no.value, describe(error));
}

void WriteBack::finish(GroupMember& member, Errc error) {
  Inode& inode = *member.inode;
  WriterLock lock(member.inode->mu);
  inode.assert_held();
  if (member.recorded() == member.blocks()) {
    inode.buffer->finish_writing();
    bands_.release(member.blocks());
    inode.write_back_failed = false;
  } else {
    const std::uint64_t before = inode.buffer->dirty_blocks();
    inode.buffer->abort_writing();
    // A block that was overwritten meanwhile had two pages, each with its reservation.
    bands_.release(before - inode.buffer->dirty_blocks());
    note_error(inode, error);
  }
  if (!inode.buffer->clean() || inode.record_dirty) {
    dirty_.add(member.inode, clock_.monotonic());
  }
}

Result<> WriteBack::append_streams(WriteBackGroup& group) try {
  for (const data::Stream stream : kOrder) TRY(appender_.append(group, stream));
  return ok();
} catch (const std::bad_alloc&) {
  return fail(Errc::kNoMemory);
}

// Appends and records the group's pages, and finishes its members.
Result<> WriteBack::append_all(WriteBackGroup& group) {
  const auto done = append_streams(group);
  if (!done && group.size() > 1 && gc::is_damage(done.error())) return append_halves(group);
  for (GroupMember& member : group) finish(member, done ? Errc::kDeviceWrite : done.error());
  group.clear();  // releases the tokens
  return done;
}

// One member's items are damaged. Halves the group until only that member fails.
Result<> WriteBack::append_halves(WriteBackGroup& group) {
  WriteBackGroup halves[2];
  for (std::size_t i = 0; i < group.size(); ++i) {
    halves[i < group.size() / 2 ? 0 : 1].push_back(std::move(group[i]));
  }
  group.clear();
  const auto first_done = append_all(halves[0]), second_done = append_all(halves[1]);
  return first_done ? second_done : first_done;
}

Result<> WriteBack::flush_group(WriteBackGroup& group) {
  if (group.empty()) return ok();
  const auto done = append_all(group);
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

Result<std::size_t> WriteBack::try_collect(const InodeRef& inode, WriteBackToken& token,
                                           std::size_t max_blocks, WriteBackGroup& group,
                                           WriteBackGoal& goal) try {
  return collector_.collect(inode, token, max_blocks, group, goal);
} catch (const std::bad_alloc&) {
  return fail(Errc::kNoMemory);
}

// As PageCollector::collect(). Notes in the inode whether it has failed, or succeeded as a whole.
Result<std::size_t> WriteBack::collect(const InodeRef& inode, WriteBackToken token,
                                       std::size_t max_blocks, WriteBackGroup& group,
                                       WriteBackGoal& goal) {
  const auto blocks = try_collect(inode, token, max_blocks, group, goal);
  if (!blocks) note_error(*inode, blocks.error());
  if (blocks && *blocks == 0) inode->write_back_failed = false;
  return blocks;
}

Result<> WriteBack::reach(WriteBackGoal& goal, const InodeRef& inode) {
  for (;;) {
    WriteBackGroup group;
    ASSIGN_OR_RETURN(const std::size_t blocks,
                     collect(inode, WriteBackToken(inode), kGroupBlocks, group, goal));
    if (blocks == 0) return ok();
    TRY(flush_group(group));
  }
}

// ---- Passes over many inodes --------------------------------------------------------------------

std::optional<WriteBack::Taken> WriteBack::next_dirty(std::chrono::nanoseconds before,
                                                      DirtyList::Sequence end) {
  auto entry = dirty_.take(before, end);
  if (!entry) return std::nullopt;
  return Taken{.inode = std::move(entry->inode), .since = entry->since, .goal = {}};
}

// From now on, a change adds the inode to the dirty list.
void WriteBack::begin(Taken& work) {
  if (std::exchange(work.is_begun, true) || !work.since) return;
  WriterLock lock(work.inode->mu);
  work.inode->on_dirty_list = false;
}

// Keeps the age of an inode that was taken from the dirty list.
void WriteBack::put_back(const Taken& work) {
  if (!work.is_begun) return dirty_.put_back({work.inode, *work.since});
  WriterLock lock(work.inode->mu);
  dirty_.add_again(work.inode, *work.since);
}

void WriteBack::add_failed(const InodeRef& inode) {
  WriterLock lock(inode->mu);
  dirty_.add(inode, clock_.monotonic());
}

// Adds the inode's pages to the group, and writes the group when that is full. False: another
// thread holds the inode's token, and the goal is not reached.
bool WriteBack::write_one(Pass& pass, Taken& work) {
  for (;;) {
    auto token = WriteBackToken::try_take(work.inode);
    if (!token) return false;
    begin(work);
    const auto blocks = collect(work.inode, std::move(*token), pass.room, pass.group, work.goal);
    if (!blocks) {
      pass.note(fail(blocks.error()));
      add_failed(work.inode);
      return true;
    }
    pass.room -= std::min(pass.room, *blocks);
    if (pass.room > 0) return true;
    // If only another inode of the group has failed, this one is continued.
    if (!flush_pass(pass) && work.inode->write_back_failed) return true;
  }
}

// True: without an error.
bool WriteBack::flush_pass(Pass& pass) {
  const auto flushed = flush_group(pass.group);
  pass.note(flushed);
  pass.room = kGroupBlocks;
  return flushed.has_value();
}

// Takes none if memory lacks; what is in the group is written.
std::optional<WriteBack::Taken> WriteBack::take_next(const Next& next, Pass& pass) try {
  std::vector<Taken>& busy = pass.busy;  // has room for what is taken
  if (busy.size() == busy.capacity()) busy.reserve(2 * busy.size() + 1);
  return next();
} catch (const std::bad_alloc&) {
  pass.note(fail(Errc::kNoMemory));
  return std::nullopt;
}

// Calls `leave` for inodes whose tokens other threads hold. If it is empty, waits for these tokens.
Result<> WriteBack::write_each(const Next& next, const WriteBackGoal& goal, const Leave& leave) {
  Pass pass;
  while (auto taken = take_next(next, pass)) {
    Taken& work = *taken;
    work.goal = goal;
    const bool alone = work.inode->write_back_failed;
    if (alone) flush_pass(pass);
    if (!write_one(pass, work)) {
      pass.busy.push_back(std::move(work));
    } else if (alone) {
      flush_pass(pass);
    }
  }
  flush_pass(pass);  // releases the tokens, before others are waited for
  for (Taken& work : pass.busy) {
    if (leave) {
      leave(work);
      continue;
    }
    begin(work);
    const auto reached = reach(work.goal, work.inode);
    pass.note(reached);
    if (!reached) add_failed(work.inode);
  }
  return pass.first_error;
}

Result<> WriteBack::write_dirty(std::chrono::nanoseconds before, Which which) {
  MutexLock one_pass(pass_mu_);
  // An inode that is written to meanwhile, or fails, is added to the list again and waits for the
  // next pass. Else this pass would never end.
  const DirtyList::Sequence end = dirty_.end();
  const Leave leave = [this](const Taken& work) { put_back(work); };
  return write_each([&] { return next_dirty(before, end); }, {.all = which == Which::kAll},
                    which == Which::kNotBusy ? leave : Leave{});
}

Result<> WriteBack::move_inline(bool all) {
  MutexLock one_pass(pass_mu_);
  const std::size_t at_most =
      std::min<std::size_t>(kMaxInlineBlocks, bands_.space().total / kInlineShare);
  const auto before = all ? kEver : clock_.monotonic() - kInlineAge;
  std::size_t left = inline_queue_.size();  // others may add as fast as this pass takes
  std::vector<TakenInline> taken;           // put back after the pass, so that the pass ends
  const auto next = [&]() -> std::optional<Taken> {
    // Without space no block can move.
    for (; left > 0 && bands_.space().available > 0; --left) {
      const auto entry = inline_queue_.take(before, at_most);
      if (!entry) return std::nullopt;
      auto inode = inodes_.get(entry->inode);
      if (!inode && inode.error() == Errc::kStale) continue;
      taken.push_back({*entry, inode ? *inode : InodeRef{}});
      if (!inode) continue;
      --left;
      return Taken{.inode = std::move(*inode), .since = {}, .goal = {}};
    }
    return std::nullopt;
  };
  const Leave leave = [](const Taken&) {};
  const auto done =
      write_each(next, {.inline_rule = InlineRule::kMoveOut}, all ? Leave{} : leave);
  for (const TakenInline& work : taken) keep_if_inline(work);
  return done;
}

// An entry whose block is still in the tree keeps its age. One that failed is retried after the
// time that a new one waits, so that a damaged node is not reported at every pass.
void WriteBack::keep_if_inline(const TakenInline& work) {
  InlineQueue::Entry entry = work.entry;
  if (!work.inode || work.inode->write_back_failed) entry.since = clock_.monotonic();
  if (!work.inode || may_move_inline(*work.inode)) inline_queue_.put_back(entry);
}

}  // namespace lazyfs::fs
