#include "base/endian.h"
#include "base/log.h"
#include "edi/copies.h"
#include "edi/format0.h"
#include "edi/format1.h"
#include "edi/image.h"

namespace lazyfs::edi {
namespace {

constexpr std::size_t kHeadBytes = std::size_t{kHeaderCopies} * kHeaderAreaBytes;

// Returns the newest valid copy of format 1. If neither copy is valid, returns the error of the
// first one, or that of the second one where only the second one has the magic number.
Result<Header> newest_header1(std::span<const std::byte, kHeadBytes> head) {
  auto first = decode_header1(head.first<kHeaderAreaBytes>());
  auto second = decode_header1(head.last<kHeaderAreaBytes>());
  if (!second) return first || first.error() != Errc::kEdiBadMagic ? first : second;
  if (!first) return second;
  return first->sequence >= second->sequence ? first : second;
}

// An accident at the start of the disk (zeros, a partition table, another program's header) may
// leave only the second copy of format 1. Format 0 has a single header without a checksum. It is
// accepted only if an image can have its values, so that a damaged first copy of format 1 is not
// taken for it.
Result<Header> decode_head(std::span<const std::byte> head) {
  const auto magic = load_le_at<std::uint32_t>(head, 0);
  const auto version = load_le_at<std::uint32_t>(head, 4);
  Result<Header> old = fail(Errc::kEdiBadMagic);
  if (magic == kMagic && version == 0) {
    old = decode_header0(head.first<kHeader0Bytes>());
    if (least_image_bytes(*old)) return old;
  }
  if (head.size() < kHeadBytes) {
    if (old) return old;
    if (magic != kMagic) return fail(Errc::kEdiBadMagic);
    return version > 1 ? fail(Errc::kEdiBadVersion) : fail(Errc::kDeviceTruncated);
  }
  auto newest = newest_header1(head.first<kHeadBytes>());
  return newest || !old ? newest : old;
}

Result<Header> read_header(const Backing& backing) {
  auto head = AlignedBuffer::zeroed(kHeadBytes);
  ASSIGN_OR_RETURN(const std::size_t length, backing.read_some(0, head.span()));
  if (length < 8) return fail(Errc::kEdiBadMagic);
  if (length < kHeader0Bytes) {
    const bool has_magic = load_le_at<std::uint32_t>(head.span(), 0) == kMagic;
    return fail(has_magic ? Errc::kDeviceTruncated : Errc::kEdiBadMagic);
  }
  return decode_head(std::span<const std::byte>(head.span()).first(length));
}

Result<> check_pointers(const Layout& layout, const std::vector<std::uint32_t>& pointers) {
  for (std::uint32_t band = 0; band < pointers.size(); ++band) {
    if (pointers[band] > layout.geometry.band_blocks[band]) return fail(Errc::kEdiBadHeader);
  }
  return ok();
}

}  // namespace

Result<std::unique_ptr<Image>> open_image(const std::string& path, OpenOptions options) {
  ASSIGN_OR_RETURN(Backing backing, Backing::open(path, options));
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
  if (!options.read_only) TRY(renew_older_headers(*image));
  if (!options.warns) return image;
  for (const std::string& text : damaged_headers(*image)) {
    log::warn("{}: {} The other copy is used; fsck.lazyfs -y rewrites this one.", path, text);
  }
  return image;
}

}  // namespace lazyfs::edi
