// The inline block of a file: the contents of one block, stored in the tree in pieces.
#pragma once

#include <cstdint>

#include "base/types.h"
#include "fs/item/keys.h"
#include "meta/tree/key.h"

namespace lazyfs::fs {

inline constexpr std::size_t kInlinePieceBytes = meta::kMaxValueBytes;
inline constexpr std::uint64_t kInlinePieces = kBlockBytes / kInlinePieceBytes;  // of a block
static_assert(kInlinePieces * kInlinePieceBytes == kBlockBytes);

// The key of piece `piece` of the file's block `block`: its bytes from piece * kInlinePieceBytes
// on. A piece may be short or absent: the bytes that it lacks are zeros.
constexpr meta::Key inline_key(InodeNo inode, std::uint64_t block, std::uint64_t piece = 0) {
  return key_of(inode, Kind::kInline, block * kInlinePieces + piece);
}
constexpr std::uint64_t inline_block(const meta::Key& key) { return key.offset / kInlinePieces; }
constexpr std::uint64_t inline_piece(const meta::Key& key) { return key.offset % kInlinePieces; }

}  // namespace lazyfs::fs
