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

// kInvalid: not of that form, or without one of the three entries that each list has.
Result<Acl> decode_acl(std::string_view text);
std::string encode(const Acl& acl);

// True when the mode alone says as much as the list.
bool is_minimal(const Acl& acl);
// `mode` with the permission bits that mirror the list.
std::uint32_t mode_with(std::uint32_t mode, const Acl& acl);
// The list after its file's mode was set to `mode`.
Acl with_mode(Acl acl, std::uint32_t mode);
// The list of a new file whose directory has `inherited` as its default one, when the file is asked
// for with `mode`: nothing that either denies is granted.
Acl inherited_acl(Acl inherited, std::uint32_t mode);

}  // namespace lazyfs::fs
