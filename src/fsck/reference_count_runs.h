// The blocks of a shared-extent inode as its three witnesses describe them: its extents, its
// reference counts, and the references of files. A check compares the three, a repair trusts the
// references.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "fs/item/schema.h"
#include "meta/store/store.h"

namespace lazyfs::fsck {

// References that lead to consecutive blocks of one shared-extent inode.
struct ReferenceRun {
  InodeNo shared;
  std::uint64_t block = 0;
  std::uint64_t blocks = 0;
  std::uint64_t end() const { return block + blocks; }
  static ReferenceRun of(const fs::ReferenceRecord& r) { return {r.shared, r.block, r.count}; }
  friend auto operator<=>(const ReferenceRun&, const ReferenceRun&) = default;
};
static_assert(sizeof(ReferenceRun) == 24);  // what a check says of its memory

// The reference that an item holds; nullopt for an extent, a damaged item, and any other kind.
std::optional<fs::ReferenceRecord> reference_of(const meta::Item& item);

// All references of a volume. A reference that begins where the file's previous one ends joins its
// run, so the copy of a large file takes as much memory as that of a block.
class References {
 public:
  void add(const fs::ReferenceRecord& reference);
  // Takes the last `blocks` blocks off the newest reference, which keeps some.
  void shorten_newest(std::uint64_t blocks) { runs_.back().blocks -= blocks; }
  // Before to(), after the last add().
  void sort();
  const std::vector<ReferenceRun>& runs() const { return runs_; }
  // References to one inode, ascending. REQUIRES: sort() was called.
  std::span<const ReferenceRun> to(InodeNo shared) const;

 private:
  std::vector<ReferenceRun> runs_;
};

// Blocks of some inodes. freeze() ends filling and begins queries.
class RunSet {
 public:
  void add(const ReferenceRun& run);
  void freeze();
  bool empty() const { return runs_.empty(); }
  // What of the set has blocks of `run`; ascending, and no two parts overlap.
  std::span<const ReferenceRun> overlapping(const ReferenceRun& run) const;

 private:
  std::vector<ReferenceRun> runs_;
};

// Blocks of which every witness says one thing.
struct ReferenceCountRun {
  std::uint64_t first = 0;
  std::uint64_t end = 0;
  bool is_mapped = false;        // an extent maps them
  std::uint64_t counted = 0;     // what their reference count says; 0: none covers them
  std::uint64_t references = 0;  // that lead to them
  bool is_right() const { return counted == references && is_mapped == (references > 0); }
};

// Visits every block that any witness describes, in order. `references` are those to the inode.
// Items that cannot be decoded are left out; where two overlap the first one counts.
// Memory: 8 bytes for each reference to one block. Errors: those of reading the tree.
Result<> visit_reference_counts(meta::Store& store, InodeNo shared,
                                std::span<const ReferenceRun> references,
                                const std::function<void(const ReferenceCountRun&)>& visit);

}  // namespace lazyfs::fsck
