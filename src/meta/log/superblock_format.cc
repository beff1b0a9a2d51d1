#include "meta/log/superblock_format.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/endian.h"

namespace lazyfs::meta {
namespace {

constexpr std::uint32_t kMagic = 0x42535A4C;  // "LZSB" in memory order
// 2: a log without cold bands; 3: no blocks that files share.
constexpr std::uint32_t kVersion = 4, kOldestVersion = 2;
constexpr std::size_t kCrcAt = 4, kVersionAt = 8, kReservedAt = 12, kUuidAt = 16, kSequenceAt = 32;
constexpr std::size_t kBandCountAt = 40, kSuperBandsAt = 48, kCreatedAt = 56, kSessionAt = 64;
constexpr std::size_t kSessionStartAt = 72, kDurableAt = 80, kMinLogBandsAt = 88;
constexpr std::size_t kLogBandCountAt = 92, kLabelBytesAt = 96, kLabelAt = 97, kHeadSlotAt = 160;
constexpr std::size_t kHeadRbaAt = 168, kHeadBlocksAt = 172, kLogBandsAt = 176;
static_assert(kLabelAt + kMaxLabelBytes == kHeadSlotAt);
static_assert(kLogBandsAt + 4 * kMaxLogBands == kBlockBytes);

bool all_zero(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; });
}

}  // namespace

void encode(const Superblock& s, std::span<std::byte, kBlockBytes> to) {
  CHECK(s.label.size() <= kMaxLabelBytes);
  CHECK(s.log_bands.size() <= kMaxLogBands);
  std::ranges::fill(to, std::byte{0});
  store_le_at(to, 0, kMagic);
  store_le_at(to, kVersionAt, kVersion);
  std::memcpy(to.data() + kUuidAt, s.uuid.data(), s.uuid.size());
  store_le_at(to, kSequenceAt, s.sequence);
  store_le_at(to, kBandCountAt, s.band_count);
  store_le_at(to, kSuperBandsAt, s.super_bands[0].value);
  store_le_at(to, kSuperBandsAt + 4, s.super_bands[1].value);
  store_le_at(to, kCreatedAt, s.created_seconds);
  store_le_at(to, kSessionAt, s.session);
  store_le_at(to, kSessionStartAt, s.session_start_seq);
  store_le_at(to, kDurableAt, s.durable_seq);
  store_le_at(to, kMinLogBandsAt, s.min_log_bands);
  store_le_at(to, kHeadSlotAt, s.head_slot);
  store_le_at(to, kHeadRbaAt, s.head_rba);
  store_le_at(to, kHeadBlocksAt, s.head_blocks);
  store_le_at(to, kLogBandCountAt, static_cast<std::uint32_t>(s.log_bands.size()));
  store_le_at(to, kLabelBytesAt, static_cast<std::uint8_t>(s.label.size()));
  std::memcpy(to.data() + kLabelAt, s.label.data(), s.label.size());
  for (std::size_t i = 0; i < s.log_bands.size(); ++i) {
    store_le_at(to, kLogBandsAt + 4 * i, s.log_bands[i].value);
  }
  store_le_at(to, kCrcAt, crc32c(to.subspan(8)));
}

Result<Superblock> decode_superblock(std::span<const std::byte, kBlockBytes> from) {
  if (load_le_at<std::uint32_t>(from, 0) != kMagic) return fail(Errc::kNoFilesystem);
  if (load_le_at<std::uint32_t>(from, kCrcAt) != crc32c(from.subspan(8))) {
    return fail(Errc::kSuperblockBad);
  }
  const auto version = load_le_at<std::uint32_t>(from, kVersionAt);
  if (version < kOldestVersion || version > kVersion) {
    return fail(Errc::kSuperblockVersion);
  }
  const auto log_bands = load_le_at<std::uint32_t>(from, kLogBandCountAt);
  const auto label_bytes = load_le_at<std::uint8_t>(from, kLabelBytesAt);
  if (log_bands > kMaxLogBands || label_bytes > kMaxLabelBytes ||
      load_le_at<std::uint32_t>(from, kReservedAt) != 0 ||
      !all_zero(from.subspan(kLabelAt + label_bytes, kMaxLabelBytes - label_bytes)) ||
      !all_zero(from.subspan(kLogBandsAt + std::size_t{4} * log_bands))) {
    return fail(Errc::kSuperblockBad);
  }
  Superblock s;
  std::memcpy(s.uuid.data(), from.data() + kUuidAt, s.uuid.size());
  s.label.assign(reinterpret_cast<const char*>(from.data() + kLabelAt), label_bytes);
  s.sequence = load_le_at<std::uint64_t>(from, kSequenceAt);
  s.band_count = load_le_at<std::uint64_t>(from, kBandCountAt);
  s.super_bands[0].value = load_le_at<std::uint32_t>(from, kSuperBandsAt);
  s.super_bands[1].value = load_le_at<std::uint32_t>(from, kSuperBandsAt + 4);
  s.created_seconds = load_le_at<std::uint64_t>(from, kCreatedAt);
  s.session = load_le_at<std::uint64_t>(from, kSessionAt);
  s.session_start_seq = load_le_at<std::uint64_t>(from, kSessionStartAt);
  s.durable_seq = load_le_at<std::uint64_t>(from, kDurableAt);
  s.head_slot = load_le_at<std::uint64_t>(from, kHeadSlotAt);
  s.head_rba = load_le_at<std::uint32_t>(from, kHeadRbaAt);
  s.head_blocks = load_le_at<std::uint32_t>(from, kHeadBlocksAt);
  s.min_log_bands = load_le_at<std::uint32_t>(from, kMinLogBandsAt);
  for (std::size_t i = 0; i < log_bands; ++i) {
    s.log_bands.push_back(BandId{load_le_at<std::uint32_t>(from, kLogBandsAt + 4 * i)});
  }
  return s;
}

std::uint32_t fs_tag_of(const Uuid& uuid) { return crc32c(std::as_bytes(std::span(uuid))); }

}  // namespace lazyfs::meta
