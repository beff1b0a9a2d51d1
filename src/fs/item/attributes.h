// What the filesystem reports about files, in its own types: no struct stat, no errno.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/types.h"

namespace lazyfs::fs {

inline constexpr InodeNo kRootInode{1};
inline constexpr std::size_t kMaxNameBytes = 255;
inline constexpr std::size_t kMaxSymlinkBytes = 4095;
inline constexpr std::size_t kMaxXattrBytes = 65536;
inline constexpr std::uint32_t kMaxLinks = (std::uint32_t{1} << 31) - 1;
inline constexpr std::uint64_t kMaxFileBytes = (std::uint64_t{1} << 63) - 1 - kBlockBytes;

struct Owner {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  friend bool operator==(const Owner&, const Owner&) = default;
};

// Flags of files and directories, as chattr(1) has them. fs/inode/protection.h says what the first
// two forbid. New files inherit the others from their directory.
inline constexpr std::uint32_t kImmutable = 1, kAppendOnly = 2, kNoDump = 4, kNoAccessTime = 8;
inline constexpr std::uint32_t kAllFlags = 15;

struct Attributes {
  InodeNo inode;
  std::uint32_t mode = 0;  // file type and permissions as in st_mode
  std::uint32_t links = 0;
  Owner owner;
  std::uint64_t rdev = 0;        // as dev_t, of device nodes
  std::uint64_t size = 0;        // bytes; directories: number of entries times a nominal 32
  std::uint64_t blocks_512 = 0;  // st_blocks: occupied, or reserved for dirty data
  Timestamp access, modification, change, birth;
  std::uint32_t generation = 1;
  std::uint32_t flags = 0;  // of kAllFlags
};

// Which attributes to set; the absent ones stay.
struct AttributeChange {
  std::optional<std::uint32_t> mode;  // permission bits (07777); the type stays
  std::optional<std::uint32_t> uid, gid;
  std::optional<std::uint64_t> size;
  std::optional<Timestamp> access, modification, change;
  // Of kAllFlags. Only regular files and directories can be immutable or append-only.
  std::optional<std::uint32_t> flags = std::nullopt;
  bool access_now = false, modification_now = false;
  bool clear_set_id = false;  // the kernel asks to drop set-user-ID and set-group-ID bits
};

// Options of Volume::punch() and zero().
struct RangeFlags {
  bool keep_size = false;     // the file does not grow
  bool clear_set_id = false;  // the caller has no right to keep set-user-ID and set-group-ID bits
};

struct WriteFlags {
  bool clear_set_id = false;  // the caller has no right to keep set-user-ID and set-group-ID bits
  // The kernel owns the times: it sets them by a request of its own. The data may have been written
  // long before it reaches the volume.
  bool keep_times = false;
};

struct RenameFlags {
  bool no_replace = false;  // kExists when the new name exists
  bool exchange = false;    // the two names change places
  // Leaves a whiteout of this owner under the old name: the character device 0,0, by which
  // overlayfs marks names of a lower layer as deleted. REQUIRES: not with exchange.
  std::optional<Owner> whiteout = std::nullopt;
};

// State of the attribute that set_xattr() requires: any, absent (else kExists), present (else
// kNoAttribute); kNever, both of the latter, is refused in each state.
enum class XattrMode : std::uint8_t { kAny, kCreate, kReplace, kNever };

struct DirectoryEntry {
  std::string name;
  InodeNo inode;
  std::uint32_t mode = 0;    // only the type bits (S_IFMT)
  std::uint64_t cookie = 0;  // read_directory(.., cookie) continues after this entry
};

struct SpaceReport {  // in blocks of kBlockBytes and in files
  std::uint64_t total_blocks = 0;
  std::uint64_t free_blocks = 0;       // root can write them
  std::uint64_t available_blocks = 0;  // any user can write them
  std::uint64_t total_files = 0;
  std::uint64_t free_files = 0;
};

}  // namespace lazyfs::fs
