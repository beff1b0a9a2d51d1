#include "meta/log/superblock_format.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/endian.h"

namespace lazyfs::meta {
namespace {

constexpr std::uint32_t kSuperblockMagic = 0x42535A4C;  // "LZSB" in memory order
constexpr std::uint32_t kVersion = kSuperblockFormat;
constexpr std::size_t kSuperblockCrcAt = 4, kSuperblockVersionAt = 8, kSuperblockUuidAt = 16;
constexpr std::size_t kLogBandCountAt = 92, kLabelBytesAt = 96, kLabelAt = 97, kHeadSlotAt = 160;
constexpr std::size_t kSequenceAt = 32, kNewUuidAt = 208, kRoomAt = 224, kLogBandsAt = 496;
static_assert(kRoomAt + kSuperblockRoomBytes == kLogBandsAt);
static_assert(kLabelAt + kMaxLabelBytes == kHeadSlotAt);
static_assert(kLogBandsAt + 4 * kMaxLogBands == kBlockBytes);

// Calls field(offset, number) for each field that is one number, for both directions.
void visit_superblock(auto& s, auto field) {
  field(12, s.flags);
  field(kSequenceAt, s.sequence);
  field(40, s.band_count);
  field(48, s.super_bands[0].value);
  field(52, s.super_bands[1].value);
  field(56, s.created_seconds);
  field(64, s.session);
  field(72, s.session_start_seq);
  field(80, s.durable_seq);
  field(88, s.min_log_bands);
  field(kHeadSlotAt, s.head_slot);
  field(168, s.head_rba);
  field(172, s.head_blocks);
  field(176, s.features.compat);
  field(180, s.features.ro_compat);
  field(184, s.features.incompat);
  field(188, s.mounts);
  field(192, s.last_mount_seconds);
  field(200, s.last_check_seconds);
  for (std::size_t i = 0; i < s.log_bands.size(); ++i) {
    field(kLogBandsAt + 4 * i, s.log_bands[i].value);
  }
}

bool all_zero(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; });
}

}  // namespace

void encode(const Superblock& s, std::span<std::byte, kBlockBytes> to) {
  CHECK(s.label.size() <= kMaxLabelBytes);
  CHECK(s.log_bands.size() <= kMaxLogBands);
  std::ranges::fill(to, std::byte{0});
  store_le_at(to, 0, kSuperblockMagic);
  store_le_at(to, kSuperblockVersionAt, kVersion);
  std::memcpy(to.data() + kSuperblockUuidAt, s.uuid.data(), s.uuid.size());
  store_le_at(to, kLogBandCountAt, static_cast<std::uint32_t>(s.log_bands.size()));
  store_le_at(to, kLabelBytesAt, static_cast<std::uint8_t>(s.label.size()));
  std::memcpy(to.data() + kLabelAt, s.label.data(), s.label.size());
  std::memcpy(to.data() + kNewUuidAt, s.new_uuid.data(), s.new_uuid.size());
  std::ranges::copy(s.room, to.begin() + kRoomAt);
  visit_superblock(s, [&](std::size_t at, auto number) { store_le_at(to, at, number); });
  store_le_at(to, kSuperblockCrcAt, crc32c(to.subspan(8)));
}

Result<Superblock> decode_superblock(std::span<const std::byte, kBlockBytes> from) {
  if (load_le_at<std::uint32_t>(from, 0) != kSuperblockMagic) return fail(Errc::kNoFilesystem);
  if (load_le_at<std::uint32_t>(from, kSuperblockCrcAt) != crc32c(from.subspan(8))) {
    return fail(Errc::kSuperblockBad);
  }
  const auto version = load_le_at<std::uint32_t>(from, kSuperblockVersionAt);
  if (version < kVersion) return fail(Errc::kSuperblockVersion);
  if (version > kVersion) return fail(Errc::kSuperblockNewer);
  const auto log_bands = load_le_at<std::uint32_t>(from, kLogBandCountAt);
  const auto label_bytes = load_le_at<std::uint8_t>(from, kLabelBytesAt);
  if (log_bands > kMaxLogBands || label_bytes > kMaxLabelBytes ||
      !all_zero(from.subspan(kLabelAt + label_bytes, kMaxLabelBytes - label_bytes)) ||
      !all_zero(from.subspan(kLogBandsAt + std::size_t{4} * log_bands))) {
    return fail(Errc::kSuperblockBad);
  }
  Superblock s;
  std::memcpy(s.uuid.data(), from.data() + kSuperblockUuidAt, s.uuid.size());
  s.label.assign(reinterpret_cast<const char*>(from.data() + kLabelAt), label_bytes);
  std::memcpy(s.new_uuid.data(), from.data() + kNewUuidAt, s.new_uuid.size());
  std::ranges::copy(from.subspan<kRoomAt, kSuperblockRoomBytes>(), s.room.begin());
  s.log_bands.resize(log_bands);
  visit_superblock(
      s, [&]<class T>(std::size_t at, T& number) { number = load_le_at<T>(from, at); });
  return s;
}

std::uint64_t superblock_sequence(std::span<const std::byte, kBlockBytes> from) {
  return load_le_at<std::uint64_t>(from, kSequenceAt);
}

std::uint32_t fs_tag_of(const Uuid& uuid) { return crc32c(std::as_bytes(std::span(uuid))); }

}  // namespace lazyfs::meta
