// Checks before a change of the contents of a file that may be immutable or append-only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "fs/file/file_reader.h"
#include "fs/inode/inode.h"

namespace lazyfs::fs {

// Whether `from` may be written: never into an immutable file; into an append-only file if it
// changes no existing byte except zeros. A zero may be a byte that has not been written yet,
// because the kernel sends the pages of its cache in any order, and each page as a whole.
// kNotPermitted, and the errors of reading. REQUIRES: no other thread writes the same range until
// this one has (the kernel's locks of files and pages see to that).
Result<> check_write(FileReader& reader, Inode& inode, std::uint64_t offset,
                     std::span<const std::byte> from) EXCLUDES(inode.mu);

// Whether contents may change in other ways. kNotPermitted.
Result<> check_contents(const Inode& inode) EXCLUDES(inode.mu);

}  // namespace lazyfs::fs
