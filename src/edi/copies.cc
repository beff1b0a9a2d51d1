#include "edi/copies.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "edi/format1.h"

namespace lazyfs::edi {
namespace {

Result<std::optional<std::string>> wrong_with_header(const Image& image, std::uint32_t copy) {
  AlignedBuffer bytes(kHeaderAreaBytes);
  const auto read = image.backing().read(std::uint64_t{copy} * kHeaderAreaBytes, bytes.span());
  const auto header = read ? decode_header1(bytes.span().first<kHeaderAreaBytes>())
                           : Result<Header>(fail(read.error()));
  if (!header) {
    return fmt::format("Copy {} of the image's header is unusable: {}.", copy + 1,
                       describe(header.error()));
  }
  if (*header == image.layout().header) return std::nullopt;
  return fmt::format("Copy {} of the image's header is not the newest.", copy + 1);
}

Result<> wrong_with_slot(const Image& image, std::uint32_t block, std::uint32_t slot) {
  const Layout& layout = image.layout();
  const std::uint32_t first = block * kPointersPerBlock;
  const std::uint32_t count = std::min(kPointersPerBlock, layout.geometry.band_count() - first);
  AlignedBuffer bytes(kTableBlockBytes);
  TRY(image.backing().read(
      layout.table_start + (std::uint64_t{block} * kTableSlots + slot) * kTableBlockBytes,
      bytes.span()));
  std::vector<std::uint32_t> pointers(count);
  const auto sequence = decode_table_block(bytes.span().first<kTableBlockBytes>(), block,
                                           image_id(layout.header.uuid), pointers);
  return sequence ? ok() : fail(sequence.error());
}

std::string slot_text(std::uint32_t block, std::uint32_t slot, Errc error) {
  return fmt::format("Slot {} of block {} of the image's write pointer table is unusable: {}.",
                     slot + 1, block, describe(error));
}

}  // namespace

Result<std::vector<std::string>> damaged_headers(const Image& image) {
  std::vector<std::string> found;
  if (image.layout().header.version == 0) return found;
  for (std::uint32_t copy = 0; copy < kHeaderCopies; ++copy) {
    ASSIGN_OR_RETURN(auto wrong, wrong_with_header(image, copy));
    if (wrong) found.push_back(*std::move(wrong));
  }
  return found;
}

Result<std::vector<std::string>> damaged_slots(const Image& image) {
  std::vector<std::string> found;
  if (image.layout().header.version == 0) return found;
  const std::uint32_t blocks = table_blocks(image.layout().geometry.band_count());
  for (std::uint32_t block = 0; block < blocks; ++block) {
    for (std::uint32_t slot = 0; slot < kTableSlots; ++slot) {
      const auto sound = wrong_with_slot(image, block, slot);
      if (!sound) found.push_back(slot_text(block, slot, sound.error()));
    }
  }
  return found;
}

Result<std::vector<std::string>> mend_copies(Image& image) {
  std::vector<std::string> repairs;
  if (image.layout().header.version == 0) return repairs;
  for (std::uint32_t copy = 0; copy < kHeaderCopies; ++copy) {
    ASSIGN_OR_RETURN(const auto wrong, wrong_with_header(image, copy));
    if (!wrong) continue;
    AlignedBuffer bytes(kHeaderAreaBytes);
    encode_header1(image.layout().header, bytes.span().first<kHeaderAreaBytes>());
    TRY(image.backing().write(std::uint64_t{copy} * kHeaderAreaBytes, bytes.span()));
    TRY(image.backing().sync());
    repairs.push_back(fmt::format("Copy {} of the image's header was rewritten.", copy + 1));
  }
  ASSIGN_OR_RETURN(const auto slots, damaged_slots(image));
  TRY(image.flush());
  ASSIGN_OR_RETURN(const auto left, damaged_slots(image));
  if (left.size() < slots.size()) {
    repairs.push_back(
        fmt::format("{} of {} damaged slots of the image's write pointer table were rewritten.",
                    slots.size() - left.size(), slots.size()));
  }
  return repairs;
}

}  // namespace lazyfs::edi
