#include "fs/file/inline_block.h"

#include <algorithm>

#include "base/check.h"

namespace lazyfs::fs {
namespace {

bool is_zero(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; });
}

}  // namespace

Result<std::optional<InlineBlock>> read_inline(meta::Store& store, const Inode& inode) {
  if (inode.inline_state.is_known && inode.inline_state.bytes == 0) return std::nullopt;
  ASSIGN_OR_RETURN(const auto pieces,
                   store.scan(key_of(inode.no, Kind::kInline),
                              key_of(inode.no, Kind::kInline, meta::kMaxOffset), kInlinePieces));
  if (pieces.empty()) return std::nullopt;
  InlineBlock found{inline_block(pieces.front().key), {}};
  for (const meta::Item& piece : pieces) {
    if (inline_block(piece.key) != found.block) break;  // fsck reports the others
    const auto bytes = meta::bytes_of(piece.value);
    found.bytes.resize(inline_piece(piece.key) * kInlinePieceBytes + bytes.size());
    std::ranges::copy(bytes, found.bytes.end() - static_cast<std::ptrdiff_t>(bytes.size()));
  }
  return found;
}

Result<InlineState> find_inline(meta::Store& store, const Inode& inode) {
  if (inode.inline_state.is_known) return inode.inline_state;
  ASSIGN_OR_RETURN(const auto found, read_inline(store, inode));
  if (!found) return InlineState{.is_known = true};
  return InlineState{true, found->block, static_cast<std::uint32_t>(found->bytes.size())};
}

Result<> learn_inline(meta::Store& store, Inode& inode) {
  ASSIGN_OR_RETURN(inode.inline_state, find_inline(store, inode));
  return ok();
}

InlineState put_inline(meta::Batch& batch, const Inode& inode, std::uint64_t block,
                       std::span<const std::byte> bytes) {
  CHECK(!bytes.empty() && bytes.size() <= kBlockBytes);
  const InlineState& before = inode.inline_state;
  CHECK(before.is_known);
  InlineState after{.is_known = true, .block = block};
  for (std::uint64_t piece = 0; piece < kInlinePieces; ++piece) {
    const std::size_t at = std::min<std::size_t>(piece * kInlinePieceBytes, bytes.size());
    const auto part = bytes.subspan(at, std::min(kInlinePieceBytes, bytes.size() - at));
    if (piece == 0 || !is_zero(part)) {
      batch.put(inline_key(inode.no, block, piece), part);
      after.bytes = static_cast<std::uint32_t>(at + part.size());
    } else if (piece * kInlinePieceBytes < before.bytes) {
      batch.erase(inline_key(inode.no, block, piece));
    }
  }
  return after;
}

void erase_inline(meta::Batch& batch, const Inode& inode) {
  CHECK(inode.inline_state.is_known);
  for (std::uint64_t piece = 0; piece * kInlinePieceBytes < inode.inline_state.bytes; ++piece) {
    batch.erase(inline_key(inode.no, inode.inline_state.block, piece));
  }
}

}  // namespace lazyfs::fs
