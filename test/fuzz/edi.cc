// The fuzz target for the headers of disk images (fuzz/targets.h).
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "base/crc32c.h"
#include "base/endian.h"
#include "edi/format0.h"
#include "edi/format1.h"
#include "edi/image.h"
#include "fuzz/input.h"

namespace lazyfs::fuzz {
namespace {

// More bands than this a fuzzer would do nothing but allocate.
constexpr std::uint64_t kBandsMax = 1 << 14;
constexpr std::uint64_t kImageBytesMax = std::uint64_t{1} << 40;  // a hole, but for its front

void require_valid(const edi::Layout& layout) {
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < layout.band_starts.size(); ++i) {
    if (layout.is_linked_away(BandId{static_cast<std::uint32_t>(i)})) continue;
    require(layout.band_starts[i] >= end, "bands do not overlap (L1)");
    end = layout.band_starts[i] +
          std::uint64_t{layout.geometry.band_blocks[i]} * layout.geometry.block_bytes;
  }
  require(end <= layout.image_bytes, "bands lie in the image (L1)");
}

// Opens the bytes as an image of the right size, and asks for each write pointer.
void open(Bytes bytes, std::uint64_t image_bytes) {
  const int fd = memfd_create("lazyfs-fuzz", MFD_CLOEXEC);
  require(fd >= 0, "memfd_create");
  require(ftruncate(fd, static_cast<off_t>(image_bytes)) == 0, "ftruncate");
  require(pwrite(fd, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()),
          "pwrite");
  const auto device = edi::open("/proc/self/fd/" + std::to_string(fd), {.read_only = true});
  if (device) {
    for (std::uint32_t band = 0; band < (*device)->geometry().band_count(); ++band) {
      ignore_error((*device)->write_pointer(BandId{band}), "only looking");
    }
  }
  close(fd);
}

void seal_header1(std::span<std::byte, edi::kHeaderAreaBytes> area) {
  const auto length = load_le_at<std::uint32_t>(area, 12);
  if (length < 12 || length > area.size()) return;
  store_le_at(std::span<std::byte>(area), 8, crc32c(area.subspan(12, length - 12)));
}

void try_header(Result<edi::Header> header, Bytes bytes) {
  if (!header) return;
  std::uint64_t bands = 0;
  for (const edi::Zone& zone : header->zones) bands += zone.count;
  if (bands > kBandsMax) return;
  const auto layout = edi::lay_out(*header);
  if (!layout) return;
  require_valid(*layout);
  open(bytes, std::min(layout->image_bytes, kImageBytesMax));
}

void header0(Bytes input) {
  AlignedBuffer bytes = block_of(input);
  store_le_at(bytes.span(), 0, edi::kMagic);
  store_le_at(bytes.span(), 4, std::uint32_t{0});
  try_header(edi::decode_header0(bytes.span().first<edi::kHeader0Bytes>()), bytes.span());
}

void header1(Bytes input) {
  AlignedBuffer bytes = block_of(input, 2 * edi::kHeaderAreaBytes / kBlockBytes);
  const auto area = bytes.span().first<edi::kHeaderAreaBytes>();
  store_le_at(bytes.span(), 0, edi::kMagic);
  store_le_at(bytes.span(), 4, std::uint32_t{1});
  seal_header1(area);
  const auto header = edi::decode_header1(area);
  if (header && edi::entries_of(*header) <= edi::kMaxHeaderEntries) {
    AlignedBuffer again = AlignedBuffer::zeroed(edi::kHeaderAreaBytes);
    edi::encode_header1(*header, again.span().first<edi::kHeaderAreaBytes>());
    const auto decoded = edi::decode_header1(again.span().first<edi::kHeaderAreaBytes>());
    require(decoded && *decoded == *header, "a header is encoded as it was decoded");
  }
  try_header(header, bytes.span());
}

void table_block(Bytes input) {
  AlignedBuffer bytes = block_of(input);
  const auto block = bytes.span().first<edi::kTableBlockBytes>();
  store_le_at(bytes.span(), 0, std::uint32_t{0x0E5D1001});
  const std::uint32_t crc = crc32c(block.subspan(28), crc32c(block.first(24)));
  store_le_at(bytes.span(), 24, crc);
  std::vector<std::uint32_t> pointers(edi::kPointersPerBlock);
  ignore_error(edi::decode_table_block(block, load_le_at<std::uint32_t>(bytes.span(), 4),
                                       load_le_at<std::uint64_t>(bytes.span(), 16), pointers),
               "nearly all are bad");
}

}  // namespace

void edi(Bytes input) {
  Input from(input);
  switch (from.number(1) % 3) {
    case 0: return header0(from.rest());
    case 1: return header1(from.rest());
    default: return table_block(from.rest());
  }
}

}  // namespace lazyfs::fuzz
