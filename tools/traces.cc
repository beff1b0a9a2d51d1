#include "tools/traces.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "base/endian.h"
#include "edi/create.h"
#include "edi/format1.h"
#include "meta/log/superblock_format.h"
#include "plain/identity_format.h"

namespace lazyfs {
namespace {

constexpr std::uint64_t kStepBytes = 65536;  // EDI: bands begin at multiples of it
constexpr std::uint64_t kSearchedBytes = std::uint64_t{2} << 20;
// Bounds the memory that the layout of an image takes. mkfs makes some 128 bands on a small device.
constexpr std::uint64_t kMaxImageBands = 65536;

using Block = std::array<std::byte, kBlockBytes>;

class File {
 public:
  explicit File(const std::string& path)
      : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  // Of a block device, too; 0 if the file cannot be read.
  std::uint64_t bytes() const {
    const off_t end = fd_ < 0 ? -1 : lseek(fd_, 0, SEEK_END);
    return end < 0 ? 0 : static_cast<std::uint64_t>(end);
  }
  std::optional<Block> read(std::uint64_t at) const {
    Block block;
    const ssize_t got = pread(fd_, block.data(), block.size(), static_cast<off_t>(at));
    if (got != static_cast<ssize_t>(block.size())) return std::nullopt;
    return block;
  }

 private:
  const int fd_;
};

// The layout of the image that mkfs and edicreate make on a device of this size.
std::optional<edi::Layout> image_layout(std::uint64_t bytes, std::uint64_t band_bytes) {
  if (bytes / band_bytes > kMaxImageBands || band_bytes / kBlockBytes > UINT32_MAX) return {};
  const auto options = edi::fill(bytes, static_cast<std::uint32_t>(band_bytes / kBlockBytes));
  if (!options) return {};
  edi::Header header{.zones = options->zones};
  header.table_before = edi::central_band(header);
  auto layout = edi::lay_out(std::move(header));
  return layout ? std::optional(*std::move(layout)) : std::nullopt;
}

bool is_identity(const Block& block) {
  const auto identity = plain::decode_identity(block);
  return identity || identity.error() != Errc::kIdentityMissing;
}

bool is_image_header(const Block& block) {
  return load_le_at<std::uint32_t>(block, 0) == edi::kMagic;
}

bool is_pointer_table(const Block& block) {
  return load_le_at<std::uint32_t>(block, 0) == edi::kTableMagic;
}

bool is_superblock(const Block& block) {
  const auto superblock = meta::decode_superblock(block);
  return superblock || superblock.error() != Errc::kNoFilesystem;
}

struct Kind {
  const char* name;
  bool (*is_one)(const Block&);
  std::vector<std::uint64_t> places;
};

std::vector<std::uint64_t> pointer_table_places(std::uint64_t bytes) {
  std::vector<std::uint64_t> places;
  for (std::uint64_t band = kStepBytes; band <= bytes / 2; band *= 2) {
    if (const auto layout = image_layout(bytes, band)) places.push_back(layout->table_start);
  }
  return places;
}

std::vector<Kind> kinds(std::uint64_t bytes) {
  std::vector<std::uint64_t> identities{plain::kIdentityAt};
  if (bytes >= 2 * plain::kEndBytes) identities.push_back(plain::copy_at(bytes));
  return {{"identification block", is_identity, std::move(identities)},
          {"header of an EDI", is_image_header, {0, edi::kHeaderAreaBytes}},
          {"superblock", is_superblock, superblock_places(bytes)},
          {"write pointer table of an EDI", is_pointer_table, pointer_table_places(bytes)}};
}

}  // namespace

std::vector<std::uint64_t> superblock_places(std::uint64_t bytes) {
  std::vector<std::uint64_t> places;
  for (std::uint64_t at = 0; at <= kSearchedBytes; at += kStepBytes) places.push_back(at);
  for (std::uint64_t band = kStepBytes; band <= bytes / 2; band *= 2) {
    places.push_back(band);                      // band 1 of a zoned device
    places.push_back(plain::bands_at() + band);  // of a plain one
    if (const std::uint64_t count = plain::bands_in(bytes, band)) {
      places.push_back(plain::bands_at() + (count - 1) * band);
    }
    if (const auto layout = image_layout(bytes, band)) {
      for (const std::size_t i : {0u, 1u}) {
        if (i < layout->band_starts.size()) places.push_back(layout->band_starts[i]);
      }
    }
  }
  std::erase_if(places, [&](std::uint64_t at) { return at + kBlockBytes > bytes; });
  std::ranges::sort(places);
  places.erase(std::ranges::unique(places).begin(), places.end());
  return places;
}

std::optional<std::string> find_lazyfs_traces(const std::string& path) {
  const File file(path);
  for (const Kind& kind : kinds(file.bytes())) {
    for (const std::uint64_t at : kind.places) {
      const auto block = file.read(at);
      if (block && kind.is_one(*block)) {
        return std::string(kind.name) + " at byte " + std::to_string(at);
      }
    }
  }
  return std::nullopt;
}

}  // namespace lazyfs
