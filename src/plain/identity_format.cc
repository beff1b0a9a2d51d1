#include "plain/identity_format.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/endian.h"

namespace lazyfs::plain {
namespace {

constexpr std::array<unsigned char, 8> kMagic = {'L', 'A', 'Z', 'Y', 'F', 'S', 0, 1};
constexpr std::size_t kCrcAt = 8, kCoveredAt = 12, kUuidAt = 32, kLabelAt = 48, kRoomAt = 160;
static_assert(kLabelAt + kMaxLabelBytes + 1 == 112);
static_assert(kRoomAt + sizeof(Identity::room) == kBlockBytes);

// Calls field(offset, number) for each field that is one number, for both directions.
void visit_numbers(auto& identity, auto field) {
  field(12, identity.compat);
  field(16, identity.ro_compat);
  field(20, identity.incompat);
  field(24, identity.block_bytes);
  field(112, identity.volume_bytes);
  field(120, identity.band_bytes);
  field(128, identity.band_count);
  field(132, identity.super_bands[0].value);
  field(136, identity.super_bands[1].value);
  field(144, identity.created_seconds);
  field(152, identity.generation);
}

// Calls field(offset, bytes) for each run of room, for both directions.
void visit_room(auto& identity, auto field) {
  field(28, std::span(identity.room_after_block_bytes));
  field(140, std::span(identity.room_after_super_bands));
  field(kRoomAt, std::span(identity.room));
}

bool is_possible(const Identity& identity) {
  const std::uint64_t block = identity.block_bytes, band = identity.band_bytes;
  if (block < 512 || block > 65536 || !std::has_single_bit(block)) return false;
  if (band < block || band % block != 0 || band / block > UINT32_MAX) return false;
  const std::uint64_t bands_max = bands_in(identity.volume_bytes, band);
  if (identity.band_count > std::min<std::uint64_t>(bands_max, kMaxBands)) return false;
  return identity.super_bands[0] != identity.super_bands[1] &&
         std::ranges::max(identity.super_bands).value < identity.band_count &&
         identity.generation > 0;
}

}  // namespace

void encode(const Identity& identity, std::span<std::byte, kBlockBytes> to) {
  CHECK(identity.label.size() <= kMaxLabelBytes);
  CHECK(!identity.label.contains('\0'));
  std::ranges::fill(to, std::byte{0});
  std::memcpy(to.data(), kMagic.data(), kMagic.size());
  std::memcpy(to.data() + kUuidAt, identity.uuid.data(), identity.uuid.size());
  std::memcpy(to.data() + kLabelAt, identity.label.data(), identity.label.size());
  visit_numbers(identity, [&](std::size_t at, auto number) { store_le_at(to, at, number); });
  visit_room(identity, [&](std::size_t at, std::span<const std::byte> bytes) {
    std::ranges::copy(bytes, to.begin() + static_cast<std::ptrdiff_t>(at));
  });
  store_le_at(to, kCrcAt, crc32c(to.subspan(kCoveredAt)));
}

Result<Identity> decode_identity(std::span<const std::byte, kBlockBytes> from) {
  if (std::memcmp(from.data(), kMagic.data(), kMagic.size()) != 0) {
    return fail(Errc::kIdentityMissing);
  }
  if (load_le_at<std::uint32_t>(from, kCrcAt) != crc32c(from.subspan(kCoveredAt))) {
    return fail(Errc::kIdentityBad);
  }
  Identity identity;
  visit_numbers(identity,
                [&]<class T>(std::size_t at, T& number) { number = load_le_at<T>(from, at); });
  visit_room(identity, [&](std::size_t at, std::span<std::byte> bytes) {
    std::ranges::copy(from.subspan(at, bytes.size()), bytes.begin());
  });
  std::memcpy(identity.uuid.data(), from.data() + kUuidAt, identity.uuid.size());
  const auto label = from.subspan(kLabelAt, kMaxLabelBytes + 1);
  const auto end = std::ranges::find(label, std::byte{0});
  if (std::ranges::any_of(end, label.end(), [](std::byte b) { return b != std::byte{0}; }) ||
      end == label.end() || !is_possible(identity)) {
    return fail(Errc::kIdentityBad);
  }
  identity.label.assign(reinterpret_cast<const char*>(label.data()),
                        static_cast<std::size_t>(end - label.begin()));
  return identity;
}

}  // namespace lazyfs::plain
