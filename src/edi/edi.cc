// The emulator's C API: checks arguments, converts a Result to an error number, and catches all
// exceptions.
#include "edi/edi.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "device/discarding.h"
#include "edi/create.h"
#include "edi/image.h"
#include "edi/link.h"

struct edi_device {
  explicit edi_device(std::unique_ptr<lazyfs::edi::Image> opened) : image(std::move(opened)) {
    use_image();
  }
  // After `image` was replaced.
  void use_image() {
    using lazyfs::device::DiscardingDevice;
    discarding =
        image ? std::make_unique<DiscardingDevice>(*image, true, [](lazyfs::Errc) {}) : nullptr;
  }

  std::unique_ptr<lazyfs::edi::Image> image;  // null after a link or unlink that failed partway
  // `image` too; frees the space of bands that are reset.
  std::unique_ptr<lazyfs::device::DiscardingDevice> discarding;
};

namespace lazyfs::edi {
namespace {

constexpr std::size_t kBounceBytes = std::size_t{1} << 20;

int code_of(Errc error) {
  switch (error) {
    case Errc::kNotAtWritePointer:
      return EDI_NOT_AT_WRITE_POINTER;
    case Errc::kPastBandEnd:
      return EDI_PAST_BAND_END;
    case Errc::kPastWritePointer:
      return EDI_PAST_WRITE_POINTER;
    case Errc::kBadBand:
      return EDI_BAD_BAND;
    case Errc::kBadGeometry:
      return EDI_BAD_GEOMETRY;
    case Errc::kBandOffline:
      return EDI_BAND_OFFLINE;
    case Errc::kBandReadOnly:
      return EDI_BAND_READ_ONLY;
    case Errc::kBandFailed:
      return EDI_BAND_FAILED;
    case Errc::kBandNotEmpty:
      return EDI_BAND_NOT_EMPTY;
    case Errc::kUnsupported:
      return EDI_UNSUPPORTED;
    case Errc::kDeviceRead:
      return EDI_READ_FAILED;
    case Errc::kDeviceWrite:
      return EDI_WRITE_FAILED;
    case Errc::kDeviceFlush:
      return EDI_FLUSH_FAILED;
    case Errc::kDeviceNoSpace:
      return EDI_NO_SPACE;
    case Errc::kDeviceMissing:
      return EDI_MISSING;
    case Errc::kDeviceBusy:
      return EDI_BUSY;
    case Errc::kDeviceAccess:
      return EDI_ACCESS;
    case Errc::kDeviceReadOnly:
      return EDI_READ_ONLY;
    case Errc::kEdiExists:
      return EDI_EXISTS;
    case Errc::kDeviceTruncated:
      return EDI_TRUNCATED;
    case Errc::kIsDirectory:
    case Errc::kNotADisk:
    case Errc::kEdiBadMagic:
      return EDI_BAD_MAGIC;
    case Errc::kEdiBadVersion:
      return EDI_BAD_VERSION;
    case Errc::kEdiBadChecksum:
      return EDI_BAD_CHECKSUM;
    case Errc::kEdiBadHeader:
      return EDI_BAD_HEADER;
    case Errc::kInvalid:
      return EDI_INVALID;
    default:
      return EDI_FAILED;
  }
}

// Runs `work`, which returns a Result<>, and returns the error number.
template <class Work>
int guarded(Work work) {
  try {
    const Result<> result = work();
    return result ? EDI_OK : code_of(result.error());
  } catch (const std::bad_alloc&) {
    return EDI_NO_MEMORY;
  } catch (...) {
    return EDI_FAILED;
  }
}

// Like guarded(), for calls that need an image.
template <class Work>
int with_image(edi_device* device, Work work) {
  if (device == nullptr) return EDI_INVALID;
  if (!device->image) return EDI_FAILED;
  return guarded([&] { return work(device->image); });
}

bool is_aligned(const void* buffer) {
  return reinterpret_cast<std::uintptr_t>(buffer) % kBlockBytes == 0;
}

// Splits a range into pieces that fit a bounce buffer, and calls `work(address, bytes)` for each.
template <class Work>
Result<> piecewise(BandAddress at, std::size_t length_bytes, std::uint32_t block_bytes, Work work) {
  for (std::size_t done = 0; done < length_bytes;) {
    const std::size_t piece = std::min(length_bytes - done, kBounceBytes);
    TRY(work(at, done, piece));
    at.rba += static_cast<std::uint32_t>(piece / block_bytes);
    done += piece;
  }
  return ok();
}

Result<> read_blocks(Image& image, BandAddress from, void* buffer, std::uint32_t blocks) {
  const std::uint32_t block_bytes = image.geometry().block_bytes;
  const std::span to(static_cast<std::byte*>(buffer), std::size_t{blocks} * block_bytes);
  if (is_aligned(buffer)) return image.read(from, to);
  ASSIGN_OR_RETURN(const std::uint32_t end, image.write_pointer(from.band));
  TRY(device::check_read(image.geometry(), from, to.size(), end));
  AlignedBuffer bounce(std::min(to.size(), kBounceBytes));
  return piecewise(from, to.size(), block_bytes,
                   [&](BandAddress at, std::size_t done, std::size_t piece) -> Result<> {
                     TRY(image.read(at, bounce.span().first(piece)));
                     std::memcpy(to.data() + done, bounce.data(), piece);
                     return ok();
                   });
}

Result<> write_blocks(Image& image, BandAddress to, const void* buffer, std::uint32_t blocks) {
  const std::uint32_t block_bytes = image.geometry().block_bytes;
  const std::span from(static_cast<const std::byte*>(buffer), std::size_t{blocks} * block_bytes);
  if (is_aligned(buffer)) return image.append(to, device::Piece(from));
  // Checks the whole write first: an invalid write must not be done in part.
  ASSIGN_OR_RETURN(const std::uint32_t at, image.write_pointer(to.band));
  TRY(device::check_append(image.geometry(), to, {}, at));
  if (std::uint64_t{to.rba} + blocks > image.geometry().blocks_of(to.band)) {
    return fail(Errc::kPastBandEnd);
  }
  AlignedBuffer bounce(std::min(from.size(), kBounceBytes));
  return piecewise(to, from.size(), block_bytes,
                   [&](BandAddress place, std::size_t done, std::size_t piece) -> Result<> {
                     std::memcpy(bounce.data(), from.data() + done, piece);
                     return image.append(place, device::Piece(bounce.span().first(piece)));
                   });
}

CreateOptions options_of(const edi_geometry& geometry, bool overwrite) {
  CreateOptions options{
      .format = geometry.format, .block_bytes = geometry.block_bytes, .overwrite = overwrite};
  for (std::uint32_t i = 0; i < geometry.zone_count; ++i) {
    options.zones.push_back({geometry.zones[i].count, geometry.zones[i].band_blocks});
  }
  for (std::uint32_t i = 0; i < geometry.link_count; ++i) {
    options.linked.emplace_back(geometry.links[i].first, geometry.links[i].last);
  }
  return options;
}

Result<> create_image(const char* path, const edi_geometry& geometry, bool overwrite) {
  CreateOptions options = options_of(geometry, overwrite);
  for (std::uint32_t i = 0; i < geometry.conventional_count; ++i) {
    const auto [first, last] = geometry.conventional[i];
    if (last < first || last >= kMaxBands) return fail(Errc::kBadGeometry);
    for (std::uint32_t band = first; band <= last; ++band) options.conventional.push_back(band);
  }
  return create(path, options);
}

std::uint32_t condition_code(device::BandCondition condition) {
  switch (condition) {
    case device::BandCondition::kEmpty:
      return EDI_EMPTY;
    case device::BandCondition::kOpen:
      return EDI_OPEN;
    case device::BandCondition::kFull:
      return EDI_FULL;
    case device::BandCondition::kReadOnly:
      return EDI_READABLE;
    case device::BandCondition::kOffline:
      return EDI_OFFLINE;
  }
  return EDI_OFFLINE;
}

Result<> report_bands(Image& image, edi_band_request& request) {
  if (request.reports == nullptr && request.report_count > 0) return fail(Errc::kInvalid);
  const std::uint32_t bands = image.geometry().band_count();
  if (request.band > bands) return fail(Errc::kBadBand);
  request.report_count = std::min(request.report_count, bands - request.band);
  for (std::uint32_t i = 0; i < request.report_count; ++i) {
    const std::uint32_t band = request.band + i;
    ASSIGN_OR_RETURN(const device::BandReport report, image.report(BandId{band}));
    const bool is_shingled = report.kind == device::BandKind::kShingled;
    request.reports[i] = {.band = band,
                          .kind = is_shingled ? EDI_SHINGLED : EDI_CONVENTIONAL,
                          .condition = condition_code(report.condition),
                          .blocks = report.blocks,
                          .write_pointer = report.write_pointer,
                          .reserved = 0};
  }
  return ok();
}

template <class Change>
Result<> change_links(edi_device& device, Change change) {
  const Result<> changed = change(device.image);
  device.use_image();
  return changed;
}

// Errors: kBadBand, kBandOffline, and those of the operation.
Result<> manage(edi_device& device, edi_band_operation operation, edi_band_request& request) {
  const std::unique_ptr<Image>& image = device.image;
  const BandId band{request.band};
  switch (operation) {
    case EDI_GET_WRITE_POINTER: {
      ASSIGN_OR_RETURN(request.write_pointer, image->write_pointer(band));
      return ok();
    }
    case EDI_SET_WRITE_POINTER:
      return image->set_write_pointer(band, request.write_pointer);
    case EDI_RESET_WRITE_POINTER:
      return device.discarding->reset(band);
    case EDI_REPORT:
      return report_bands(*image, request);
    case EDI_LINK:
      return change_links(device, [&](auto& linked) {
        return link_bands(linked, band, BandId{request.last_band});
      });
    case EDI_UNLINK:
      return change_links(device, [&](auto& linked) { return unlink_bands(linked, band); });
    case EDI_RESET_ALL:
      break;  // needs no request
  }
  return fail(Errc::kInvalid);
}

// A C caller may pass any number as an enumerator. Reading an invalid enumerator is undefined
// behaviour in C++, so this reads its bytes.
bool is_operation(const edi_band_operation& operation) {
  std::uint32_t number = 0;
  static_assert(sizeof number == sizeof operation);
  std::memcpy(&number, &operation, sizeof number);
  return number <= EDI_UNLINK;
}

}  // namespace
}  // namespace lazyfs::edi

