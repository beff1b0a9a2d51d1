#include "fs/item/dentry_item.h"

#include <xxhash.h>

#include "base/check.h"
#include "fs/item/keys.h"

namespace lazyfs::fs {
namespace {

constexpr std::size_t kDentryHeaderBytes = 18;  // before the name

bool is_valid(const DentryRecord& entry) {
  return entry.inode.value >= 1 && entry.inode.value <= kMaxInode && entry.cookie >= 1 &&
         entry.type <= 15 && !entry.name.empty() && entry.name != "." && entry.name != ".." &&
         entry.name.find('/') == std::string::npos && entry.name.find('\0') == std::string::npos;
}

}  // namespace

std::uint64_t name_hash(std::string_view name, std::uint64_t seed) {
  return XXH3_64bits_withSeed(name.data(), name.size(), seed);
}

std::uint64_t seed_of(std::span<const std::uint8_t, 16> uuid) {
  return XXH3_64bits(uuid.data(), uuid.size());
}

std::size_t encoded_bytes(const DentryRecord& entry) {
  return kDentryHeaderBytes + entry.name.size();
}

std::vector<std::byte> encode(std::span<const DentryRecord> entries) {
  std::size_t size = 0;
  for (const DentryRecord& entry : entries) size += encoded_bytes(entry);
  std::vector<std::byte> bytes(size);
  FieldWriter writer(bytes);
  for (const DentryRecord& entry : entries) {
    CHECK(!entry.name.empty() && entry.name.size() <= kMaxNameBytes);
    list_fields(writer, entry);
  }
  writer.finish();
  return bytes;
}

Result<std::vector<DentryRecord>> decode_dentries(std::span<const std::byte> from) {
  FieldReader reader(from);
  std::vector<DentryRecord> entries;
  while (!reader.at_end()) {
    list_fields(reader, entries.emplace_back());
    if (!reader.good() || !is_valid(entries.back())) return fail(Errc::kItemBad);
  }
  if (entries.empty()) return fail(Errc::kItemBad);
  return entries;
}

std::vector<std::byte> encode(const DentryRecord& entry) { return encode(std::span(&entry, 1)); }

Result<DentryRecord> decode_dentry(std::span<const std::byte> from) {
  DentryRecord entry;
  if (!decode_fields(from, entry) || !is_valid(entry)) return fail(Errc::kItemBad);
  return entry;
}

}  // namespace lazyfs::fs
