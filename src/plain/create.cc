#include "plain/create.h"

#include <algorithm>

#include "base/buffer.h"
#include "plain/identity.h"

namespace lazyfs::plain {

Result<Identity> plan_volume(std::uint64_t volume_bytes, std::uint64_t band_bytes) {
  if (band_bytes == 0 || band_bytes % kBlockBytes != 0) return fail(Errc::kBadGeometry);
  const std::uint64_t bands =
      std::min<std::uint64_t>(bands_in(volume_bytes, band_bytes), kMaxBands);
  if (bands < 2) return fail(Errc::kBadGeometry);
  Identity identity;
  identity.volume_bytes = volume_bytes;
  identity.band_bytes = band_bytes;
  identity.band_count = static_cast<std::uint32_t>(bands);
  identity.super_bands = {BandId{0}, BandId{identity.band_count - 1}};
  identity.generation = 1;
  return identity;
}

Result<> create(const std::string& path, const Identity& identity) {
  using device::Backing;
  ASSIGN_OR_RETURN(const Backing backing, Backing::open(path, false, Backing::Claim::kExclusive));
  return create(backing, identity);
}

Result<> create(const device::Backing& backing, const Identity& identity) {
  if (backing.is_zoned()) return fail(Errc::kDeviceZoned);
  ASSIGN_OR_RETURN(const std::uint64_t size, backing.size_bytes());
  if (size < identity.volume_bytes) return fail(Errc::kDeviceTruncated);
  // Past the last whole MiB, which no volume uses, another program may have left its signature.
  const AlignedBuffer zeros = AlignedBuffer::zeroed(kEndBytes);
  const std::uint64_t last = last_mib_at(identity.volume_bytes);
  TRY(backing.write(0, zeros.span()));
  TRY(backing.write(last, zeros.span()));
  const std::uint64_t rest = std::min(size - (last + kEndBytes), kEndBytes);
  TRY(backing.write(last + kEndBytes, zeros.span().first(rest)));
  TRY(backing.sync());
  return write_identity(backing, identity);
}

}  // namespace lazyfs::plain
