// Shared-extent inodes against the references of files. References decide: reference counts are
// rebuilt from them, blocks without a reference are freed.
#include <sys/stat.h>

#include <algorithm>

#include "fs/file/extent_map.h"
#include "fsck/dangling_references.h"
#include "fsck/passes.h"
#include "fsck/shared_inodes.h"

namespace lazyfs::fsck {
namespace {

constexpr std::size_t kBatchItems = 16;

class SharedExtentRepair {
 public:
  explicit SharedExtentRepair(Context& context)
      : c_(context), inodes_(context), dangling_(context) {}

  void run() {
    std::ranges::sort(c_.names);
    for (InodeFacts& inode : c_.inodes) inodes_.settle(inode);
    collect();
    for (InodeFacts& inode : c_.inodes) {
      if (inode.type == kSharedType && c_.good()) repair_shared(inode);
    }
    inodes_.forget_removed();
    c_.inodes.insert(c_.inodes.end(), found_.begin(), found_.end());
    std::ranges::sort(c_.inodes, {}, &InodeFacts::inode);
    dangling_.repair();
  }

 private:
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
      if (reference) references_.add(*reference);
    });
    references_.sort();
    for (const ReferenceRun& run : references_.runs()) {
      const InodeFacts* facts = c_.find_inode(run.shared);
      if (!facts || facts->type != kSharedType) dangling_.add(run);
    }
  }

  // ---- one shared-extent inode ----

  void repair_shared(InodeFacts& inode) {
    std::vector<ReferenceCountRun> runs;
    const auto visited = visit_reference_counts(
        c_.store, inode.inode, references_.to(inode.inode),
        [&](const ReferenceCountRun& run) { runs.push_back(run); });
    if (!visited) return c_.fail_with(visited.error());
    bool is_used = false, is_wrong = has_overlapping_counts(inode.inode);
    for (const ReferenceCountRun& s : runs) {
      if (!s.is_mapped && s.references > 0) {
        dangling_.add({inode.inode, s.first, s.end - s.first});
      }
      is_used |= s.is_mapped && s.references > 0;
      is_wrong |= s.counted != (s.is_mapped ? s.references : 0);
    }
    if (!is_used) return inodes_.make_file(inode, false);
    for (const ReferenceCountRun& s : runs) {
      if (s.is_mapped && s.references == 0) release(inode.inode, s);
    }
    if (is_wrong) recount(inode.inode, runs);
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

  void recount(InodeNo inode, const std::vector<ReferenceCountRun>& runs) {
    c_.repaired("Shared-extent inode {}: its reference counts are rebuilt from the references",
                inode.value);
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

  // Blocks that no file refers to are freed; if the file that referred to them may be lost, they
  // become a file of their own.
  void release(InodeNo inode, const ReferenceCountRun& s) {
    const bool may_be_missed = std::ranges::any_of(
        c_.lost, [](const meta::KeyRange& range) { return range.first.owner <= kMaxInode; });
    InodeNo new_file{};
    if (may_be_missed) {
      if (found_.empty() || found_of_ != inode) {
        found_of_ = inode;
        found_.push_back({c_.new_inode(), InodeNo{}, 1, kRegularType});
      }
      new_file = found_.back().inode;
      c_.repaired(
          "Shared-extent inode {}: the file that its blocks {} to {} belonged to is lost: they "
          "are inode "
          "{} now",
          inode.value, s.first, s.end - 1, new_file.value);
    } else {
      c_.repaired("Shared-extent inode {}: no file refers to its blocks {} to {}: freed",
                  inode.value,
                  s.first, s.end - 1);
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
      record.size = end * kBlockBytes;
      record.access = record.modification = record.change = record.birth = c_.now;
      batch.put(key_of(new_file, Kind::kInode), encode(record));
      batch.put(key_of(new_file, Kind::kExtent, first), encode(part(first, end)));
    }
    c_.apply(batch);
  }

  Context& c_;
  SharedInodes inodes_;
  DanglingReferences dangling_;
  References references_;
  std::vector<InodeFacts> found_;  // made of blocks whose files are lost
  InodeNo found_of_;               // the shared-extent inode that the last one comes from
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

void repair_shared_extents(Context& c) {
  const bool has_shared = std::ranges::any_of(
      c.inodes, [](const InodeFacts& inode) { return inode.type == kSharedType; });
  if (has_shared || !c.targets.empty() || !c.counted.empty()) SharedExtentRepair(c).run();
}

}  // namespace lazyfs::fsck
