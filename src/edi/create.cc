#include "edi/create.h"

#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/endian.h"
#include "device/backing.h"
#include "edi/format1.h"
#include "edi/pointer_table.h"

namespace lazyfs::edi {
namespace {

// Converts single bands to ranges. A band that is named twice counts once.
std::vector<BandRange> ranges_of(std::vector<std::uint32_t> bands) {
  std::ranges::sort(bands);
  std::vector<BandRange> ranges;
  for (std::uint32_t band : bands) {
    if (!ranges.empty() && band <= std::uint64_t{ranges.back().second} + 1) {
      ranges.back().second = band;
    } else {
      ranges.emplace_back(band, band);
    }
  }
  return ranges;
}

Header header_of(const CreateOptions& options) {
  Header header{.version = options.format, .block_bytes = options.block_bytes};
  header.zones = options.zones;
  header.conventional = ranges_of(options.conventional);
  header.links = options.linked;
  std::ranges::sort(header.links);
  if (options.format != 0) header.table_before = central_band(header);
  return header;
}

Result<Uuid> new_uuid() {
  Uuid uuid;
  if (getrandom(uuid.data(), uuid.size(), 0) != static_cast<ssize_t>(uuid.size())) {
    return fail(Errc::kDeviceRead);
  }
  uuid[6] = (uuid[6] & std::byte{0x0F}) | std::byte{0x40};  // RFC 4122, version 4
  uuid[8] = (uuid[8] & std::byte{0x3F}) | std::byte{0x80};
  return uuid;
}

Result<> check_pointers(const Layout& layout, std::span<const std::uint32_t> pointers) {
  const auto& sizes = layout.geometry.band_blocks;
  if (layout.header.version == 0 || pointers.size() != sizes.size()) {
    return fail(Errc::kBadGeometry);
  }
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (pointers[i] > sizes[i]) return fail(Errc::kBadGeometry);
  }
  return ok();
}

// The layout of a new image.
Result<Layout> new_layout(const CreateOptions& options) {
  ASSIGN_OR_RETURN(Layout layout, lay_out(header_of(options)));
  ASSIGN_OR_RETURN(layout.header.uuid, new_uuid());
  if (!options.write_pointers.empty()) TRY(check_pointers(layout, options.write_pointers));
  return layout;
}

Result<> write_pointers(const Layout& layout, const Backing& backing,
                        std::span<const std::uint32_t> pointers) {
  const auto table = make_pointer_table(layout);
  TRY(table->load(backing));
  for (std::uint32_t block = 0; block < table->block_count(); ++block) {
    const auto [first, end] = table->bands_of(block);
    TRY(table->write(backing, block, pointers.subspan(first, end - first)));
  }
  return ok();
}

// Writes the headers last: an unfinished image has no valid header.
Result<> write_image(const Layout& layout, const Backing& backing,
                     std::span<const std::uint32_t> pointers) {
  auto head = AlignedBuffer::zeroed(std::size_t{kHeaderCopies} * kHeaderAreaBytes);
  // Removes both header copies of an earlier image. Otherwise damage to a header of format 0 would
  // make the old second copy valid again.
  const std::size_t wiped = std::min<std::uint64_t>(head.span().size(), layout.image_bytes);
  TRY(backing.write(0, head.span().first(wiped)));
  if (layout.header.version == 0) {
    TRY(backing.sync());  // else the copy of an identification block may outlive the wipe
    return write_empty_table(layout, backing);  // its first block holds the header
  }
  TRY(write_empty_table(layout, backing));
  if (!pointers.empty()) TRY(write_pointers(layout, backing, pointers));
  TRY(backing.sync());
  encode_header1(layout.header, head.span().first<kHeaderAreaBytes>());
  encode_header1(layout.header, head.span().last<kHeaderAreaBytes>());
  return backing.write(0, head.span());
}

Result<bool> holds_image(const Backing& backing) {
  auto block = AlignedBuffer::zeroed(kBlockBytes);
  for (std::uint32_t copy = 0; copy < kHeaderCopies; ++copy) {
    TRY(backing.read_some(std::uint64_t{copy} * kHeaderAreaBytes, block.span()));
    if (load_le_at<std::uint32_t>(block.span(), 0) == kMagic) return true;
  }
  return false;
}

// Removes what other formats keep near the end of a device: the copy of an identification block,
// by which the device would still be taken for the former volume, or of a partition table.
Result<> wipe_end(const Backing& backing, std::uint64_t size) {
  constexpr std::uint64_t kWipedBytes = std::uint64_t{2} << 20;  // more than the last whole MiB
  const auto zeros = AlignedBuffer::zeroed(std::min(size, kWipedBytes));
  return backing.write(size - zeros.span().size(), zeros.span());
}

Result<> fill_backing(const Layout& layout, Backing& backing, const CreateOptions& options) {
  if (backing.is_block_device()) {
    ASSIGN_OR_RETURN(const std::uint64_t size, backing.size_bytes());
    if (size < layout.image_bytes) return fail(Errc::kDeviceNoSpace);
    ASSIGN_OR_RETURN(const bool is_image, holds_image(backing));
    if (is_image && !options.overwrite) return fail(Errc::kEdiExists);
    TRY(wipe_end(backing, size));
  } else {
    TRY(backing.become_hole(layout.image_bytes));
  }
  TRY(write_image(layout, backing, options.write_pointers));
  return backing.sync();
}

}  // namespace

