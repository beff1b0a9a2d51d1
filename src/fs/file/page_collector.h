// The first step of write-back: freezes an inode's dirty pages.
#pragma once

#include <cstdint>
#include <span>

#include "base/clock.h"
#include "base/result.h"
#include "data/band_table.h"
#include "data/page_pool.h"
#include "data/write_buffer.h"
#include "fs/file/counters.h"
#include "fs/file/inline_queue.h"
#include "fs/file/truncation.h"
#include "fs/file/write_back_group.h"
#include "fs/inode/inode.h"
#include "meta/store/store.h"

namespace lazyfs::fs {

// Which contents write-back puts into the tree in place of a band (docs/small-contents.md).
enum class InlineRule : std::uint8_t {
  kSmallFiles,     // contents of files of at most kInlinePieceBytes
  kLastParts,      // as kSmallFiles; and the last block of any file that it makes durable now
  kOneBlockFiles,  // as kSmallFiles; and the inline block of a file of several blocks moves out
  kMoveOut,        // as kSmallFiles; and the inline block of any larger file moves to a band
};

// What one write-back of an inode is to reach.
struct WriteBackGoal {
  bool all = false;          // every block that was dirty; else `blocks` suffice
  InlineRule inline_rule = InlineRule::kSmallFiles;
  bool is_set = false;       // the first collect() has set the fields below
  std::uint64_t blocks = 0;  // still to be written, of those dirty at first
  std::uint64_t end = 0;     // blocks of the file at first: no dirty block is past it
  std::uint64_t size = 0;    // of the file
  bool is_reached = false;
};

// Whether the inode may have an inline block that kMoveOut moves to a band.
bool may_move_inline(const Inode& inode);

// Thread-safe.
class PageCollector {
 public:
  PageCollector(meta::Store& store, Truncation& truncation, data::BandTable& bands,
                data::PagePool& pages, InlineQueue& inline_queue, Clock& clock,
                Counters& counters)
      : store_(store),
        truncation_(truncation),
        bands_(bands),
        pages_(pages),
        inline_queue_(inline_queue),
        clock_(clock),
        counters_(counters) {}

  // Freezes dirty pages of the inode, at most `max_blocks` unless the goal needs more, and adds the
  // inode to the group. `token`: the inode's; it moves into the group, and stays the caller's if no
  // page was frozen. Returns the number of pages. 0: nothing is left to do; inline contents and the
  // inode's item, if these were dirty, are in the tree. Errors: those of Truncation::try_finish(),
  // of reading the map, and of Store::apply().
  Result<std::size_t> collect(const InodeRef& inode, WriteBackToken& token, std::size_t max_blocks,
                              WriteBackGroup& group, WriteBackGoal& goal);

 private:
  Result<std::size_t> collect_locked(const InodeRef& inode, std::size_t max_blocks,
                                     bool may_be_inline, WriteBackToken& token,
                                     WriteBackGroup& group, WriteBackGoal& goal)
      REQUIRES(inode->mu);
  static std::size_t blocks_to_take(const Inode& inode, std::size_t max_blocks, bool but_last,
                                    WriteBackGoal& goal) REQUIRES_SHARED(inode.mu);
  Result<> put_record(Inode& inode) REQUIRES(inode.mu);
  Result<> move_inline_out(Inode& inode, InlineRule rule) REQUIRES(inode.mu);
  Result<bool> is_last_block_inline(const Inode& inode, InlineRule rule) REQUIRES_SHARED(inode.mu);
  Result<bool> write_inline(Inode& inode) REQUIRES(inode.mu);
  Result<> sort_all(Inode& inode, std::span<const data::DirtyRun> frozen, FrozenParts& parts)
      REQUIRES(inode.mu);
  Result<> sort_by_stream(Inode& inode, const data::DirtyRun& run, FrozenParts& parts)
      REQUIRES(inode.mu);

  meta::Store& store_;
  Truncation& truncation_;
  data::BandTable& bands_;
  data::PagePool& pages_;
  InlineQueue& inline_queue_;
  Clock& clock_;
  Counters& counters_;
};

}  // namespace lazyfs::fs
