// POSIX access control lists, as the kernel gives and takes them in the extended attributes
// "system.posix_acl_access" and "system.posix_acl_default". Pure.
//
//   offset size field
//        0    4 version      2
//        4    8 each         entries: tag u16, permissions u16 (rwx), id u32 (of kUser and kGroup)
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lazyfs::fs {

inline constexpr std::string_view kAccessAcl = "system.posix_acl_access";
inline constexpr std::string_view kDefaultAcl = "system.posix_acl_default";

enum class AclTag : std::uint16_t {
  kUserObject = 0x01,
  kUser = 0x02,
  kGroupObject = 0x04,
  kGroup = 0x08,
  kMask = 0x10,
  kOther = 0x20,
};

struct AclEntry {
  AclTag tag = AclTag::kOther;
  std::uint16_t permissions = 0;
  std::uint32_t id = 0xFFFFFFFF;
  friend bool operator==(const AclEntry&, const AclEntry&) = default;
};

// The mode's nine permission bits mirror a list: the owner's and the others' entries, and the mask
// or, where there is none, the owning group's entry.
using Acl = std::vector<AclEntry>;

// kInvalid: the text has another form, an entry of the owner, the group or the others is missing or
// there twice, or users or groups are named without a mask.
Result<Acl> decode_acl(std::string_view text);
std::string encode(const Acl& acl);

// True: the list has only the three entries that the mode holds too.
bool is_minimal(const Acl& acl);
// `mode` with the permission bits that mirror the list.
std::uint32_t mode_with(std::uint32_t mode, const Acl& acl);
// The list after its file's mode was set to `mode`.
Acl with_mode(Acl acl, std::uint32_t mode);
// The list of a new file made with `mode` in a directory whose default list is `inherited`. It
// grants only what both grant.
Acl inherited_acl(Acl inherited, std::uint32_t mode);

}  // namespace lazyfs::fs
