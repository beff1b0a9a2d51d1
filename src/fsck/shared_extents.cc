// Shared-extent inodes against the references of files. The references decide which inodes are
// shared, what a block's reference count is, and which blocks are freed because they have no
// reference.
#include <sys/stat.h>

#include <algorithm>

#include "fs/file/extent_map.h"
#include "fsck/dangling_references.h"
#include "fsck/passes.h"
#include "fsck/shared_inodes.h"

namespace lazyfs::fsck {
namespace {

class SharedExtentPass {
 public:
  explicit SharedExtentPass(Context& context)
      : c_(context), inodes_(context), dangling_(context) {}

  void run() {
    std::ranges::sort(c_.names);
    if (!c_.repairs()) find_targets_by_references();
    for (InodeFacts& inode : c_.inodes) inodes_.settle(inode);
    if (c_.repairs()) collect();
    c_.references.sort();
    for (const ReferenceRun& run : c_.references.runs()) {
      const InodeFacts* facts = c_.find_inode(run.shared);
      if (!facts || facts->type != kSharedType) dangling_.add(run);
    }
    for (InodeFacts& inode : c_.inodes) {
      if (inode.type == kSharedType && c_.good()) compare(inode);
    }
    c_.inodes.insert(c_.inodes.end(), found_.begin(), found_.end());
    std::ranges::sort(c_.inodes, {}, &InodeFacts::inode);
    dangling_.run();
    inodes_.forget_removed();
  }

 private:
  // A check knows all references by now; a repair has looked for their targets before.
  void find_targets_by_references() {
    c_.references.sort();
    for (const ReferenceRun& run : c_.references.runs()) {
      if (c_.targets.empty() || c_.targets.back() != run.shared) c_.targets.push_back(run.shared);
    }
  }

  // The references after the changes of a repair so far.
  void collect() {
    InodeNo owner;
    bool is_file = false;
    c_.visit(kFirstKey, kLastInodeKey, "shared extents", [&](const meta::Item& item) {
      if (InodeNo{item.key.owner} != owner) {
        owner = InodeNo{item.key.owner};
        const InodeFacts* facts = c_.find_inode(owner);
        is_file = facts && facts->type == kRegularType;
      }
      const auto reference = is_file ? reference_of(item) : std::nullopt;
      if (reference) c_.references.add(*reference);
    });
  }

  // ---- one shared-extent inode ----

  // A repair holds all runs in memory, a check only the wrong ones.
  void compare(InodeFacts& inode) {
    std::vector<ReferenceCountRun> runs;
    std::uint64_t end = 0;  // of what is mapped
    bool is_used = false;
    const auto visited = visit_reference_counts(
        c_.store, inode.inode, c_.references.to(inode.inode), [&](const ReferenceCountRun& run) {
          done_ += run.end - run.first;
          c_.progress("shared extents", {.done = done_});
          if (run.is_mapped) end = run.end;
          is_used |= run.is_mapped && run.references > 0;
          if (c_.repairs() || !run.is_right()) runs.push_back(run);
        });
    if (!visited) return c_.unreadable(key_of(inode.inode, Kind::kExtent), visited.error());
    for (const ReferenceCountRun& run : runs) {
      if (!run.is_mapped && run.references > 0) {
        dangling_.add({inode.inode, run.first, run.end - run.first});
      }
    }
    if (!is_used) return inodes_.make_file(inode, false);
    if (!inode.is_mended) compare_size(inode.inode, end);
    bool is_wrong = c_.repairs() && has_overlapping_counts(inode.inode);
    for (const ReferenceCountRun& run : runs) {
      if (!run.is_right()) is_wrong |= correct(inode.inode, run);
    }
    if (is_wrong) recount(inode.inode, runs);
  }

  // A repair corrects it later: recount.cc.
  void compare_size(InodeNo inode, std::uint64_t end) {
    const auto record = c_.inode(inode);
    if (!record || record->size >= end * kBlockBytes) return;
    c_.finding(Action::kCorrect,
               "Shared-extent inode {} has {} bytes, but its last block ends at {}", inode.value,
               record->size, end * kBlockBytes);
  }

  // Whether a repair has to write the reference counts again.
  bool correct(InodeNo inode, const ReferenceCountRun& s) {
    const std::uint64_t last = s.end - 1;
    if (!s.is_mapped) {
      return s.counted > 0 &&
             c_.finding(Action::kCorrect,
                        "Shared-extent inode {}: a reference count covers the blocks from {} to "
                        "{}, which no extent maps",
                        inode.value, s.first, last);
    }
    if (s.references == 0) {
      const Action action = may_be_missed() ? Action::kMove : Action::kRemove;
      if (!c_.finding(action, "Shared-extent inode {}: no file refers to its blocks from {} to {}",
                      inode.value, s.first, last)) {
        return false;
      }
      release(inode, s);
      return s.counted > 0;
    }
    if (s.counted == 0) {
      return c_.finding(Action::kCorrect,
                        "Shared-extent inode {}: no reference count covers its blocks from {} to "
                        "{}",
                        inode.value, s.first, last);
    }
    return c_.finding(Action::kCorrect,
                      "Shared-extent inode {}: {} references to its blocks from {} to {} are "
                      "counted, but there are {}",
                      inode.value, s.counted, s.first, last, s.references);
  }

  bool has_overlapping_counts(InodeNo inode) {
    std::uint64_t end = 0;
    bool overlap = false;
    c_.visit_kind(inode, Kind::kReferenceCount, [&](const meta::Item& item) {
      const auto record = decode_reference_count(item.value);
      overlap |= !record || item.key.offset < end;
      if (record) end = item.key.offset + record->blocks;
    });
    return overlap;
  }

