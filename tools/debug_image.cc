#include "tools/debug_image.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <stdexcept>
#include <vector>

#include "base/buffer.h"
#include "device/backing.h"
#include "disk/open.h"
#include "edi/create.h"
#include "edi/image.h"
#include "meta/store/store.h"
#include "plain/plain_device.h"
#include "tools/sparse_file.h"

namespace lazyfs {
namespace {

// Bands whose contents are metadata. If the volume cannot be opened: the bands that its superblock
// names.
std::set<std::uint32_t> metadata_bands(device::Device& device) {
  std::set<std::uint32_t> bands;
  for (const BandId band : device.geometry().super_bands) bands.insert(band.value);
  if (const auto superblock = meta::read_superblock(device)) {
    for (const BandId band : superblock->log_bands) bands.insert(band.value);
  }
  return bands;
}

// Where the band begins in the file or block device. REQUIRES: the device is no zoned one.
std::uint64_t place_of(device::Device& device, BandId band) {
  if (const auto* const image = disk::image_of(device)) {
    return image->layout().band_starts[band.value];
  }
  return dynamic_cast<plain::PlainDevice&>(device).band_at(band);
}

struct ByteRange {
  std::uint64_t begin = 0, end = 0;
};

// What is left out, in the order of the device.
std::vector<ByteRange> data_ranges(device::Device& device) {
  const std::set<std::uint32_t> kept = metadata_bands(device);
  const device::Geometry& geometry = device.geometry();
  std::vector<ByteRange> ranges;
  for (std::uint32_t i = 0; i < geometry.band_count(); ++i) {
    if (kept.contains(i) || geometry.band_blocks[i] == 0) continue;
    const std::uint64_t begin = place_of(device, BandId{i});
    ranges.push_back({begin, begin + std::uint64_t{geometry.band_blocks[i]} *
                                         geometry.block_bytes});
  }
  std::ranges::sort(ranges, {}, &ByteRange::begin);
  return ranges;
}

std::uint64_t copy_bytes(const device::Backing& from, int fd, const std::string& target,
                         ByteRange range) {
  AlignedBuffer buffer(kPieceBytes);
  for (std::uint64_t at = range.begin; at < range.end; at += kPieceBytes) {
    const auto to =
        buffer.span().first(std::min<std::uint64_t>(kPieceBytes, range.end - at));
    const auto got = from.read_some(at, to);
    if (!got) {
      std::fprintf(stderr, "lazyfs-debug: bytes %llu to %llu cannot be read: left out\n",
                   static_cast<unsigned long long>(at),
                   static_cast<unsigned long long>(at + to.size()));
      continue;
    }
    put_sparse(fd, target, at, to.first(*got));
  }
  return range.end - range.begin;
}

// ---- Zoned devices ------------------------------------------------------------------------------

// Options of an image with a band for each zone, each written as far as its zone.
edi::CreateOptions options_for(device::Device& device) {
  const device::Geometry& geometry = device.geometry();
  edi::CreateOptions options;
  for (std::uint32_t i = 0; i < geometry.band_count(); ++i) {
    const std::uint32_t blocks = geometry.band_blocks[i];
    if (options.zones.empty() || options.zones.back().band_blocks != blocks) {
      options.zones.push_back({0, blocks});
    }
    ++options.zones.back().count;
    const bool is_conventional = geometry.band_kinds[i] == device::BandKind::kConventional;
    if (is_conventional) options.conventional.push_back(i);
    const auto report = device.report(BandId{i});  // fails for one that is offline
    options.write_pointers.push_back(report && !is_conventional ? report->write_pointer : 0);
  }
  return options;
}

std::uint64_t copy_band(device::Device& device, edi::Image& image, BandId band, int fd,
                        const std::string& target) {
  const auto end = device.write_pointer(band);
  if (!end) {
    std::fprintf(stderr, "lazyfs-debug: band %u: %s: left out\n", band.value,
                 std::string(describe(end.error())).c_str());
    return 0;
  }
  AlignedBuffer buffer(kPieceBytes);
  std::uint64_t copied = 0;
  for (std::uint32_t rba = 0; rba < *end; rba += kPieceBytes / kBlockBytes) {
    const std::uint32_t blocks =
        std::min<std::uint32_t>(kPieceBytes / kBlockBytes, *end - rba);
    const auto bytes = buffer.span().first(std::size_t{blocks} * kBlockBytes);
    if (const auto read = device.read({band, rba}, bytes); !read) {
      std::fprintf(stderr, "lazyfs-debug: band %u, blocks %u to %u: %s: left out\n", band.value,
                   rba, rba + blocks - 1, std::string(describe(read.error())).c_str());
      continue;
    }
    const std::uint64_t at = place_of(image, band) + std::uint64_t{rba} * kBlockBytes;
    put_sparse(fd, target, at, bytes);
    copied += bytes.size();
  }
  return copied;
}

std::uint64_t copy_zones(device::Device& device, const std::string& target) {
  if (const auto made = edi::create(target, options_for(device)); !made) {
    throw std::runtime_error(target + ": " + std::string(describe(made.error())));
  }
  const auto image = edi::open_image(target, {.read_only = true});
  if (!image) throw std::runtime_error(target + ": " + std::string(describe(image.error())));
  const int fd = open(target.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) refuse_errno(target);
  std::uint64_t copied = 0;
  for (const std::uint32_t band : metadata_bands(device)) {
    copied += copy_band(device, **image, BandId{band}, fd, target);
  }
  if (fsync(fd) != 0 || close(fd) != 0) refuse_errno(target);
  return copied;
}

}  // namespace

std::uint64_t copy_metadata(device::Device& device, const std::string& path,
                            const std::string& target) {
  const bool has_own_place = disk::image_of(device) ||
                             dynamic_cast<plain::PlainDevice*>(&device);
  if (!has_own_place) return copy_zones(device, target);
  const auto ranges = data_ranges(device);
  const auto backing = device::Backing::open(path, true, device::Backing::Claim::kNone);
  if (!backing) throw std::runtime_error(path + ": " + std::string(describe(backing.error())));
  const auto size = backing->size_bytes();
  if (!size) throw std::runtime_error(path + ": " + std::string(describe(size.error())));
  const int fd = open(target.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) refuse_errno(target);
  if (ftruncate(fd, static_cast<off_t>(*size)) != 0) refuse_errno(target);
  std::uint64_t at = 0, copied = 0;
  for (const ByteRange& left_out : ranges) {
    copied += copy_bytes(*backing, fd, target, {at, left_out.begin});
    at = left_out.end;
  }
  copied += copy_bytes(*backing, fd, target, {at, *size});
  if (fsync(fd) != 0 || close(fd) != 0) refuse_errno(target);
  return copied;
}

}  // namespace lazyfs
