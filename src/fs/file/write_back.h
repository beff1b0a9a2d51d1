// Brings file data from the write buffer to bands, and inodes' items to the tree.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "data/appender.h"
#include "data/band_table.h"
#include "data/page_pool.h"
#include "fs/file/counters.h"
#include "fs/file/extent_recorder.h"
#include "fs/file/file_maps.h"
#include "fs/file/group_appender.h"
#include "fs/file/inline_queue.h"
#include "fs/file/page_collector.h"
#include "fs/file/truncation.h"
#include "fs/file/write_back_group.h"
#include "fs/inode/dirty_list.h"
#include "fs/inode/inode.h"
#include "meta/store/store.h"

namespace lazyfs::fs {

// Works on groups of inodes, in three steps. The collector freezes dirty pages. The appender leases
// a band and appends the pages of one stream as one contiguous piece. The recorder maps them, inode
// by inode in the order of the RBAs, with one batch each. Data lies in the bands before any batch
// refers to it, and the batch says which blocks it brings, so that recovery can prove them: rule 1.
//
// Thread-safe: several threads may write different inodes back.
class WriteBack {
 public:
  // The functions are called without locks of inodes. `make_room()` is called if no band is free to
  // append to, and returns false if it gained nothing. `keep_up(blocks)` is called before that many
  // blocks are appended, `progress()` when pages were released. `ahead`: threads of WriteBack may
  // append while its callers record. Without these threads a run replays exactly.
  struct Hooks {
    std::function<bool()> make_room;
    std::function<void(std::uint64_t)> keep_up;
    std::function<void()> progress;
  };
  WriteBack(meta::Store& store, InodeTable& inodes, FileMaps& maps, Truncation& truncation,
            data::BandTable& bands, data::Appender& appender, data::PagePool& pages,
            DirtyList& dirty, Counters& counters, Clock& clock, Hooks hooks, bool ahead);

  // Writes all blocks of one inode that are dirty now. Ends even if other threads keep writing to
  // it.
  Result<> write_inode(const InodeRef& inode, InlineRule rule);
  // Writes back the inodes that became dirty at or before `before`; small ones share appends.
  // Continues after an error, and returns the first one; a failed inode keeps its error for its
  // open files. If other threads write to an inode meanwhile, as many blocks as were dirty are
  // written, and the rest is left to the next pass; with kAll every block that was dirty is
  // written. An inode whose token another thread holds, perhaps for a long truncation, comes last;
  // with kNotBusy it is left to the next pass, and keeps its age.
  enum class Which : std::uint8_t { kAll, kMost, kNotBusy };
  Result<> write_dirty(std::chrono::nanoseconds before, Which which = Which::kMost);
  // So many inodes are dirty that young ones must be written back too: each takes memory.
  bool has_many_dirty() const { return dirty_.size() > kManyDirtyInodes; }
  // Moves inline blocks to bands: those that have not been written for a while, and the oldest if
  // there are many; or `all`. A block that cannot move now is left to a later pass. Errors as
  // above.
  Result<> move_inline(bool all = false);

 private:
  static constexpr std::size_t kManyDirtyInodes = 16'384;

  // An inode that a pass has taken from a list.
  struct Taken {
    InodeRef inode;
    std::optional<std::chrono::nanoseconds> since;  // of the dirty list
    WriteBackGoal goal;
    bool is_begun = false;  // if taken from the dirty list: on_dirty_list was cleared
  };
  // An entry that a pass has taken from inline_queue_.
  struct TakenInline {
    InlineQueue::Entry entry;
    InodeRef inode;  // null: it could not be read
  };
  struct Pass {
    WriteBackGroup group;
    std::size_t room = kGroupBlocks;  // of the group
    std::vector<Taken> busy;          // other threads held their tokens
    Result<> first_error = ok();

    void note(const Result<>& result) {
      if (!result && first_error) first_error = result;
    }
  };

  Result<std::size_t> collect(const InodeRef& inode, WriteBackToken token, std::size_t max_blocks,
                              WriteBackGroup& group, WriteBackGoal& goal);
  Result<std::size_t> try_collect(const InodeRef& inode, WriteBackToken& token,
                                  std::size_t max_blocks, WriteBackGroup& group,
                                  WriteBackGoal& goal);
  Result<> reach(WriteBackGoal& goal, const InodeRef& inode);
  void note_error(Inode& inode, Errc error);
  void finish(GroupMember& member, Errc error);
  Result<> append_streams(WriteBackGroup& group);
  Result<> append_all(WriteBackGroup& group);
  Result<> append_halves(WriteBackGroup& group);
  Result<> flush_group(WriteBackGroup& group);
  std::optional<Taken> next_dirty(std::chrono::nanoseconds before, DirtyList::Sequence end);
  static void begin(Taken& work);
  void put_back(const Taken& work);
  void add_failed(const InodeRef& inode);
  void keep_if_inline(const TakenInline& work);
  bool write_one(Pass& pass, Taken& work) REQUIRES(pass_mu_);
  bool flush_pass(Pass& pass) REQUIRES(pass_mu_);
  using Next = std::function<std::optional<Taken>()>;
  using Leave = std::function<void(const Taken&)>;
  static std::optional<Taken> take_next(const Next& next, Pass& pass);
  Result<> write_each(const Next& next, const WriteBackGoal& goal, const Leave& leave)
      REQUIRES(pass_mu_);

  InodeTable& inodes_;
  data::BandTable& bands_;
  DirtyList& dirty_;
  Counters& counters_;
  Clock& clock_;
  const Hooks hooks_;
  InlineQueue inline_queue_;
  PageCollector collector_;
  ExtentRecorder recorder_;
  GroupAppender appender_;
  // One pass over the dirty list at a time: what a pass has taken from the list is written, or on
  // the list again, when the next pass begins. Held over I/O; taken before tokens and inodes'
  // locks.
  Mutex pass_mu_;
};

}  // namespace lazyfs::fs