using namespace lazyfs;  // the functions below are global; they use lazyfs' names

const char* edi_strerror(int error) {
  switch (error) {
    case EDI_OK:
      return "no error";
    case EDI_NOT_AT_WRITE_POINTER:
      return "write does not start at the band's write pointer";
    case EDI_PAST_BAND_END:
      return "access reaches past the end of the band";
    case EDI_PAST_WRITE_POINTER:
      return "access reaches or passes the band's write pointer";
    case EDI_BAD_BAND:
      return "the device has no band with that number";
    case EDI_BAD_GEOMETRY:
      return "impossible geometry";
    case EDI_BAND_OFFLINE:
      return "band is a later part of a link";
    case EDI_BAND_READ_ONLY:
      return "band is read-only";
    case EDI_BAND_FAILED:
      return "an earlier write to this band failed; reset it first";
    case EDI_BAND_NOT_EMPTY:
      return "only empty bands can be linked and unlinked";
    case EDI_UNSUPPORTED:
      return "the band or format does not support this operation";
    case EDI_READ_FAILED:
      return "reading the device failed";
    case EDI_WRITE_FAILED:
      return "writing the device failed";
    case EDI_FLUSH_FAILED:
      return "flushing the device failed";
    case EDI_NO_SPACE:
      return "no space left for the image";
    case EDI_MISSING:
      return "no such file or device";
    case EDI_BUSY:
      return "the device is in use or mounted";
    case EDI_ACCESS:
      return "no permission to open the device";
    case EDI_READ_ONLY:
      return "the device is open for reading only";
    case EDI_EXISTS:
      return "the file or image already exists";
    case EDI_TRUNCATED:
      return "the image or device is shorter than its header says";
    case EDI_BAD_MAGIC:
      return "not an EDI: the magic number is missing";
    case EDI_BAD_VERSION:
      return "unknown EDI format version";
    case EDI_BAD_CHECKSUM:
      return "checksum mismatch in the EDI header or write pointer table";
    case EDI_BAD_HEADER:
      return "EDI header has impossible values";
    case EDI_INVALID:
      return "invalid argument";
    case EDI_NO_MEMORY:
      return "out of memory";
    default:
      return "the operation failed";
  }
}

