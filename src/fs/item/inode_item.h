// The inode item.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/clock.h"
#include "base/result.h"
#include "base/types.h"
#include "fs/item/attributes.h"
#include "fs/item/fields.h"

namespace lazyfs::fs {

inline constexpr std::size_t kInodeBytes = 144;

// The mode of a *shared-extent inode*, which has no name and no type, and owns blocks that several
// files refer to (ReferenceRecord). Its link count is 1, so that it is not deleted for lack of a
// name. It is deleted with its last block.
inline constexpr std::uint32_t kSharedMode = 0;

// In InodeRecord::flags: blocks of the file have been shared with another file, or with another
// place in it. How many blocks its deletion frees is then not known before the deletion. Never
// cleared. An older lazyfs does not set it.
inline constexpr std::uint32_t kHasShared = std::uint32_t{1} << 31;

struct InodeRecord {
  std::uint32_t mode = 0;
  std::uint32_t links = 0;
  Owner owner;
  std::uint64_t size = 0;
  std::uint64_t blocks = 0;  // data blocks that extents and references map
  std::uint64_t rdev = 0;
  Timestamp access, modification, change, birth;
  InodeNo parent;                 // directories: the directory it is in (the root's: itself)
  std::uint64_t next_cookie = 1;  // directories: the cookie of the next entry
  std::uint64_t entries = 0;      // directories: entries but "." and ".."
  std::uint32_t generation = 1;
  std::uint32_t xattrs = 0;  // number of extended attributes
  std::uint64_t name_seed = 0;  // directories: of name hashes; 0: seed_of() the volume's UUID
  std::uint32_t flags = 0;  // kImmutable..., kHasShared; other bits are kept
  std::uint32_t project = 0;
  std::array<std::byte, 8> room{};
  friend bool operator==(const InodeRecord&, const InodeRecord&) = default;
};
template <class Fields, FieldsOf<InodeRecord> Record>
void list_fields(Fields& fields, Record& record) {
  fields("mode", record.mode);
  fields("links", record.links);
  fields("uid", record.owner.uid);
  fields("gid", record.owner.gid);
  fields("size", record.size);
  fields("data blocks", record.blocks);
  fields("device number", record.rdev);
  fields("access time", record.access);
  fields("modification time", record.modification);
  fields("change time", record.change);
  fields("birth time", record.birth);
  fields("parent", record.parent);
  fields("next cookie", record.next_cookie);
  fields("entries", record.entries);
  fields("generation", record.generation);
  fields("number of extended attributes", record.xattrs);
  fields("seed of the name hashes", record.name_seed);
  fields("flags", record.flags);
  fields("project", record.project);
  fields.room(record.room);
}
std::array<std::byte, kInodeBytes> encode(const InodeRecord& record);
// The most bytes that an inode of the mode may have. A shared-extent inode's end is that of its
// last block, which a file need not fill.
constexpr std::uint64_t largest_size(std::uint32_t mode) {
  return mode == kSharedMode ? blocks_for(kMaxFileBytes) * kBlockBytes : kMaxFileBytes;
}
Result<InodeRecord> decode_inode(std::span<const std::byte> from);
constexpr std::uint64_t name_seed_of(const InodeRecord& directory, std::uint64_t volume_seed) {
  return directory.name_seed != 0 ? directory.name_seed : volume_seed;
}

}  // namespace lazyfs::fs
