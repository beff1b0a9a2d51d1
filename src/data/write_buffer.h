// One file's data that is not on the device yet: blocks that users have written ("dirty"), and
// blocks that write-back is appending to a band ("writing").
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/types.h"
#include "data/page_pool.h"

namespace lazyfs::data {

// Consecutive blocks to be written back. The pages stay valid and unchanged until finish_writing()
// or abort_writing().
struct DirtyRun {
  std::uint64_t first_block = 0;
  std::vector<std::span<const std::byte>> pages;  // kBlockBytes each
};

// Invariants:
//   W1  a page in writing_ never changes; a write to its block makes a page in dirty_, and readers
//       see that one
//   W2  at most one write-back is under way: writing_ is empty before begin_writing()
//   W3  every page is in exactly one of the two maps, and is given back to the pool once
// After std::bad_alloc nothing has changed. finish_writing(), abort_writing() and dropping need no
// memory.
// Not thread-safe: the inode's lock guards it.
class WriteBuffer {
 public:
  explicit WriteBuffer(PagePool& pool) : pool_(pool) {}
  ~WriteBuffer();
  WriteBuffer(const WriteBuffer&) = delete;
  WriteBuffer& operator=(const WriteBuffer&) = delete;

  // The blocks, at most two, that write(offset, length) covers in part and whose contents are not
  // in the buffer: the caller must provide() them first (zeros for a hole and for bytes past EOF).
  std::vector<std::uint64_t> needs_old(std::uint64_t offset, std::size_t length) const;
  // How many pages write(offset, length) will take from the pool.
  std::size_t new_pages(std::uint64_t offset, std::size_t length) const;

  // Makes `contents` (one block) the dirty contents of a block that is not dirty.
  void provide(std::uint64_t block, std::span<const std::byte> contents);
  // REQUIRES: needs_old(offset, bytes.size()) is empty.
  void write(std::uint64_t offset, std::span<const std::byte> bytes);

  bool has(std::uint64_t block) const { return page_of(block) != nullptr; }
  bool has_dirty(std::uint64_t block) const { return dirty_.contains(block); }
  // The newest contents of a block, or empty when it is not in the buffer. Valid until the next
  // change.
  std::span<const std::byte> contents(std::uint64_t block) const;

  // Moves up to `max_blocks` dirty blocks, lowest first, to writing. REQUIRES: W2.
  std::vector<DirtyRun> begin_writing(std::size_t max_blocks);
  void finish_writing();  // the blocks are on the device and in the map
  void abort_writing();   // makes the blocks dirty again, unless overwritten since
  bool writing() const { return !writing_.empty(); }

  // Drops dirty blocks from `block` on, or in [first, end). Returns how many. REQUIRES: no
  // write-back is under way.
  std::size_t drop_from(std::uint64_t block);
  std::size_t drop_range(std::uint64_t first, std::uint64_t end);
  // Sets the bytes of a dirty block from `from` on to zero.
  void zero_tail(std::uint64_t block, std::size_t from);

  // Runs of blocks in the buffer, dirty or writing, in order. Empty when there are more than
  // `at_most`.
  struct Run {
    std::uint64_t first_block = 0, blocks = 0;
    friend bool operator==(const Run&, const Run&) = default;
  };
  std::vector<Run> runs(std::size_t at_most) const;

  // Includes the blocks that are being written.
  std::uint64_t dirty_blocks() const { return dirty_.size() + writing_.size(); }
  bool clean() const { return dirty_.empty() && writing_.empty(); }
  // The first dirty block, if any.
  std::optional<std::uint64_t> first_dirty() const;
  // The first block in the buffer at or past `block`, if any.
  std::optional<std::uint64_t> first_from(std::uint64_t block) const;

 private:
  using Pages = std::map<std::uint64_t, std::byte*>;
  const std::byte* page_of(std::uint64_t block) const;
  Pages::iterator add_pages(std::uint64_t first, std::uint64_t end, std::size_t count);

  PagePool& pool_;
  Pages dirty_;
  Pages writing_;
};

}  // namespace lazyfs::data
