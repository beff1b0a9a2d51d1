// Directory entries as items: each is under its name's hash and under its cookie.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "fs/namespace/name_items.h"
#include "fsck/context.h"

namespace lazyfs::fsck {

// No directory ever gives out a higher cookie, and adding 1 to it cannot overflow.
inline constexpr std::uint64_t kMaxCookie = std::uint64_t{1} << 62;

// The entry of that name.
std::optional<DentryRecord> find_name(Context& context, const DirectoryNames& names,
                                      std::string_view name);
std::optional<DentryRecord> find_name(Context& context, InodeNo directory, std::string_view name);

// The changes of a repair. The directory's counters are corrected by a later pass.

// Returns a cookie that no entry of the directory has, not below `next`.
std::uint64_t free_cookie(Context& context, InodeNo directory, std::uint64_t next);
// Puts an entry among the names. REQUIRES: no entry has its name.
void put_name(Context& context, const DirectoryNames& names, const DentryRecord& entry);
// Writes the entry to both its places, over one of the same name.
void put_entry(Context& context, InodeNo directory, const DentryRecord& entry);
void erase_entry(Context& context, InodeNo directory, const DentryRecord& entry);
// Adds a name with a free cookie.
void add_name(Context& context, InodeNo directory, std::string name, InodeNo inode,
              std::uint8_t type);

}  // namespace lazyfs::fsck
