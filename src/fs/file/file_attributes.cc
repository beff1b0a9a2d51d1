#include "fs/file/file_attributes.h"

#include <sys/stat.h>

#include <algorithm>

#include "fs/file/extent_map.h"
#include "fs/file/inline_block.h"

namespace lazyfs::fs {
namespace {

// The blocks that the file will have once it is written back. When many blocks wait, they are not
// looked up: those that replace others then count twice in a file with holes.
std::uint64_t blocks_of(const Inode& inode, meta::Store& store) REQUIRES_SHARED(inode.mu) {
  constexpr std::size_t kRunsLookedUp = 64;
  constexpr std::uint64_t kBlocksLookedUp = 1024;
  const std::uint64_t stored = inode.record.blocks;
  const std::uint64_t waiting = inode.buffer ? inode.buffer->dirty_blocks() : 0;
  if (waiting == 0 || stored == 0) return stored + waiting;
  // This bound is exact for a file without holes.
  const std::uint64_t at_most = std::max(stored, blocks_for(inode.record.size));
  if (waiting > kBlocksLookedUp) return std::min(stored + waiting, at_most);
  // No extent reaches past this block (I5): appended blocks replace nothing.
  const std::uint64_t stored_end = blocks_for(inode.tree_size);
  std::uint64_t fresh = 0;
  const auto runs = inode.buffer->runs(kRunsLookedUp);
  for (const data::WriteBuffer::Run& run : runs) {
    fresh += run.blocks;
    if (run.first_block >= stored_end) continue;
    fresh -= count_mapped(store, inode.no, run.first_block, run.blocks).value_or(0);
  }
  return std::min(stored + (runs.empty() ? waiting : fresh), at_most);
}

// In units of 512 bytes. Inline contents count by their bytes: programs that look for holes (tar
// -S) take a file with data but without sectors for one hole.
std::uint64_t sectors_of(const Inode& inode, meta::Store& store) REQUIRES_SHARED(inode.mu) {
  constexpr std::uint64_t kSectorBytes = 512;
  const std::uint64_t blocks = blocks_of(inode, store);
  const std::uint64_t sectors = blocks * (kBlockBytes / kSectorBytes);
  // A file whose blocks are all in bands is not looked up.
  const bool may_be_inline =
      S_ISREG(inode.record.mode) && (inode.inline_state.is_known || inode.truncate_pending ||
                                     inode.record.blocks < blocks_for(inode.record.size));
  if (!may_be_inline) return sectors;
  const InlineState state = find_inline(store, inode).value_or(InlineState{});
  const bool is_counted = inode.buffer && inode.buffer->has(state.block);
  if (state.bytes == 0 || is_counted) return sectors;
  return sectors + (state.bytes + kSectorBytes - 1) / kSectorBytes;
}

}  // namespace

Attributes attributes_of(const Inode& inode, meta::Store& store) {
  note_shown(inode);
  const InodeRecord& r = inode.record;
  Attributes a;
  a.inode = inode.no;
  a.mode = r.mode;
  a.links = r.links;
  a.owner = r.owner;
  a.rdev = r.rdev;
  a.size = S_ISDIR(r.mode) ? r.entries * 32 : r.size;
  a.blocks_512 = sectors_of(inode, store);
  a.access = r.access;
  a.modification = r.modification;
  a.change = r.change;
  a.birth = r.birth;
  a.generation = r.generation;
  a.flags = r.flags & kAllFlags;
  return a;
}

}  // namespace lazyfs::fs
