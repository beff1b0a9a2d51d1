// The block of a file whose contents are in the tree instead of a band (I8).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "fs/inode/inode.h"
#include "fs/item/schema.h"
#include "meta/store/store.h"
#include "meta/tree/batch.h"

namespace lazyfs::fs {

struct InlineBlock {
  std::uint64_t block = 0;
  std::vector<std::byte> bytes;  // the first ones of the block; zeros follow
};

// The inode's inline block. Errors: those of reading the tree.
Result<std::optional<InlineBlock>> read_inline(meta::Store& store, const Inode& inode)
    REQUIRES_SHARED(inode.mu);
// The same without its contents: is_known is set.
Result<InlineState> find_inline(meta::Store& store, const Inode& inode) REQUIRES_SHARED(inode.mu);
// Reads inline_state from the tree if it is not known yet.
Result<> learn_inline(meta::Store& store, Inode& inode) REQUIRES(inode.mu);

// Makes `block` the inode's inline block with these bytes, at least one. Returns the new
// inline_state, which the caller sets once the batch was applied. REQUIRES: no other block is
// inline.
InlineState put_inline(meta::Batch& batch, const Inode& inode, std::uint64_t block,
                       std::span<const std::byte> bytes) REQUIRES_SHARED(inode.mu);
// Erases the inline block, if there is one. The caller updates inline_state once the batch was
// applied.
void erase_inline(meta::Batch& batch, const Inode& inode) REQUIRES_SHARED(inode.mu);

}  // namespace lazyfs::fs
