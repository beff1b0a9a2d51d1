// Shared inodes, and the references of files. References decide: reference counts are rebuilt from
// them, blocks without a reference are freed, references that lead nowhere are removed. An inode
// that files refer to, and that has no name, is shared; any other is a file.
#include <sys/stat.h>

#include <algorithm>

#include "fsck/passes.h"
#include "fsck/repair_extents.h"

namespace lazyfs::fsck {
namespace {

constexpr std::size_t kBatchItems = 16;

std::optional<ReferenceRecord> reference_of(const meta::Item& item) {
  if (item.key.kind != static_cast<std::uint8_t>(Kind::kExtent)) return std::nullopt;
  const auto record = decode_map_record(item.value);
  const auto* reference = record ? std::get_if<ReferenceRecord>(&*record) : nullptr;
  return reference ? std::optional(*reference) : std::nullopt;
}

class SharedExtentRepair {
 public:
  explicit SharedExtentRepair(Context& context) : c_(context), extents_(context) {}

  void run() {
    std::ranges::sort(c_.names);
    for (InodeFacts& inode : c_.inodes) settle(inode);
    collect();
    for (InodeFacts& inode : c_.inodes) {
      if (inode.type == kSharedType && c_.good()) repair_shared(inode);
    }
    std::ranges::sort(removed_);
    std::erase_if(c_.inodes, [&](const InodeFacts& inode) {
      return std::ranges::binary_search(removed_, inode.inode);
    });
    c_.inodes.insert(c_.inodes.end(), found_.begin(), found_.end());
    std::ranges::sort(c_.inodes, {}, &InodeFacts::inode);
    mend_references();
  }

 private:
  // ---- what is shared, and what is a file ----

  void settle(InodeFacts& inode) {
    const bool is_target = c_.is_target(inode.inode);
    const bool is_counted = std::ranges::binary_search(c_.counted, inode.inode);
    if (inode.type != kSharedType && (inode.type != kRegularType || !(is_target || is_counted))) {
      return;
    }
    const bool has_name = std::ranges::binary_search(c_.names, inode.inode, {}, &NameFacts::inode);
    if (is_target && !has_name) {
      make_shared(inode);
    } else {
      make_file(inode, has_name);
    }
  }

  void make_shared(InodeFacts& inode) {
    auto record = c_.inode(inode.inode);
    if (!record) return;
    if (record->mode != kSharedMode) {
      c_.repaired("Inode {} was a {}, but files refer to its blocks: it is shared",
                  inode.inode.value, type_name(inode.type));
      record->mode = kSharedMode;
      c_.put_inode(inode.inode, *record);
    }
    inode.type = kSharedType;
    erase_items(inode.inode, Kind::kXattrName, Kind::kInline, "attributes or inline data");
    c_.visit(key_of(inode.inode, Kind::kExtent), key_of(inode.inode, Kind::kExtent, kAnywhere), "",
             [&](const meta::Item& item) {
               if (!reference_of(item)) return;
               c_.repaired("Shared inode {} had a reference at block {}: removed",
                           inode.inode.value, item.key.offset);
               c_.erase(item.key);
             });
  }

  // A file without a name is brought into /lost+found later.
  void make_file(InodeFacts& inode, bool has_name) {
    erase_items(inode.inode, Kind::kShareCount, Kind::kShareCount, "reference counts");
    auto record = c_.inode(inode.inode);
    if (!record) return;
    const std::uint64_t end = end_of(inode.inode);
    const bool has_size = record->mode != kSharedMode;
    if (record->mode == kSharedMode) {
      if (!has_name && end == 0 && !c_.get(key_of(inode.inode, Kind::kInline))) {
        return remove(inode);
      }
      c_.repaired("Inode {} called itself shared, but {}: it is a file", inode.inode.value,
                  has_name ? "has a name" : "no file refers to its blocks");
      record->mode = S_IFREG | 0600;
    }
    if (!c_.orphan_work(inode.inode) && end > blocks_for(record->size)) {
      if (has_size) {
        truncate(inode.inode, blocks_for(record->size));
      } else {
        record->size = end * kBlockBytes;
      }
    }
    c_.put_inode(inode.inode, *record);
    inode.type = kRegularType;
  }

  // A file whose size is known keeps no blocks past its end, also where other files refer to them.
  void truncate(InodeNo inode, std::uint64_t limit) {
    const std::uint64_t from = limit - std::min<std::uint64_t>(limit, kMaxExtentBlocks - 1);
    c_.visit(key_of(inode, Kind::kExtent, from), key_of(inode, Kind::kExtent, kAnywhere), "",
             [&](const meta::Item& item) {
               auto record = decode_map_record(item.value);
               const std::uint64_t first = item.key.offset;
               if (!record || first + blocks_of(*record) <= limit) return;
               c_.repaired("Inode {}: what it had at file block {} lay past the end: truncated",
                           inode.value, first);
               if (first >= limit) return c_.erase(item.key);
               c_.put(item.key, encode(part_of(MapEntry{first, std::move(*record)}, 0,
                                               static_cast<std::uint32_t>(limit - first))
                                           .record));
             });
  }

  void remove(const InodeFacts& inode) {
    c_.repaired("Shared inode {} had no blocks: removed", inode.inode.value);
    erase_items(inode.inode, Kind::kXattrName, Kind{255}, "attributes");
    c_.erase(key_of(inode.inode, Kind::kInode));
    removed_.push_back(inode.inode);
  }

