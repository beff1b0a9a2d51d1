#include "fs/item/extent_item.h"

#include <utility>

#include "base/check.h"
#include "fs/item/attributes.h"
#include "fs/item/keys.h"

namespace lazyfs::fs {
namespace {

constexpr std::size_t kExtentHeaderBytes = 16;

}  // namespace

std::vector<std::byte> encode(const ExtentRecord& record) {
  CHECK(record.blocks() >= 1 && record.blocks() <= kMaxExtentBlocks);
  std::vector<std::byte> bytes(kExtentHeaderBytes + 4 * record.crcs.size());
  FieldWriter writer(bytes);
  const ExtentHeader header{record.at, record.append_record,
                            static_cast<std::uint16_t>(record.blocks())};
  list_fields(writer, header);
  for (const std::uint32_t crc : record.crcs) writer("crc", crc);
  writer.finish();
  return bytes;
}

Result<ExtentRecord> decode_extent(std::span<const std::byte> from) {
  FieldReader reader(from);
  ExtentHeader header;
  list_fields(reader, header);
  const std::uint32_t blocks = header.blocks;
  if (!reader.good() || blocks < 1 || blocks > kMaxExtentBlocks ||
      header.algorithm != 0 || reader.left() != header.more + std::size_t{4} * blocks ||
      header.at.band.value == kReferenceMark ||
      header.append_record > header.at.rba || std::uint64_t{header.at.rba} + blocks > UINT32_MAX) {
    return fail(Errc::kItemBad);
  }
  reader.reserved(header.more);
  ExtentRecord record{header.at, header.append_record, std::vector<std::uint32_t>(blocks)};
  for (std::uint32_t& crc : record.crcs) reader("crc", crc);
  return record;
}

std::vector<std::byte> encode(const ReferenceRecord& record) {
  CHECK(record.count >= 1 && record.count <= kMaxExtentBlocks);
  const auto bytes = encode_fields<kReferenceBytes>(record);
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> encode(const MapRecord& record) {
  return std::visit([](const auto& r) { return encode(r); }, record);
}

Result<MapRecord> decode_map_record(std::span<const std::byte> from) {
  std::uint32_t mark = 0;
  FieldReader first(from);
  first("mark", mark);
  if (mark != kReferenceMark) {
    ASSIGN_OR_RETURN(ExtentRecord extent, decode_extent(from));
    return MapRecord(std::move(extent));
  }
  ReferenceRecord record;
  if (!decode_fields(from, record) || record.count < 1 || record.count > kMaxExtentBlocks ||
      record.shared.value == 0 || record.shared.value > kMaxInode ||
      record.block > blocks_for(kMaxFileBytes) - record.count) {
    return fail(Errc::kItemBad);
  }
  return MapRecord(record);
}

std::array<std::byte, kReferenceCountBytes> encode(const ReferenceCountRecord& record) {
  return encode_fields<kReferenceCountBytes>(record);
}

Result<ReferenceCountRecord> decode_reference_count(std::span<const std::byte> from) {
  ReferenceCountRecord record;
  if (!decode_fields(from, record) || record.blocks < 1 || record.blocks > kMaxExtentBlocks ||
      record.references == 0) {
    return fail(Errc::kItemBad);
  }
  return record;
}

}  // namespace lazyfs::fs
