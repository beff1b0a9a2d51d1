// Shared-extent inodes against the files that refer to their blocks. The references are counted
// from the files alone; every block of a shared-extent inode has as many as its one reference
// count says.
#include "fsck/passes.h"

namespace lazyfs::fsck {
namespace {

class SharedExtentCheck {
 public:
  explicit SharedExtentCheck(Context& context) : c_(context) {}

  void run() {
    c_.references.sort();
    for (const InodeFacts& inode : c_.inodes) {
      if (inode.type == kSharedType) check_inode(inode.inode);
    }
    for (const ReferenceRun& run : c_.references.runs()) {
      const InodeFacts* inode = c_.find_inode(run.shared);
      if (!inode || inode->type != kSharedType) dangling_.add(run);
    }
    if (!c_.report.complete) return;
    dangling_.freeze();
    if (!dangling_.empty()) name_dangling();
  }

 private:
  void check_inode(InodeNo inode) {
    const auto visited = visit_reference_counts(
        c_.store, inode, c_.references.to(inode), [&](const ReferenceCountRun& run) {
          c_.progress("shared extents", done_ += run.end - run.first);
          if (!run.is_right()) compare(inode, run);
        });
    if (!visited) c_.unreadable(key_of(inode, Kind::kExtent), visited.error());
  }

  void compare(InodeNo inode, const ReferenceCountRun& s) {
    const std::uint64_t last = s.end - 1;
    if (!s.is_mapped) {
      if (s.references > 0) dangling_.add({inode, s.first, s.end - s.first});
      if (s.counted > 0) {
        c_.problem(
            "Shared-extent inode {}: a reference count covers the blocks from {} to {}, which no "
            "extent "
            "maps", inode.value, s.first, last);
      }
    } else if (s.references == 0) {
      c_.problem("Shared-extent inode {}: no file refers to its blocks from {} to {}", inode.value,
                 s.first, last);
    } else if (s.counted == 0) {
      c_.problem("Shared-extent inode {}: no reference count covers its blocks from {} to {}",
                 inode.value,
                 s.first, last);
    } else {
      c_.problem(
          "Shared-extent inode {}: {} references to its blocks from {} to {} are counted, but "
          "there are "
          "{}", inode.value, s.counted, s.first, last, s.references);
    }
  }

  // Which files they belong to is not held in memory.
  void name_dangling() {
    c_.visit(kFirstKey, kLastInodeKey, "shared extents",
             [&](const meta::Item& item) {
               const auto reference = reference_of(item);
               if (!reference) return;
               const auto bad = dangling_.overlapping(ReferenceRun::of(*reference));
               if (bad.empty()) return;
               const InodeFacts* inode = c_.find_inode(reference->shared);
               c_.problem(
                   "Inode {}: the reference at file block {} leads to blocks {} to {} of inode "
                   "{}, {}", item.key.owner, item.key.offset, reference->block,
                   reference->block + reference->count - 1, reference->shared.value, why(inode));
             });
  }

  static std::string why(const InodeFacts* inode) {
    if (!inode) return "which does not exist";
    if (inode->type == kSharedType) return "which does not have them all";
    return fmt::format("which is a {}", type_name(inode->type));
  }

  Context& c_;
  RunSet dangling_;  // blocks that references lead to, and no shared-extent inode has
  std::uint64_t done_ = 0;
};

}  // namespace

void check_shared_extents(Context& c) {
  c.progress("shared extents", 0, true);
  if (c.report.complete) SharedExtentCheck(c).run();
}

}  // namespace lazyfs::fsck
