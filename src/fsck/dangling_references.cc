#include "fsck/dangling_references.h"

#include <algorithm>

namespace lazyfs::fsck {

void DanglingReferences::run() {
  blocks_.freeze();
  if (blocks_.empty()) return;
  c_.visit(kFirstKey, kLastInodeKey, "shared extents", [&](const meta::Item& item) {
    const auto reference = reference_of(item);
    if (!reference) return;
    const auto bad = blocks_.overlapping(ReferenceRun::of(*reference));
    const InodeNo inode{item.key.owner};
    const InodeFacts* facts = bad.empty() ? nullptr : c_.find_inode(inode);
    if (facts && facts->type == kRegularType &&
        c_.finding(Action::kCorrect,
                   "Inode {}: the reference at file block {} leads to blocks {} to {} of inode {}, "
                   "{}",
                   inode.value, item.key.offset, reference->block,
                   reference->block + reference->count - 1, reference->shared.value,
                   why(reference->shared))) {
      mend(inode, item.key.offset, *reference, bad);
    }
  });
}

std::string DanglingReferences::why(InodeNo target) const {
  const InodeFacts* inode = c_.find_inode(target);
  if (!inode) return "which does not exist";
  if (inode->type == kSharedType) return "which does not have them all";
  return fmt::format("which is a {}", type_name(inode->type));
}

void DanglingReferences::mend(InodeNo inode, std::uint64_t file_block,
                              const ReferenceRecord& reference,
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
  copies_.report_lost();
}

void DanglingReferences::replace(InodeNo inode, std::uint64_t file_block, const ReferenceRun& bad,
                                 meta::Batch& batch) {
  const auto lost = [&](std::uint64_t from, std::uint64_t to) {
    if (from >= to) return;
    c_.lost_blocks(inode, file_block + (from - bad.block), static_cast<std::uint32_t>(to - from),
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
             copies_.copy(inode, part, batch);
             at = to;
           });
  lost(at, bad.end());
}

}  // namespace lazyfs::fsck
