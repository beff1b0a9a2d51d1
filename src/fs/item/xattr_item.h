// Names of extended attributes. Pieces of values are bytes only.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "fs/item/fields.h"

namespace lazyfs::fs {

// An id of an attribute is below it: the offsets of its value begin at id << 8.
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
