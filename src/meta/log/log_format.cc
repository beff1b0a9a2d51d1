#include "meta/log/log_format.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/endian.h"

namespace lazyfs::meta {
namespace {

constexpr std::uint32_t kBandHeaderMagic = 0x48425A4C;  // "LZBH" in memory order
constexpr std::uint32_t kDescriptorMagic = 0x45445A4C;  // "LZDE"
constexpr std::uint32_t kCopyMagic = 0x43445A4C;        // "LZDC"
constexpr std::uint32_t kCommitMagic = 0x4D435A4C;      // "LZCM"
constexpr std::size_t kCrcAt = 4, kCoveredAt = 8, kUuidAt = 8, kSessionAt = 24, kSlotAt = 32;
constexpr std::size_t kRbaAt = 40, kVersionAt = 44, kBodyAt = 48;
constexpr std::size_t kEntryCountAt = 120, kDescriptorsCrcAt = 128;
constexpr std::size_t kEntriesAt = 144, kEntryBytes = 16;
static_assert(kEntriesAt + kEntryBytes * kEntriesPerDescriptor == kBlockBytes);

std::uint32_t magic_of(DescriptorRole role) {
  switch (role) {
    case DescriptorRole::kFront: return kDescriptorMagic;
    case DescriptorRole::kCopy: return kCopyMagic;
    case DescriptorRole::kCommit: return kCommitMagic;
  }
  return 0;
}

std::uint32_t u32(ConstBlockBytes from, std::size_t at) {
  return load_le_at<std::uint32_t>(from, at);
}
std::uint64_t u64(ConstBlockBytes from, std::size_t at) {
  return load_le_at<std::uint64_t>(from, at);
}

// Calls field(offset, number) for each number in front of the entries, for both directions.
void visit_descriptor(auto& d, auto field) {
  field(48, d.seq.value);
  field(56, d.next_node.value);
  field(64, d.previous.address.slot);
  field(72, d.previous.address.seq.value);
  field(80, d.previous.address.rba);
  field(84, d.tail.rba);
  field(88, d.tail.slot);
  field(96, d.tail.seq.value);
  field(104, d.part);
  field(108, d.descriptors);
  field(112, d.block);
  field(116, d.images);
  field(124, d.previous.blocks);
}

void begin(std::uint32_t magic, const BlockStamp& stamp, BlockBytes to) {
  std::ranges::fill(to, std::byte{0});
  store_le_at(to, 0, magic);
  std::memcpy(to.data() + kUuidAt, stamp.uuid.data(), stamp.uuid.size());
  store_le_at(to, kSessionAt, stamp.session);
  store_le_at(to, kSlotAt, stamp.slot);
  store_le_at(to, kRbaAt, stamp.rba);
  store_le_at(to, kVersionAt, stamp.version);
}

void seal(BlockBytes to) { store_le_at(to, kCrcAt, crc32c(to.subspan(kCoveredAt))); }

// Whether magic, checksum and version are right.
bool is_sound(std::uint32_t magic, ConstBlockBytes from) {
  return u32(from, 0) == magic && u32(from, kVersionAt) >= kOldestLogVersion &&
         u32(from, kVersionAt) <= kLogVersion &&
         u32(from, kCrcAt) == crc32c(from.subspan(kCoveredAt));
}

bool is_zero(std::span<const std::byte> bytes) {
  return bytes.empty() || (bytes[0] == std::byte{0} &&
                           std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

std::uint32_t highest_kind(std::uint32_t version) {
  if (version < 4) return static_cast<std::uint32_t>(EntryKind::kColdNode);
  return static_cast<std::uint32_t>(version < 5 ? EntryKind::kEarlier : EntryKind::kData);
}

BlockStamp stamp_of(ConstBlockBytes from) {
  BlockStamp stamp{.session = u64(from, kSessionAt),
                   .slot = u64(from, kSlotAt),
                   .rba = u32(from, kRbaAt),
                   .version = u32(from, kVersionAt)};
  std::memcpy(stamp.uuid.data(), from.data() + kUuidAt, stamp.uuid.size());
  return stamp;
}

}  // namespace

void encode(const BandHeader& header, BlockBytes to) {
  begin(kBandHeaderMagic, header.stamp, to);
  store_le_at(to, kBodyAt, header.band.value);
  store_le_at(to, kBodyAt + 4, header.blocks);
  store_le_at(to, kBodyAt + 8, std::uint32_t{header.is_cold});
  seal(to);
}

void encode(const Descriptor& d, DescriptorRole role, BlockBytes to) {
  CHECK(d.entries.size() <= kEntriesPerDescriptor);
  begin(magic_of(role), d.stamp, to);
  visit_descriptor(d, [&](std::size_t at, auto number) { store_le_at(to, at, number); });
  store_le_at(to, kEntryCountAt, static_cast<std::uint32_t>(d.entries.size()));
  if (role == DescriptorRole::kCommit) store_le_at(to, kDescriptorsCrcAt, d.descriptors_crc);
  std::size_t at = kEntriesAt;
  for (const DescriptorEntry& entry : d.entries) {
    store_le_at(to, at, entry.number);
    store_le_at(to, at + 8, entry.crc);
    store_le_at(to, at + 12, static_cast<std::uint32_t>(entry.kind) | entry.blocks << 8);
    at += kEntryBytes;
  }
  seal(to);
}

Result<BandHeader> decode_band_header(ConstBlockBytes from) {
  if (!is_sound(kBandHeaderMagic, from) || u32(from, kBodyAt + 8) > 1) {
    return fail(Errc::kLogBandHeaderBad);
  }
  const BandHeader header{stamp_of(from), BandId{u32(from, kBodyAt)}, u32(from, kBodyAt + 4),
                          u32(from, kBodyAt + 8) == 1};
  if (header.stamp.rba != 0) return fail(Errc::kLogBandHeaderBad);
  return header;
}

Result<Descriptor> decode_descriptor(DescriptorRole role, ConstBlockBytes from) {
  const bool is_commit = role == DescriptorRole::kCommit;
  const auto bad = [&] { return fail(is_commit ? Errc::kLogTorn : Errc::kLogDescriptorBad); };
  if (!is_sound(magic_of(role), from)) return bad();
  Descriptor d{.stamp = stamp_of(from), .descriptors_crc = u32(from, kDescriptorsCrcAt)};
  visit_descriptor(
      d, [&]<class T>(std::size_t at, T& number) { number = load_le_at<T>(from, at); });
  const std::uint32_t entries = u32(from, kEntryCountAt);
  const std::uint64_t before_it =
      role == DescriptorRole::kFront ? 0 : std::uint64_t{d.descriptors} + d.images;
  const bool right = d.seq.value != 0 && entries <= kEntriesPerDescriptor &&
                     d.block < d.descriptors && (!is_commit || d.block + 1 == d.descriptors) &&
                     d.block + before_it < d.stamp.rba && (is_commit || d.descriptors_crc == 0) &&
                     is_zero(from.subspan(kEntriesAt + kEntryBytes * entries));
  if (!right) return bad();
  d.entries.reserve(entries);
  for (std::size_t at = kEntriesAt; d.entries.size() < entries; at += kEntryBytes) {
    const std::uint32_t word = u32(from, at + 12), kind = word & 0xFF;
    const DescriptorEntry entry{u64(from, at), u32(from, at + 8), static_cast<EntryKind>(kind),
                                word >> 8};
    if (kind < 1 || kind > highest_kind(d.stamp.version)) return bad();
    if ((entry.kind == EntryKind::kData) != (entry.blocks > 0)) return bad();
    const bool of_node = entry.kind == EntryKind::kImage || entry.kind == EntryKind::kFreed ||
                         entry.kind == EntryKind::kColdNode;
    if (of_node && (entry.number == 0 || entry.node() >= d.next_node)) return bad();
    d.entries.push_back(entry);
  }
  return d;
}

std::uint32_t add_block_crc(std::uint32_t run, std::uint32_t block) {
  std::array<std::byte, 4> bytes;
  store_le(bytes, block);
  return crc32c(bytes, run);
}

std::optional<Seq> seq_of_image(ConstBlockBytes block, std::uint32_t fs_tag) {
  constexpr std::uint32_t kNodeMagic = 0x444E5A4C, kPieceMagic = 0x4E535A4C;  // "LZND", "LZSN"
  const std::uint32_t magic = u32(block, 0);
  if (magic != kNodeMagic && magic != kPieceMagic) return std::nullopt;
  const std::size_t tag_at = magic == kNodeMagic ? 32 : 24;
  if (u32(block, tag_at) != fs_tag || stored_crc(block) != crc32c(block.subspan(kCoveredAt))) {
    return std::nullopt;
  }
  return Seq{u64(block, kCoveredAt)};
}

std::uint32_t stored_crc(ConstBlockBytes block) { return u32(block, kCrcAt); }

}  // namespace lazyfs::meta