  // The reference counts of what is mapped and referred to.
  void recount(InodeNo inode, const std::vector<ReferenceCountRun>& runs) {
    c_.visit_kind(inode, Kind::kReferenceCount,
                  [&](const meta::Item& item) { c_.erase(item.key); });
    meta::Batch batch;
    const auto flush_at = [&](std::size_t items) {
      if (batch.size() < items) return;
      c_.apply(batch);
      batch.clear();
    };
    for (const ReferenceCountRun& s : runs) {
      if (!s.is_mapped || s.references == 0) continue;
      for (std::uint64_t block = s.first; block < s.end; block += kMaxExtentBlocks) {
        const auto blocks = std::min<std::uint64_t>(s.end - block, kMaxExtentBlocks);
        batch.put(key_of(inode, Kind::kReferenceCount, block),
                  encode(ReferenceCountRecord{static_cast<std::uint32_t>(blocks),
                                          static_cast<std::uint32_t>(s.references)}));
        flush_at(kBatchItems);
      }
    }
    flush_at(1);
  }

  // Whether a file that referred to blocks may be lost.
  bool may_be_missed() const {
    return std::ranges::any_of(c_.lost, [](const meta::KeyRange& range) {
      return range.first.owner <= kMaxInode;
    });
  }

  // Blocks that no file refers to are freed; if the file that referred to them may be lost, they
  // become a file of their own.
  void release(InodeNo inode, const ReferenceCountRun& s) {
    InodeNo new_file{};
    if (may_be_missed()) {
      if (found_.empty() || found_of_ != inode) {
        found_of_ = inode;
        found_.push_back({c_.new_inode(), InodeNo{}, 1, kRegularType});
      }
      new_file = found_.back().inode;
      c_.repaired("Shared-extent inode {}: its blocks {} to {} are inode {} now", inode.value,
                  s.first, s.end - 1, new_file.value);
    }
    const std::uint64_t from = s.first - std::min<std::uint64_t>(s.first, kMaxExtentBlocks - 1);
    c_.visit(key_of(inode, Kind::kExtent, from), key_of(inode, Kind::kExtent, s.end - 1), "",
             [&](const meta::Item& item) {
               const auto extent = decode_extent(item.value);
               if (extent && item.key.offset + extent->blocks() > s.first) {
                 split(inode, {item.key.offset, *extent}, s, new_file);
               }
             });
  }

  // Takes the run's part of an extent from the shared-extent inode, and gives it to the new file,
  // if any.
  void split(InodeNo inode, const MappedExtent& whole, const ReferenceCountRun& s,
             InodeNo new_file) {
    const std::uint64_t first = std::max(whole.file_block, s.first);
    const std::uint64_t end = std::min(whole.end(), s.end);
    const auto part = [&](std::uint64_t from, std::uint64_t to) {
      return part_of(whole, static_cast<std::uint32_t>(from - whole.file_block),
                     static_cast<std::uint32_t>(to - from))
          .extent;
    };
    c_.touch(whole.extent.at.band);
    meta::Batch batch;
    batch.erase(key_of(inode, Kind::kExtent, whole.file_block));
    if (whole.file_block < first) {
      batch.put(key_of(inode, Kind::kExtent, whole.file_block),
                encode(part(whole.file_block, first)));
    }
    if (end < whole.end()) {
      batch.put(key_of(inode, Kind::kExtent, end), encode(part(end, whole.end())));
    }
    if (new_file.value != 0) {
      InodeRecord record;
      record.mode = S_IFREG | 0600;
      record.links = 1;
      record.size = std::min(end * kBlockBytes, largest_size(record.mode));
      record.access = record.modification = record.change = record.birth = c_.now;
      batch.put(key_of(new_file, Kind::kInode), encode(record));
      batch.put(key_of(new_file, Kind::kExtent, first), encode(part(first, end)));
    }
    c_.apply(batch);
  }

  Context& c_;
  SharedInodes inodes_;
  DanglingReferences dangling_;
  std::vector<InodeFacts> found_;  // made of blocks whose files are lost
  InodeNo found_of_;               // the shared-extent inode that the last one comes from
  std::uint64_t done_ = 0;
};

}  // namespace

void find_targets(Context& c) {
  c.visit(kFirstKey, kLastInodeKey, "references", [&](const meta::Item& item) {
    const auto reference = reference_of(item);
    if (!reference || (!c.targets.empty() && c.targets.back() == reference->shared)) return;
    c.targets.push_back(reference->shared);
    // Many files refer to few inodes.
    if (c.targets.size() == c.targets.capacity()) {
      std::ranges::sort(c.targets);
      c.targets.erase(std::unique(c.targets.begin(), c.targets.end()), c.targets.end());
    }
  });
  std::ranges::sort(c.targets);
  c.targets.erase(std::unique(c.targets.begin(), c.targets.end()), c.targets.end());
}

void shared_extents_pass(Context& c) {
  c.progress_now("shared extents", {});
  const bool has_shared = std::ranges::any_of(
      c.inodes, [](const InodeFacts& inode) { return inode.type == kSharedType; });
  const bool has_any = has_shared || !c.targets.empty() || !c.misfits.empty() ||
                       !c.references.runs().empty();
  if (has_any && c.report.complete) SharedExtentPass(c).run();
}

}  // namespace lazyfs::fsck
