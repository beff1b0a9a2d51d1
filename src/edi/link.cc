#include "edi/link.h"

#include <algorithm>

#include "edi/copies.h"
#include "edi/format1.h"

namespace lazyfs::edi {
namespace {

Result<> check_changeable(Image& image, BandId first, BandId last) {
  if (image.capabilities().read_only) return fail(Errc::kDeviceReadOnly);
  if (image.layout().header.version == 0) return fail(Errc::kUnsupported);
  if (!image.geometry().has(first) || !image.geometry().has(last)) return fail(Errc::kBadBand);
  if (last < first) return fail(Errc::kBadGeometry);
  for (std::uint32_t i = first.value; i <= last.value; ++i) {
    ASSIGN_OR_RETURN(const device::BandReport report, image.report(BandId{i}));
    if (report.kind == device::BandKind::kConventional) return fail(Errc::kBadGeometry);
    if (report.write_pointer > 0) return fail(Errc::kBandNotEmpty);
  }
  return ok();
}

// Writes the second copy first if the first one is valid: one copy remains valid at any time.
Result<> write_headers(const Header& now, const Header& header, const Backing& backing) {
  ASSIGN_OR_RETURN(const bool first_is_good, first_copy_is(now, backing));
  AlignedBuffer copy(kHeaderAreaBytes);
  encode_header1(header, copy.span().first<kHeaderAreaBytes>());
  for (const bool second : {first_is_good, !first_is_good}) {
    TRY(backing.write(second ? std::uint64_t{kHeaderAreaBytes} : 0, copy.span()));
    TRY(backing.sync());
  }
  return ok();
}

Result<std::unique_ptr<Image>> rewrite(Image& image, Layout layout) {
  TRY(image.flush());
  ASSIGN_OR_RETURN(Backing backing, image.backing().duplicate());
  TRY(write_headers(image.layout().header, layout.header, backing));
  auto table = make_pointer_table(layout);
  ASSIGN_OR_RETURN(auto pointers, table->load(backing));
  return std::make_unique<Image>(std::move(layout), std::move(backing), std::move(table),
                                 std::move(pointers), false, image.name());
}

Result<> change_links(std::unique_ptr<Image>& image, std::vector<BandRange> links) {
  Header header = image->layout().header;
  ++header.sequence;
  header.links = std::move(links);
  std::ranges::sort(header.links);
  ASSIGN_OR_RETURN(Layout layout, lay_out(std::move(header)));
  auto changed = rewrite(*image, std::move(layout));
  if (!changed) {
    image.reset();
    return fail(changed.error());
  }
  image = *std::move(changed);
  return ok();
}

}  // namespace

Result<> link_bands(std::unique_ptr<Image>& image, BandId first, BandId last) {
  TRY(check_changeable(*image, first, last));
  std::vector<BandRange> links = image->layout().header.links;
  links.emplace_back(first.value, last.value);
  return change_links(image, std::move(links));
}

Result<> unlink_bands(std::unique_ptr<Image>& image, BandId first) {
  TRY(check_changeable(*image, first, first));
  std::vector<BandRange> links = image->layout().header.links;
  if (std::erase_if(links, [&](const BandRange& link) { return link.first == first.value; }) == 0) {
    return fail(Errc::kBadGeometry);
  }
  return change_links(image, std::move(links));
}

}  // namespace lazyfs::edi
