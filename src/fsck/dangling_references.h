// References to blocks that no shared-extent inode has: for repairs.
#pragma once

#include <span>

#include "fsck/repair_extents.h"

namespace lazyfs::fsck {

// add(), then repair().
class DanglingReferences {
 public:
  explicit DanglingReferences(Context& context) : c_(context), extents_(context) {}

  // No shared-extent inode has these blocks.
  void add(const ReferenceRun& run) { blocks_.add(run); }
  // Replaces the parts of references that lead to such blocks: by copies of the blocks if a file
  // has them as its own; others are lost.
  void repair();

 private:
  void mend(InodeNo inode, std::uint64_t file_block, const ReferenceRecord& reference,
            std::span<const ReferenceRun> bad);
  void replace(InodeNo inode, std::uint64_t file_block, const ReferenceRun& bad,
               meta::Batch& batch);

  Context& c_;
  ExtentRepair extents_;
  RunSet blocks_;
};

}  // namespace lazyfs::fsck
