// References to blocks that no shared-extent inode has.
#pragma once

#include <span>
#include <string>

#include "fsck/block_copies.h"
#include "fsck/reference_count_runs.h"

namespace lazyfs::fsck {

// add(), then run(). Which files hold the references is not kept in memory.
class DanglingReferences {
 public:
  explicit DanglingReferences(Context& context) : c_(context), copies_(context) {}

  // No shared-extent inode has these blocks.
  void add(const ReferenceRun& run) { blocks_.add(run); }
  // Reports the references that lead to such blocks. A repair replaces these parts of references by
  // copies of the blocks, if a file owns the blocks; otherwise the parts are lost. REQUIRES: the
  // types in Context::inodes are right.
  void run();

 private:
  std::string why(InodeNo target) const;
  void mend(InodeNo inode, std::uint64_t file_block, const ReferenceRecord& reference,
            std::span<const ReferenceRun> bad);
  void replace(InodeNo inode, std::uint64_t file_block, const ReferenceRun& bad,
               meta::Batch& batch);

  Context& c_;
  BlockCopies copies_;
  RunSet blocks_;
};

}  // namespace lazyfs::fsck
