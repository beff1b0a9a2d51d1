// Directory entries, and the hashes of names.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "fs/item/attributes.h"
#include "fs/item/fields.h"

namespace lazyfs::fs {

// The offset of the first kDentryName item that may hold the name: XXH3 seeded with `seed`
// (name_seed_of()). A program that knows the seed can make many names with one hash. So mkfs
// chooses the seed at random, and a new directory inherits its parent's seed.
std::uint64_t name_hash(std::string_view name, std::uint64_t seed);
// The seed of directories that were made before directories had a seed of their own.
std::uint64_t seed_of(std::span<const std::uint8_t, 16> uuid);
// Names with one hash take at most this many consecutive name items (invariant N2 of NameItems).
inline constexpr std::uint64_t kMaxChainItems = 1024;

struct DentryRecord {
  InodeNo inode;
  std::uint64_t cookie = 0;
  std::uint8_t type = 0;  // (mode & S_IFMT) >> 12
  std::string name;
  friend bool operator==(const DentryRecord&, const DentryRecord&) = default;
};
template <class Fields, FieldsOf<DentryRecord> Record>
void list_fields(Fields& fields, Record& record) {
  fields("inode", record.inode);
  fields("cookie", record.cookie);
  fields("type", record.type);
  fields.text("name", record.name);
}
std::size_t encoded_bytes(const DentryRecord& entry);
// A kDentryName item holds the entries whose names share a hash, nearly always one. Entries that do
// not fit into it go to the items that follow (NameItems).
std::vector<std::byte> encode(std::span<const DentryRecord> entries);
Result<std::vector<DentryRecord>> decode_dentries(std::span<const std::byte> from);
// A kDentrySeq item holds one entry, whose cookie is the item's offset.
std::vector<std::byte> encode(const DentryRecord& entry);
Result<DentryRecord> decode_dentry(std::span<const std::byte> from);

}  // namespace lazyfs::fs
