#include "edi/grow.h"

#include <algorithm>
#include <optional>

#include "edi/copies.h"
#include "edi/format0.h"
#include "edi/format1.h"
#include "edi/pointer_table.h"

namespace lazyfs::edi {
namespace {

using device::Backing;
using device::GrowthStep;

// nullopt if no image has so many bands, or the bands or the table would move.
std::optional<Layout> with_more_bands(const Layout& now, std::uint64_t count) {
  Header header = now.header;
  if (count > kMaxBands) return std::nullopt;
  header.zones.back().count += static_cast<std::uint32_t>(count);
  auto larger = lay_out(std::move(header));
  if (!larger || larger->table_start != now.table_start) return std::nullopt;
  const auto moved = std::ranges::mismatch(now.band_starts, larger->band_starts);
  if (moved.in1 != now.band_starts.end()) return std::nullopt;
  return *std::move(larger);
}

Result<Layout> largest_layout(const Layout& now, std::uint64_t size_bytes) {
  const std::uint64_t band_bytes =
      std::uint64_t{now.header.zones.back().band_blocks} * now.header.block_bytes;
  const auto fits = [&](std::uint64_t count) {
    const auto larger = with_more_bands(now, count);
    return larger && larger->image_bytes <= size_bytes;
  };
  if (size_bytes < now.image_bytes + band_bytes) return fail(Errc::kGrowNoRoom);
  if (!fits(1)) return fail(Errc::kEdiTableFull);
  std::uint64_t low = 1, high = (size_bytes - now.image_bytes) / band_bytes + 1;
  while (low < high) {
    const std::uint64_t middle = (low + high + 1) / 2;
    if (fits(middle)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return *with_more_bands(now, low);
}

// ---- Format 0: zeros where new blocks of the table are; then the block with the header ----------

Result<std::vector<GrowthStep>> steps_of_format0(const Layout& now, const Layout& larger,
                                                 const Backing& backing) {
  std::vector<GrowthStep> steps;
  const std::uint64_t old_blocks = make_pointer_table(now)->block_count();
  const std::uint64_t blocks = make_pointer_table(larger)->block_count();
  if (blocks > old_blocks) {
    steps.push_back({old_blocks * kTableBlockBytes,
                     AlignedBuffer::zeroed((blocks - old_blocks) * kTableBlockBytes)});
  }
  AlignedBuffer head(kTableBlockBytes);
  TRY(backing.read(0, head.span()));
  encode_header0(larger.header, head.span().first<kHeader0Bytes>());
  steps.push_back({0, std::move(head)});
  return steps;
}

// ---- Format 1 -----------------------------------------------------------------------------------

AlignedBuffer empty_table_blocks(const Layout& larger, std::uint32_t first, std::uint32_t end) {
  AlignedBuffer bytes(std::size_t{end - first} * kTableSlots * kTableBlockBytes);
  const std::vector<std::uint32_t> zeros(kPointersPerBlock);
  for (std::uint32_t i = 0; i < (end - first) * kTableSlots; ++i) {
    encode_table_block({first + i / kTableSlots, 1, image_id(larger.header.uuid), zeros},
                       bytes.span().subspan(std::size_t{i} * kTableBlockBytes)
                           .first<kTableBlockBytes>());
  }
  return bytes;
}

Result<std::vector<GrowthStep>> steps_of_format1(const Layout& now, const Layout& larger,
                                                 const Backing& backing) {
  std::vector<GrowthStep> steps;
  const std::uint32_t old_blocks = table_blocks(now.geometry.band_count());
  const std::uint32_t blocks = table_blocks(larger.geometry.band_count());
  if (blocks > old_blocks) {
    steps.push_back({now.table_start + table_bytes(now.geometry.band_count()),
                     empty_table_blocks(larger, old_blocks, blocks)});
  }
  ASSIGN_OR_RETURN(const bool first_is_good, first_copy_is(now.header, backing));
  for (const bool second : {first_is_good, !first_is_good}) {
    AlignedBuffer copy(kHeaderAreaBytes);
    encode_header1(larger.header, copy.span().first<kHeaderAreaBytes>());
    steps.push_back({second ? std::uint64_t{kHeaderAreaBytes} : 0, std::move(copy)});
  }
  return steps;
}

}  // namespace

Result<Growth> plan_growth(const Layout& now, const Backing& backing, std::uint64_t size_bytes) {
  Growth growth;
  ASSIGN_OR_RETURN(growth.layout, largest_layout(now, size_bytes));
  if (now.header.version == 0) {
    ASSIGN_OR_RETURN(growth.steps, steps_of_format0(now, growth.layout, backing));
    return growth;
  }
  ++growth.layout.header.sequence;
  ASSIGN_OR_RETURN(growth.steps, steps_of_format1(now, growth.layout, backing));
  return growth;
}

}  // namespace lazyfs::edi
