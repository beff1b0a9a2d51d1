#include "edi/copies.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "edi/format1.h"

namespace lazyfs::edi {
namespace {

struct HeaderCopy {
  std::uint32_t index = 0;
  std::optional<Errc> damage;
  bool is_newest = false;
};

std::vector<HeaderCopy> header_copies(const Image& image) {
  std::vector<HeaderCopy> copies;
  if (image.layout().header.version == 0) return copies;
  for (std::uint32_t i = 0; i < kHeaderCopies; ++i) {
    AlignedBuffer bytes(kHeaderAreaBytes);
    const auto read = image.backing().read(std::uint64_t{i} * kHeaderAreaBytes, bytes.span());
    const auto header = read ? decode_header1(bytes.span().first<kHeaderAreaBytes>())
                             : Result<Header>(fail(read.error()));
    HeaderCopy copy{.index = i, .is_newest = header && *header == image.layout().header};
    if (!header) copy.damage = header.error();
    copies.push_back(copy);
  }
  return copies;
}

Result<> write_header(const Image& image, std::uint32_t copy) {
  AlignedBuffer bytes(kHeaderAreaBytes);
  encode_header1(image.layout().header, bytes.span().first<kHeaderAreaBytes>());
  TRY(image.backing().write(std::uint64_t{copy} * kHeaderAreaBytes, bytes.span()));
  return image.backing().sync();
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

Result<bool> first_copy_is(const Header& header, const Backing& backing) {
  AlignedBuffer copy(kHeaderAreaBytes);
  TRY(backing.read(0, copy.span()));
  const auto found = decode_header1(copy.span().first<kHeaderAreaBytes>());
  return found && *found == header;
}

std::vector<std::string> damaged_headers(const Image& image) {
  std::vector<std::string> found;
  for (const HeaderCopy& copy : header_copies(image)) {
    if (!copy.damage) continue;
    found.push_back(fmt::format("Copy {} of the image's header is unusable: {}.", copy.index + 1,
                                describe(*copy.damage)));
  }
  return found;
}

std::vector<std::string> older_headers(const Image& image) {
  std::vector<std::string> found;
  for (const HeaderCopy& copy : header_copies(image)) {
    if (copy.damage || copy.is_newest) continue;
    found.push_back(fmt::format("Copy {} of the image's header is not the newest.",
                                copy.index + 1));
  }
  return found;
}

Result<> renew_older_headers(const Image& image) {
  for (const HeaderCopy& copy : header_copies(image)) {
    if (!copy.damage && !copy.is_newest) TRY(write_header(image, copy.index));
  }
  return ok();
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
  for (const HeaderCopy& copy : header_copies(image)) {
    if (copy.is_newest) continue;
    TRY(write_header(image, copy.index));
    repairs.push_back(fmt::format("Copy {} of the image's header was rewritten.", copy.index + 1));
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