Result<std::uint64_t> image_bytes(const CreateOptions& options) {
  ASSIGN_OR_RETURN(const Layout layout, lay_out(header_of(options)));
  return layout.image_bytes;
}

Result<CreateOptions> fill(std::uint64_t bytes, std::uint32_t band_blocks,
                           std::uint32_t block_bytes) {
  if (band_blocks == 0 || block_bytes == 0) return fail(Errc::kBadGeometry);
  const std::uint64_t most = bytes / (std::uint64_t{band_blocks} * block_bytes);
  CreateOptions options{.block_bytes = block_bytes};
  // Headers and table take the space of a few bands at most, and only if bands are small.
  std::uint64_t low = 0, high = std::min<std::uint64_t>(most, kMaxBands);
  while (low < high) {
    const std::uint64_t middle = (low + high + 1) / 2;
    options.zones = {{static_cast<std::uint32_t>(middle), band_blocks}};
    ASSIGN_OR_RETURN(const std::uint64_t needed, image_bytes(options));
    if (needed <= bytes) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  if (low == 0) return fail(Errc::kBadGeometry);
  options.zones = {{static_cast<std::uint32_t>(low), band_blocks}};
  return options;
}

Result<Backing> create_claimed(const std::string& path, const CreateOptions& options) {
  ASSIGN_OR_RETURN(const Layout layout, new_layout(options));
  struct stat st;
  if (::stat(path.c_str(), &st) == 0) {
    if (!S_ISBLK(st.st_mode) && !options.overwrite) return fail(Errc::kEdiExists);
    ASSIGN_OR_RETURN(Backing backing, Backing::open(path, false, Backing::Claim::kExclusive));
    TRY(fill_backing(layout, backing, options));
    return backing;
  }
  ASSIGN_OR_RETURN(Backing backing, Backing::make(path));
  const Result<> result = fill_backing(layout, backing, options);
  if (result) return backing;
  ::unlink(path.c_str());
  return fail(result.error());
}

Result<> create(const std::string& path, const CreateOptions& options) {
  TRY(create_claimed(path, options));
  return ok();
}

Result<> overwrite(Backing& file, const CreateOptions& options) {
  ASSIGN_OR_RETURN(const Layout layout, new_layout(options));
  return fill_backing(layout, file, options);
}

}  // namespace lazyfs::edi