int edi_open(const char* path, unsigned flags, edi_device** device) {
  if (device == nullptr) return EDI_INVALID;
  *device = nullptr;
  const bool read_only = (flags & EDI_OPEN_READ_ONLY) != 0;
  const bool shared = (flags & EDI_OPEN_SHARED) != 0;
  const bool is_known = (flags & ~(EDI_OPEN_READ_ONLY | EDI_OPEN_SHARED)) == 0;
  // Two writers would corrupt the image.
  if (path == nullptr || !is_known || (shared && !read_only)) return EDI_INVALID;
  return edi::guarded([&]() -> Result<> {
    auto image = edi::open_image(path, {.read_only = read_only, .exclusive = !shared});
    if (!image) return fail(image.error());
    *device = new edi_device{*std::move(image)};
    return ok();
  });
}

int edi_close(edi_device* device) {
  const int result = edi_flush(device);
  delete device;
  return result;
}

int edi_flush(edi_device* device) {
  return edi::with_image(device, [device](auto&) -> Result<> {
    TRY(device->discarding->flush());
    device->discarding->discard_ready();
    return ok();
  });
}

int edi_create(const char* path, const edi_geometry* geometry, int overwrite) {
  if (path == nullptr || geometry == nullptr) return EDI_INVALID;
  if ((geometry->zone_count > 0 && geometry->zones == nullptr) ||
      (geometry->conventional_count > 0 && geometry->conventional == nullptr) ||
      (geometry->link_count > 0 && geometry->links == nullptr)) {
    return EDI_INVALID;
  }
  return edi::guarded([&] { return edi::create_image(path, *geometry, overwrite != 0); });
}

