#include "fs/item/xattr_item.h"

#include "base/check.h"
#include "fs/item/attributes.h"

namespace lazyfs::fs {

std::vector<std::byte> encode(const XattrRecord& record) {
  CHECK(!record.name.empty() && record.name.size() <= kMaxNameBytes);
  std::vector<std::byte> bytes(5 + record.name.size());
  FieldWriter writer(bytes);
  list_fields(writer, record);
  writer.finish();
  return bytes;
}

Result<XattrRecord> decode_xattr(std::span<const std::byte> from) {
  XattrRecord record;
  if (!decode_fields(from, record) || record.name.empty() || record.value_bytes > kMaxXattrBytes) {
    return fail(Errc::kItemBad);
  }
  return record;
}

}  // namespace lazyfs::fs
