// Names of extended attributes. (A piece of a value is plain bytes, without a codec.)
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "fs/item/fields.h"

namespace lazyfs::fs {

// Ids of attributes are below it, because the offsets of a value's pieces begin at id << 8.
inline constexpr std::uint64_t kXattrIdEnd = std::uint64_t{1} << 56;
struct XattrRecord {
  std::uint32_t value_bytes = 0;
  std::string name;
  friend bool operator==(const XattrRecord&, const XattrRecord&) = default;
};
template <class Fields, FieldsOf<XattrRecord> Record>
void list_fields(Fields& fields, Record& record) {
  fields("value length", record.value_bytes);
  fields.text("name", record.name);
}
std::vector<std::byte> encode(const XattrRecord& record);
Result<XattrRecord> decode_xattr(std::span<const std::byte> from);

}  // namespace lazyfs::fs
