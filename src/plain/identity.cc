#include "plain/identity.h"

#include "base/buffer.h"

namespace lazyfs::plain {
namespace {

Result<Identity> read_at(const device::Backing& backing, std::uint64_t at) {
  AlignedBuffer block = AlignedBuffer::zeroed(kBlockBytes);
  ASSIGN_OR_RETURN(const std::size_t length, backing.read_some(at, block.span()));
  if (length < kBlockBytes) return fail(Errc::kIdentityMissing);
  return decode_identity(block.span().first<kBlockBytes>());
}

// A block that gives another volume size is of an earlier volume, and no copy of this one.
Result<Identity> read_copy(const device::Backing& backing, std::uint64_t volume_bytes) {
  if (volume_bytes < 2 * kEndBytes) return fail(Errc::kIdentityMissing);
  auto copy = read_at(backing, copy_at(volume_bytes));
  if (copy && last_mib_at(copy->volume_bytes) != last_mib_at(volume_bytes)) {
    return fail(Errc::kIdentityMissing);
  }
  return copy;
}

}  // namespace

Result<FoundIdentity> find_identity(const device::Backing& backing) {
  const auto first = read_at(backing, kIdentityAt);
  ASSIGN_OR_RETURN(const std::uint64_t size, backing.size_bytes());
  const auto copy = read_copy(backing, first ? first->volume_bytes : size);
  if (first) return FoundIdentity{*first, true, copy == first};
  if (copy) return FoundIdentity{*copy, false, true};
  for (const Errc error : {first.error(), copy.error()}) {
    if (error != Errc::kIdentityMissing) return fail(error);
  }
  return fail(Errc::kIdentityMissing);
}

Result<> write_identity(const device::Backing& backing, const Identity& identity) {
  AlignedBuffer block(kBlockBytes);
  encode(identity, block.span().first<kBlockBytes>());
  for (const std::uint64_t at : {copy_at(identity.volume_bytes), kIdentityAt}) {
    TRY(backing.write(at, block.span()));
    TRY(backing.sync());
  }
  return ok();
}

}  // namespace lazyfs::plain
