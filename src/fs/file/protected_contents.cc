#include "fs/file/protected_contents.h"

#include <algorithm>

#include "base/buffer.h"
#include "fs/inode/protection.h"

namespace lazyfs::fs {
namespace {

constexpr std::size_t kComparedBytes = std::size_t{1} << 20;  // at once

bool is_kept(std::byte stored, std::byte written) {
  return stored == written || stored == std::byte{0};
}

Result<> check_append(FileReader& reader, Inode& inode, std::uint64_t offset,
                      std::span<const std::byte> from) {
  AlignedBuffer stored(blocks_for(std::min(from.size(), kComparedBytes)) * kBlockBytes);
  while (!from.empty()) {
    const auto to = stored.span().first(std::min(from.size(), stored.size()));
    ASSIGN_OR_RETURN(const std::size_t got, reader.read(inode, offset, to));
    if (!std::ranges::equal(to.first(got), from.first(got), is_kept)) {
      return fail(Errc::kNotPermitted);
    }
    if (got < to.size()) return ok();  // the end of the file
    offset += got;
    from = from.subspan(got);
  }
  return ok();
}

}  // namespace

Result<> check_write(FileReader& reader, Inode& inode, std::uint64_t offset,
                     std::span<const std::byte> from) {
  std::uint32_t flags = 0;
  {
    ReaderLock lock(inode.mu);
    flags = inode.record.flags;
  }
  if ((flags & kImmutable) != 0) return fail(Errc::kNotPermitted);
  return (flags & kAppendOnly) != 0 ? check_append(reader, inode, offset, from) : ok();
}

Result<> check_contents(const Inode& inode) {
  ReaderLock lock(inode.mu);
  return check_unprotected(inode.record);
}

}  // namespace lazyfs::fs
