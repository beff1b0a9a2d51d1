#include "fsck/inline_items.h"

namespace lazyfs::fsck {
namespace {

std::uint64_t offset_of(const meta::Item& piece) {
  return inline_block(piece.key) * kBlockBytes + inline_piece(piece.key) * kInlinePieceBytes;
}

}  // namespace

void InlineItems::begin(InodeNo inode) {
  no_ = inode;
  has_pieces_ = is_mapped_ = false;
}

void InlineItems::item(const meta::Item& item) {
  const std::uint64_t block = inline_block(item.key);
  if (item.value.empty() || block >= blocks_for(kMaxFileBytes)) return c_.bad_item(item.key);
  if (has_pieces_ && block != block_) {  // readers see the first one
    if (c_.finding(Action::kRemove, "Inode {} has inline data of block {} besides that of block {}",
                   no_.value, block, block_)) {
      c_.erase(item.key);
    }
    return;
  }
  has_pieces_ = true;
  block_ = block;
  end_ = offset_of(item) + item.value.size();
}

void InlineItems::extent(const meta::Item& item) {
  if (!has_pieces_ || item.key.offset > block_) return;
  const auto record = decode_map_record(item.value);
  is_mapped_ |= record && block_ - item.key.offset < blocks_of(*record);
}

void InlineItems::end_place() {
  if (!has_pieces_ || !is_mapped_) return;
  if (!c_.finding(Action::kRemove, "Inode {} has both inline data and an extent for its block {}",
                  no_.value, block_)) {
    return;
  }
  erase(c_, no_, block_, 1);  // readers see the extent
  has_pieces_ = false;
}

void InlineItems::end_size(std::uint64_t file_bytes) {
  if (!has_pieces_ || end_ <= file_bytes) return;
  if (c_.finding(Action::kTruncate, "Inode {} has {} bytes, but inline data up to byte {}",
                 no_.value, file_bytes, end_)) {
    cut(file_bytes);
  }
}

void InlineItems::cut(std::uint64_t file_bytes) {
  c_.visit(inline_key(no_, block_), inline_key(no_, block_, kInlinePieces - 1), "",
           [&](const meta::Item& item) {
             const std::uint64_t offset = offset_of(item);
             if (offset >= file_bytes) return c_.erase(item.key);
             const std::uint64_t left = file_bytes - offset;
             if (left >= item.value.size()) return;
             c_.put(item.key, meta::bytes_of(item.value).first(left));
           });
}

std::uint64_t InlineItems::end_of(Context& context, InodeNo inode) {
  const auto last = context.store.last_in(
      key_of(inode, Kind::kInline), inline_key(inode, blocks_for(kMaxFileBytes) - 1,
                                               kInlinePieces - 1));
  if (!last) context.fail_with(last.error());
  return last && *last ? offset_of(**last) + (**last).value.size() : 0;
}

void InlineItems::erase(Context& context, InodeNo inode, std::uint64_t first,
                        std::uint64_t count) {
  context.visit(inline_key(inode, first), inline_key(inode, first + count - 1, kInlinePieces - 1),
                "", [&](const meta::Item& item) { context.erase(item.key); });
}

}  // namespace lazyfs::fsck
