// Brings file data from the write buffer to bands, and inodes to the tree.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "fs/file/core.h"
#include "fs/file/extent_map.h"

namespace lazyfs::fs {

// The right to write an inode back; one holder at a time (I4). Truncating takes it too, so that no
// block is being written while it is cut off.
class WriteBackToken {
 public:
  explicit WriteBackToken(InodeRef inode);  // waits
  WriteBackToken(WriteBackToken&&) = default;
  ~WriteBackToken();

 private:
  InodeRef inode_;
};

// How it goes, for a group of inodes (`docs/` life of a write): dirty pages are frozen; a band is
// leased and they are appended to it, one contiguous piece; then inode by inode, in the order of
// the RBAs, one batch maps them. Data lies in the bands before any batch refers to it, and
// Store::commit() flushes the device before it writes the log: rule 1.
//
// Thread-safe: several threads may write different inodes back.
class WriteBack {
 public:
  // None is called with a lock. `make_room`: when no band is free to append to; false: nothing
  // helped. `keep_up`: before so many blocks are appended. `progress`: when pages were given back.
  WriteBack(const Core& core, std::function<bool()> make_room,
            std::function<void(std::uint64_t)> keep_up, std::function<void()> progress)
      : core_(core),
        make_room_(std::move(make_room)),
        keep_up_(std::move(keep_up)),
        progress_(std::move(progress)) {}

  // Writes everything of one inode that is dirty now, and ends however fast others write to it.
  Result<> write_inode(const InodeRef& inode);
  // Writes back inodes that have been dirty since `before`; small ones share appends. Goes on after
  // an error, which the inodes keep for their open files; returns the first. Of an inode that
  // others write to meanwhile it writes as many blocks as were dirty, then leaves it for the next
  // pass and goes on to the others; with `all` it writes whatever was dirty before.
  Result<> write_dirty(std::chrono::nanoseconds before, bool all = false);

 private:
  static constexpr std::size_t kGroupBlocks = 2048;  // 8 MiB an append
  struct Page;
  struct Part;
  struct Member;  // one inode of a group
  struct Segment;
  // What one writing back of an inode is to reach.
  struct Goal {
    bool all = false;          // else `blocks` will do
    bool is_set = false;       // by the first collect()
    std::uint64_t blocks = 0;  // still to be written of as many as were dirty
    std::uint64_t end = 0;     // no block from here on was dirty
    std::uint64_t size = 0;    // of the file
    bool is_reached = false;
  };

  Result<std::size_t> collect(const InodeRef& inode, std::size_t max_blocks,
                              std::vector<Member>& group, Goal& goal);
  static std::size_t blocks_to_take(const Inode& inode, std::size_t max_blocks, Goal& goal)
      REQUIRES_SHARED(inode.mu);
  Result<> put_record(Inode& inode) REQUIRES(inode.mu);
  Result<bool> write_inline(Inode& inode) REQUIRES(inode.mu);
  Result<> sort_by_stream(Inode& inode, const data::DirtyRun& run, Member& member)
      REQUIRES(inode.mu);
  Result<> record(Member& member, Part& part, std::span<const Segment> segments);
  Result<> record_at_once(Member& member, Part& part, std::span<const Segment> segments);
  static std::uint64_t safe_size(const Member& member, const Part& part, std::size_t blocks,
                                 std::uint64_t recorded_end);
  static std::vector<Segment> segments_of(const Part& part, std::size_t count,
                                          const data::Placed& placed, std::size_t first);
  Result<> append_once(std::vector<Member>& group, data::Stream stream,
                       std::span<const device::Piece> pages, bool anywhere, bool& band_failed);
  Result<> append_stream(std::vector<Member>& group, data::Stream stream);
  void finish(Member& member, Errc error);
  Result<> flush_group(std::vector<Member>& group);

  const Core& core_;
  const std::function<bool()> make_room_;
  const std::function<void(std::uint64_t)> keep_up_;
  const std::function<void()> progress_;
  // One pass over the dirty list at a time: a pass holds the tokens of a whole group, and two
  // passes could wait for each other's. Held over I/O; taken before tokens and inode locks.
  Mutex pass_mu_;
};

}  // namespace lazyfs::fs
