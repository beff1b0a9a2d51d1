#include "base/endian.h"
#include "edi/format0.h"
#include "edi/format1.h"
#include "edi/image.h"

namespace lazyfs::edi {
namespace {

constexpr std::size_t kHeadBytes = std::size_t{kHeaderCopies} * kHeaderAreaBytes;

// Returns the newest valid copy. If no copy is valid, returns the error of the first one.
Result<Header> newest_header1(std::span<const std::byte, kHeadBytes> head) {
  auto first = decode_header1(head.first<kHeaderAreaBytes>());
  auto second = decode_header1(head.last<kHeaderAreaBytes>());
  if (!second) return first;
  if (!first) return second;
  return first->sequence >= second->sequence ? first : second;
}

Result<Header> read_header(const Backing& backing) {
  auto head = AlignedBuffer::zeroed(kHeadBytes);
  ASSIGN_OR_RETURN(const std::size_t length, backing.read_some(0, head.span()));
  const std::span<const std::byte> bytes = head.span();
  // If the first copy has no magic number, another program may have reused the disk. The second
  // copy then does not count.
  if (length < 8 || load_le_at<std::uint32_t>(bytes, 0) != kMagic) {
    return fail(Errc::kEdiBadMagic);
  }
  switch (load_le_at<std::uint32_t>(bytes, 4)) {
    case 0:
      if (length < kHeader0Bytes) return fail(Errc::kDeviceTruncated);
      return decode_header0(bytes.first<kHeader0Bytes>());
    case 1:
      if (length < kHeadBytes) return fail(Errc::kDeviceTruncated);
      return newest_header1(bytes.first<kHeadBytes>());
    default: return fail(Errc::kEdiBadVersion);
  }
}

Result<> check_pointers(const Layout& layout, const std::vector<std::uint32_t>& pointers) {
  for (std::uint32_t band = 0; band < pointers.size(); ++band) {
    if (pointers[band] > layout.geometry.band_blocks[band]) return fail(Errc::kEdiBadHeader);
  }
  return ok();
}

}  // namespace

Result<std::unique_ptr<Image>> open_image(const std::string& path, OpenOptions options) {
  const auto claim = options.exclusive ? Backing::Claim::kExclusive : Backing::Claim::kNone;
  ASSIGN_OR_RETURN(Backing backing, Backing::open(path, options.read_only, claim));
  ASSIGN_OR_RETURN(Header header, read_header(backing));
  ASSIGN_OR_RETURN(const std::uint64_t size, backing.size_bytes());
  const auto least = least_image_bytes(header);
  if (!least) return fail(Errc::kEdiBadHeader);
  if (size < *least) return fail(Errc::kDeviceTruncated);  // before lay_out() takes memory
  auto layout = lay_out(std::move(header));
  if (!layout) return fail(Errc::kEdiBadHeader);
  if (size < layout->image_bytes) return fail(Errc::kDeviceTruncated);
  if (layout->geometry.block_bytes % kBlockBytes == 0) backing.prefer_direct();
  auto table = make_pointer_table(*layout);
  ASSIGN_OR_RETURN(auto pointers, table->load(backing));
  TRY(check_pointers(*layout, pointers));
  // Writes of an earlier process may not be durable yet, but the next table write relies on them.
  if (!options.read_only) TRY(backing.sync());
  return std::make_unique<Image>(*std::move(layout), std::move(backing), std::move(table),
                                 std::move(pointers), options.read_only, path);
}

Result<std::unique_ptr<device::Device>> open(const std::string& path, OpenOptions options) {
  ASSIGN_OR_RETURN(auto image, open_image(path, options));
  return image;
}

}  // namespace lazyfs::edi