  void erase_items(InodeNo inode, Kind first, Kind last, std::string_view what) {
    bool any = false;
    c_.visit(key_of(inode, first), key_of(inode, last, meta::kMaxOffset), "",
             [&](const meta::Item& item) {
               c_.erase(item.key);
               any = true;
             });
    if (any) c_.repaired("Inode {} had {}, which it cannot have: removed", inode.value, what);
  }

  // The block after the last one that it maps.
  std::uint64_t end_of(InodeNo inode) {
    const auto last =
        c_.store.last_in(key_of(inode, Kind::kExtent), key_of(inode, Kind::kExtent, kAnywhere));
    if (!last) c_.fail_with(last.error());
    if (!last || !*last) return 0;
    const auto record = decode_map_record((**last).value);
    return record ? (**last).key.offset + blocks_of(*record) : 0;
  }

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

  // ---- one shared inode ----

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
    if (!is_used) return make_file(inode, false);
    for (const ReferenceCountRun& s : runs) {
      if (s.is_mapped && s.references == 0) release(inode.inode, s);
    }
    if (is_wrong) recount(inode.inode, runs);
  }

  bool has_overlapping_counts(InodeNo inode) {
    std::uint64_t end = 0;
    bool overlap = false;
    c_.visit_kind(inode, Kind::kShareCount, [&](const meta::Item& item) {
      const auto record = decode_share_count(item.value);
      overlap |= !record || item.key.offset < end;
      if (record) end = item.key.offset + record->blocks;
    });
    return overlap;
  }

  void recount(InodeNo inode, const std::vector<ReferenceCountRun>& runs) {
    c_.repaired("Shared inode {}: its reference counts are rebuilt from the references",
                inode.value);
    c_.visit_kind(inode, Kind::kShareCount, [&](const meta::Item& item) { c_.erase(item.key); });
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
        batch.put(key_of(inode, Kind::kShareCount, block),
                  encode(ShareCountRecord{static_cast<std::uint32_t>(blocks),
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
          "Shared inode {}: the file that its blocks {} to {} belonged to is lost: they are inode "
          "{} now", inode.value, s.first, s.end - 1, new_file.value);
    } else {
      c_.repaired("Shared inode {}: no file refers to its blocks {} to {}: freed", inode.value,
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

  // Takes the run's part of an extent from the shared inode, and gives it to the new file, if any.
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

  // ---- references to blocks that no shared inode has ----

  void mend_references() {
    dangling_.freeze();
    if (dangling_.empty()) return;
    c_.visit(kFirstKey, kLastInodeKey, "shared extents", [&](const meta::Item& item) {
      const auto reference = reference_of(item);
      if (!reference) return;
      const auto bad = dangling_.overlapping(ReferenceRun::of(*reference));
      if (!bad.empty()) mend(InodeNo{item.key.owner}, item.key.offset, *reference, bad);
    });
  }

  void mend(InodeNo inode, std::uint64_t file_block, const ReferenceRecord& reference,
            std::span<const ReferenceRun> bad) {
    const std::uint64_t end = reference.block + reference.count;
    const auto file_block_of = [&](std::uint64_t block) {
      return file_block + (block - reference.block);
    };
    meta::Batch batch;
    batch.erase(key_of(inode, Kind::kExtent, file_block));
    const auto keep = [&](std::uint64_t from, std::uint64_t to) {
      if (from >= to) return;
      batch.put(
          key_of(inode, Kind::kExtent, file_block_of(from)),
          encode(ReferenceRecord{reference.shared, from, static_cast<std::uint32_t>(to - from)}));
    };
    std::uint64_t at = reference.block;
    for (const ReferenceRun& run : bad) {
      const std::uint64_t from = std::max(at, run.block), to = std::min(end, run.end());
      keep(at, from);
      replace(inode, file_block_of(from), {reference.shared, from, to - from}, batch);
      at = to;
    }
    keep(at, end);
    c_.apply(batch);
  }

  // Blocks that another file has as its own are copied; others are lost.
  void replace(InodeNo inode, std::uint64_t file_block, const ReferenceRun& bad,
               meta::Batch& batch) {
    const auto lost = [&](std::uint64_t from, std::uint64_t to) {
      if (from >= to) return;
      extents_.lost(inode, file_block + (from - bad.block), static_cast<std::uint32_t>(to - from),
                    fmt::format("were of inode {}, which lacks them", bad.shared.value));
    };
    std::uint64_t at = bad.block;
    const std::uint64_t first = at - std::min<std::uint64_t>(at, kMaxExtentBlocks - 1);
    c_.visit(key_of(bad.shared, Kind::kExtent, first),
             key_of(bad.shared, Kind::kExtent, bad.end() - 1), "", [&](const meta::Item& item) {
               const auto extent = decode_extent(item.value);
               if (!extent || item.key.offset + extent->blocks() <= at) return;
               const MappedExtent whole{item.key.offset, *extent};
               const std::uint64_t from = std::max(at, whole.file_block);
               const std::uint64_t to = std::min(bad.end(), whole.end());
               lost(at, from);
               MappedExtent part =
                   part_of(whole, static_cast<std::uint32_t>(from - whole.file_block),
                           static_cast<std::uint32_t>(to - from));
               part.file_block = file_block + (from - bad.block);
               extents_.copy(inode, part, batch);
               at = to;
             });
    lost(at, bad.end());
  }

  static constexpr std::uint64_t kAnywhere = meta::kMaxOffset;

  Context& c_;
  ExtentRepair extents_;
  References references_;
  RunSet dangling_;  // blocks that references lead to, and no shared inode has
  std::vector<InodeNo> removed_;
  std::vector<InodeFacts> found_;  // made of blocks whose files are lost
  InodeNo found_of_;               // the shared inode that the last one comes from
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
