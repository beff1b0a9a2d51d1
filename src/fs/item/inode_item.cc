#include "fs/item/inode_item.h"

namespace lazyfs::fs {

std::array<std::byte, kInodeBytes> encode(const InodeRecord& record) {
  return encode_fields<kInodeBytes>(record);
}

Result<InodeRecord> decode_inode(std::span<const std::byte> from) {
  InodeRecord record;
  if (!decode_fields(from, record)) return fail(Errc::kItemBad);
  const std::uint32_t type = record.mode >> 12;
  const bool known = record.mode == kSharedMode || type == 1 || type == 2 || type == 4 ||
                     type == 6 || type == 8 || type == 10 || type == 12;
  if (!known || record.mode > 0xFFFF || record.size > largest_size(record.mode)) {
    return fail(Errc::kItemBad);
  }
  return record;
}

}  // namespace lazyfs::fs