int edi_modesense(edi_device* device, edi_mode* mode) {
  if (mode == nullptr) return EDI_INVALID;
  return edi::with_image(device, [&](auto& image) -> Result<> {
    const edi::Header& header = image->layout().header;
    const device::Geometry& geometry = image->geometry();
    const auto conventional =
        std::ranges::count(geometry.band_kinds, device::BandKind::kConventional);
    *mode = {.format = header.version,
             .block_bytes = geometry.block_bytes,
             .band_count = geometry.band_count(),
             .zone_count = static_cast<std::uint32_t>(header.zones.size()),
             .total_blocks = geometry.total_blocks(),
             .image_bytes = image->layout().image_bytes,
             .conventional_bands = static_cast<std::uint32_t>(conventional),
             .link_count = static_cast<std::uint32_t>(header.links.size()),
             .read_only = image->capabilities().read_only,
             .reserved = 0};
    return ok();
  });
}

int edi_modesense_zones(edi_device* device, edi_zone* zones, uint32_t capacity, uint32_t* count) {
  if (count == nullptr || (zones == nullptr && capacity > 0)) return EDI_INVALID;
  return edi::with_image(device, [&](auto& image) -> Result<> {
    const std::vector<edi::Zone>& all = image->layout().header.zones;
    *count = static_cast<std::uint32_t>(all.size());
    for (std::uint32_t i = 0; i < std::min(*count, capacity); ++i) {
      zones[i] = {.count = all[i].count, .band_blocks = all[i].band_blocks};
    }
    return ok();
  });
}

int edi_managebands(edi_device* device, edi_band_operation operation, edi_band_request* request) {
  if (!edi::is_operation(operation)) return EDI_INVALID;
  if (operation == EDI_RESET_ALL) {
    return edi::with_image(device, [device](auto&) { return device->discarding->reset_all(); });
  }
  if (request == nullptr) return EDI_INVALID;
  return edi::with_image(device,
                         [&](auto&) { return edi::manage(*device, operation, *request); });
}

int edi_read(edi_device* device, uint64_t address, void* buffer, uint32_t blocks) {
  if (buffer == nullptr && blocks > 0) return EDI_INVALID;
  return edi::with_image(device, [&](auto& image) {
    return edi::read_blocks(*image, BandAddress::unpack(address), buffer, blocks);
  });
}

int edi_write(edi_device* device, uint64_t address, const void* buffer, uint32_t blocks) {
  if (buffer == nullptr && blocks > 0) return EDI_INVALID;
  return edi::with_image(device, [&](auto& image) {
    return edi::write_blocks(*image, BandAddress::unpack(address), buffer, blocks);
  });
}
