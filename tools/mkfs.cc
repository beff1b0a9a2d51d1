// mkfs.lazyfs: makes a filesystem on a banded device; a plain device or file becomes one first.
#include <unistd.h>

#include <cstdio>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "base/size.h"
#include "device/backing.h"
#include "device/whole_blocks.h"
#include "disk/open.h"
#include "edi/create.h"
#include "edi/image.h"
#include "meta/log/log_layout.h"
#include "mkfs/mkfs.h"
#include "plain/create.h"
#include "tools/block_device_claim.h"
#include "tools/command_line.h"
#include "tools/contents.h"
#include "tools/progress.h"
#include "tools/uuid.h"
#include "tools/words.h"
#include "zoned/zoned_device.h"

namespace {

using namespace lazyfs;
using device::Backing;

constexpr std::uint32_t kDefaultBandBlocks = (std::uint32_t{256} << 20) / kBlockBytes;
constexpr std::uint32_t kBandsWanted = 128;
const device::Capabilities kPlainDevice{.keeps_write_pointers = false};
const std::string kLoss = " (-f destroys it)";

// "what: why", with advice where there is any.
struct Trouble : std::runtime_error {
  using std::runtime_error::runtime_error;
  Trouble(const std::string& what, Errc why) : Trouble(what, describe(why)) {}
  Trouble(const std::string& what, std::string_view why)
      : std::runtime_error(what + ": " + std::string(why)) {}
};

struct TooSmall : Trouble {
  TooSmall(const std::string& what, std::uint64_t bytes, std::uint64_t band_bytes,
           const device::Capabilities& capabilities = {})
      : Trouble(what, size_text(bytes) + " are too small for a filesystem (it needs " +
                          std::to_string(mkfs::min_bands(capabilities)) + " bands of " +
                          size_text(band_bytes) + ")") {}
};

struct Arguments {
  std::string device, size, label, uuid, band_size, log_size, progress = "auto";
  bool force = false, quiet = false, keep_blocks = false;
};

// What to do; made before anything is changed.
struct Plan {
  std::optional<edi::CreateOptions> image;  // to be created first, or ...
  std::optional<plain::Identity> plain;     // ... this, on a block device
  mkfs::Options options;
};

std::uint64_t size_of(const std::string& option, const std::string& text) {
  const auto size = parse_size(text);
  if (!size) throw Trouble(option + " " + text, "not a size (as 256M or 8T)");
  return *size;
}

mkfs::Options options_of(const Arguments& arguments) {
  mkfs::Options options;
  options.label = arguments.label;
  options.discard = !arguments.keep_blocks;
  options.owner = {geteuid(), getegid()};
  const auto uuid = arguments.uuid.empty() ? new_uuid() : parse_uuid(arguments.uuid);
  if (!uuid && arguments.uuid.empty()) throw Trouble("a new UUID", uuid.error());
  if (!uuid) {
    throw Trouble("-U " + arguments.uuid, "not a UUID of the form " + std::string(kUuidForm));
  }
  options.uuid = *uuid;
  const auto seed = new_name_seed();
  if (!seed) throw Trouble("a seed for the hashes of names", seed.error());
  options.name_seed = *seed;
  if (!arguments.log_size.empty()) {
    options.log_bytes = size_of("--log-size", arguments.log_size);
    if (options.log_bytes == 0) throw Trouble("--log-size 0", "a log cannot be empty");
  }
  return options;
}

// ---- geometry -----------------------------------------------------------------------------------

std::uint32_t band_blocks_of(const std::string& band_size) {
  const std::uint64_t bytes = size_of("--band-size", band_size);
  if (bytes % kBlockBytes != 0) {
    throw Trouble("--band-size " + band_size, "not a multiple of 4096 bytes");
  }
  if (bytes / kBlockBytes < meta::kMinLogBandBlocks) {
    throw Trouble(
        "--band-size " + band_size,
        "a band has at least " +
            size_text(std::uint64_t{meta::kMinLogBandBlocks} * kBlockBytes));
  }
  if (bytes / kBlockBytes > UINT32_MAX) throw Trouble("--band-size " + band_size, "too large");
  return static_cast<std::uint32_t>(bytes / kBlockBytes);
}

// Bands of 256 MiB; smaller ones where there would be fewer than 128.
std::uint32_t choose_band_blocks(std::uint64_t bytes) {
  std::uint32_t blocks = kDefaultBandBlocks;
  for (; blocks > meta::kMinLogBandBlocks; blocks /= 2) {
    const auto filled = edi::fill(bytes, blocks);
    if (filled && filled->zones.front().count >= kBandsWanted) break;
  }
  return blocks;
}

edi::CreateOptions choose_image(const std::string& what, std::uint64_t bytes,
                                const std::string& band_size) {
  const std::uint32_t blocks =
      band_size.empty() ? choose_band_blocks(bytes) : band_blocks_of(band_size);
  auto image = edi::fill(bytes, blocks);
  if (!image) throw TooSmall(what, bytes, std::uint64_t{blocks} * kBlockBytes);
  return std::move(*image);
}

// Bands of a plain block device: 256 MiB; smaller ones where there would be fewer than 128.
std::uint64_t choose_band_bytes(std::uint64_t volume_bytes) {
  std::uint64_t bytes = std::uint64_t{kDefaultBandBlocks} * kBlockBytes;
  const std::uint64_t least = std::uint64_t{meta::kMinLogBandBlocks} * kBlockBytes;
  while (bytes > least && plain::bands_in(volume_bytes, bytes) < kBandsWanted) bytes /= 2;
  return bytes;
}

plain::Identity choose_volume(const Arguments& arguments, std::uint64_t bytes) {
  const std::uint64_t band_bytes =
      arguments.band_size.empty()
          ? choose_band_bytes(bytes)
          : std::uint64_t{band_blocks_of(arguments.band_size)} * kBlockBytes;
  const auto identity = plain::plan_volume(bytes, band_bytes);
  if (!identity) throw TooSmall(arguments.device, bytes, band_bytes, kPlainDevice);
  return *identity;
}

device::Geometry geometry_of(const plain::Identity& identity) {
  device::Geometry geometry;
  geometry.band_blocks.assign(identity.band_count,
                              static_cast<std::uint32_t>(identity.band_bytes / kBlockBytes));
  geometry.band_kinds.assign(identity.band_count, device::BandKind::kShingled);
  geometry.super_bands = identity.super_bands;
  return geometry;
}

device::Geometry geometry_of(const edi::CreateOptions& image) {
  device::Geometry geometry;
  geometry.block_bytes = image.block_bytes;
  for (const edi::Zone& zone : image.zones) {
    geometry.band_blocks.insert(geometry.band_blocks.end(), zone.count, zone.band_blocks);
  }
  geometry.band_kinds.assign(geometry.band_blocks.size(), device::BandKind::kShingled);
  return geometry;
}

void require_plan(const std::string& what, const device::Geometry& geometry,
                  const mkfs::Options& options, const device::Capabilities& capabilities = {}) {
  const auto plan = mkfs::plan_layout(geometry, options, capabilities);
  if (plan) return;
  const std::string why(describe(plan.error()));
  switch (plan.error()) {
    case Errc::kMkfsTooFewBands:
      throw Trouble(what, why + ": " + std::to_string(geometry.band_count()) + ", but at least " +
                              std::to_string(mkfs::min_bands(capabilities)) + " of " +
                              std::to_string(meta::kMinLogBandBlocks) +
                              " blocks are needed (give more room or a smaller --band-size)");
    case Errc::kMkfsLogTooLarge: throw Trouble(what, why + " (give a smaller --log-size)");
    default: throw Trouble(what, why);
  }
}

// ---- what the device holds ----------------------------------------------------------------------

bool holds_data(device::Device& device) {
  for (std::uint32_t band = 0; band < device.geometry().band_count(); ++band) {
    if (device.geometry().band_kinds[band] != device::BandKind::kShingled) continue;
    if (device.write_pointer(BandId{band}).value_or(0) > 0) return true;
  }
  return false;
}

// For an EDI or a zoned disk, whose write pointers show whether it holds data.
void refuse_contents(const Arguments& arguments, device::Device& device) {
  const auto found = meta::read_superblock(device);
  const bool is_filesystem = found || found.error() == Errc::kSuperblockBad ||
                             found.error() == Errc::kSuperblockVersion ||
                             found.error() == Errc::kSuperblockNewer;
  if (is_filesystem && !arguments.force) {
    throw Trouble(arguments.device, "holds a lazyfs already" + kLoss);
  }
  if (!is_filesystem && found.error() != Errc::kNoFilesystem && !arguments.force) {
    throw Trouble(arguments.device, found.error());
  }
  if (!is_filesystem && holds_data(device) && !arguments.force) {
    throw Trouble(arguments.device, "its bands hold data, perhaps of a damaged lazyfs" + kLoss);
  }
}

// An existing EDI keeps its geometry.
void plan_for_image(const Arguments& arguments, device::Device& image, const Plan& plan) {
  refuse_contents(arguments, image);
  if (!arguments.band_size.empty() && !arguments.force) {
    throw Trouble("--band-size " + arguments.band_size,
                  "an EDI keeps its geometry (-f makes a new one)");
  }
  require_plan(arguments.device, image.geometry(), plan.options);
}

void plan_for_file(const Arguments& arguments, const Backing& file, Plan& plan) {
  const auto bytes = file.size_bytes();
  if (!bytes) throw Trouble(arguments.device, bytes.error());
  if (*bytes == 0) throw Trouble(arguments.device, "an empty file (give SIZE to make an image)");
  if (!arguments.force) {
    if (const auto contents = find_contents(arguments.device)) {
      throw Trouble(arguments.device, "holds " + *contents + " already" + kLoss);
    }
  }
  plan.image = choose_image(arguments.device, *bytes, arguments.band_size);
  require_plan(arguments.device, geometry_of(*plan.image), plan.options);
}

// The zones are the bands.
void plan_for_zoned_device(const Arguments& arguments, const Backing& held, const Plan& plan) {
  if (!arguments.band_size.empty()) {
    throw Trouble("--band-size " + arguments.band_size, "a zoned device's bands are its zones");
  }
  const auto device = zoned::open(arguments.device, {.read_only = true, .held = &held});
  if (!device) throw Trouble(arguments.device, device.error());
  refuse_contents(arguments, **device);
  require_plan(arguments.device, (*device)->geometry(), plan.options, (*device)->capabilities());
}

void plan_for_block_device(const Arguments& arguments, const Backing& held, Plan& plan) {
  if (held.is_zoned()) return plan_for_zoned_device(arguments, held, plan);
  const auto bytes = held.size_bytes();
  if (!bytes) throw Trouble(arguments.device, bytes.error());
  if (!arguments.force) {
    if (const auto contents = find_contents(arguments.device)) {
      throw Trouble(arguments.device, "holds " + *contents + " already" + kLoss);
    }
  }
  plan.plain = choose_volume(arguments, *bytes);
  plan.plain->uuid = plan.options.uuid;
  plan.plain->label = plan.options.label;
  plan.plain->created_seconds =
      static_cast<std::uint64_t>(std::max<std::int64_t>(system_clock().now().seconds, 0));
  require_plan(arguments.device, geometry_of(*plan.plain), plan.options, kPlainDevice);
}

void plan_for_new_file(const Arguments& arguments, const std::optional<Backing>& held, Plan& plan) {
  if (held && held->is_block_device()) {
    throw Trouble(arguments.device, "SIZE is for a new image file, and this is no file");
  }
  if (held && !arguments.force) {
    throw Trouble(arguments.device, "the file exists (-f replaces it)");
  }
  plan.image =
      choose_image("SIZE " + arguments.size, size_of("SIZE", arguments.size), arguments.band_size);
  require_plan("SIZE " + arguments.size, geometry_of(*plan.image), plan.options);
}

void plan_for_existing(const Arguments& arguments, const Backing& held, Plan& plan) {
  if (held.is_block_device()) return plan_for_block_device(arguments, held, plan);
  auto image = edi::open_image(arguments.device, {.read_only = true, .held = &held});
  const bool new_geometry = arguments.force && !arguments.band_size.empty();
  if (image && !new_geometry) {
    const auto whole = device::WholeBlocks::make(*std::move(image));
    if (!whole) throw Trouble(arguments.device, whole.error());
    return plan_for_image(arguments, **whole, plan);
  }
  if (image) return plan_for_file(arguments, held, plan);
  switch (image.error()) {
    case Errc::kEdiBadMagic: return plan_for_file(arguments, held, plan);
    case Errc::kEdiBadVersion:
    case Errc::kEdiBadChecksum:
    case Errc::kEdiBadHeader:
    case Errc::kDeviceTruncated:
      if (!arguments.force) {
        throw Trouble(arguments.device, "holds an image, perhaps of a damaged lazyfs: " +
                                            std::string(describe(image.error())) + kLoss);
      }
      return plan_for_file(arguments, held, plan);
    default: throw Trouble(arguments.device, image.error());
  }
}

Plan plan_for(const Arguments& arguments, const std::optional<Backing>& held) {
  Plan plan;
  plan.options = options_of(arguments);
  if (arguments.size.empty()) {
    plan_for_existing(arguments, *held, plan);
  } else {
    plan_for_new_file(arguments, held, plan);
  }
  return plan;
}

// ---- doing it -----------------------------------------------------------------------------------

std::string discard_text(const mkfs::Options& options, const mkfs::Made& made, bool discards) {
  if (!options.discard) return "nothing (-K)";
  if (!discards) return "nothing: a reset zone needs none";
  std::string text = made.bytes_discarded > 0 ? size_text(made.bytes_discarded) : "nothing";
  if (made.discard_error) text += ": " + std::string(describe(*made.discard_error));
  return text;
}

void print_summary(const Arguments& arguments, const device::Device& device,
                   const mkfs::Options& options, const mkfs::Made& made) {
  const device::Geometry& geometry = device.geometry();
  const mkfs::Layout& plan = made.layout;
  std::printf("%s: lazyfs%s%s, UUID %s\n", arguments.device.c_str(),
              options.label.empty() ? "" : " ", options.label.c_str(),
              uuid_text(options.uuid).c_str());
  const auto bytes = [](std::uint64_t blocks) { return size_text(blocks * kBlockBytes); };
  std::printf("  bands    %u, the largest of %s\n", geometry.band_count(),
              bytes(*std::ranges::max_element(geometry.band_blocks)).c_str());
  std::printf("  log      %zu bands between %u and %u, %s\n", plan.log_bands.size(),
              plan.log_bands.front().value, plan.log_bands.back().value,
              bytes(plan.log_blocks).c_str());
  std::printf("  files    %u bands, %s\n", plan.data_bands, bytes(plan.data_blocks).c_str());
  if (!made.dead_bands.empty()) {
    std::printf("  left out %s (read-only or offline)\n", bands_text(made.dead_bands).c_str());
  }
  const bool discards = device.capabilities().discards;
  std::printf("  discard  %s\n", discard_text(options, made, discards).c_str());
}

// The device or file, open for writing and claimed; nullopt if nothing exists there and SIZE is
// given.
std::optional<Backing> open_claimed(const Arguments& arguments, const BlockDeviceClaim& claim) {
  if (claim.is_busy()) throw Trouble(arguments.device, Errc::kDeviceBusy);
  auto opened = Backing::open(arguments.device, false,
                              claim.is_held() ? Backing::Claim::kNone : Backing::Claim::kExclusive);
  if (opened) return *std::move(opened);
  if (opened.error() != Errc::kDeviceMissing) throw Trouble(arguments.device, opened.error());
  if (!arguments.size.empty()) return std::nullopt;
  throw Trouble(arguments.device, std::string(describe(opened.error())) +
                                      " (give SIZE to make an image file)");
}

// A new image file is claimed, too.
void make_device(const Arguments& arguments, const Plan& plan, std::optional<Backing>& held) {
  Result<> made;
  if (plan.image && held) made = edi::overwrite(*held, *plan.image);
  if (plan.image && !held) {
    auto image = edi::create_claimed(arguments.device, *plan.image);
    if (!image) throw Trouble(arguments.device, image.error());
    held.emplace(*std::move(image));
  }
  if (plan.plain) made = plain::create(*held, *plan.plain);
  if (!made) throw Trouble(arguments.device, made.error());
}

void make_filesystem(const Arguments& arguments, const Plan& plan, device::Device& device) {
  ProgressLine line(arguments.quiet && arguments.progress == "auto" ? "never" : arguments.progress);
  const auto made = mkfs::make_filesystem(
      device, plan.options, system_clock(),
      [&](std::string_view stage, std::uint64_t done, std::uint64_t total) {
        line.show({.stage = stage, .done = done, .total = total});
      });
  line.clear();
  if (!made) throw Trouble(arguments.device, made.error());
  if (!arguments.quiet) print_summary(arguments, device, plan.options, *made);
}

// The device stays claimed from the first look at it to the end.
void run(const Arguments& arguments) {
  const BlockDeviceClaim claim(arguments.device);
  std::optional<Backing> held = open_claimed(arguments, claim);
  const bool is_new_file = !held;
  const Plan plan = plan_for(arguments, held);
  make_device(arguments, plan, held);
  try {
    const auto device = disk::open(arguments.device, {.held = &*held});
    if (!device) throw Trouble(arguments.device, device.error());
    make_filesystem(arguments, plan, **device);
  } catch (const std::exception&) {
    if (is_new_file) unlink(arguments.device.c_str());
    throw;
  }
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine app(
      "mkfs.lazyfs",
      "Makes a lazyfs on a block device or in an image file (EDI); with SIZE a new image file is "
      "made.",
      LAZYFS_VERSION);
  Arguments arguments;
  app.flag("-f,--force", arguments.force, "overwrite existing contents");
  app.flag("-q,--quiet", arguments.quiet, "print nothing");
  app.flag("-K,--nodiscard", arguments.keep_blocks,
           "do not discard the blocks of the device (TRIM; of a file: make holes)");
  app.option("-L,--label", arguments.label, "name of the filesystem, at most 63 bytes");
  app.option("-U,--uuid", arguments.uuid, "instead of a random one");
  app.option("--band-size", arguments.band_size,
             "of a block device or a new EDI; 256M, less on a small device so that there are 128 "
             "bands");
  app.option("--log-size", arguments.log_size,
                 "of the metadata log; a 64th of the device, at most 16G, at least 4 bands");
  app.option("--progress", arguments.progress, "how progress is shown on standard error")
      .one_of(kProgressForms)
      .with_default();
  app.option("DEVICE", arguments.device, "block device or image file").required();
  app.option("SIZE", arguments.size, "of a new image file, as 10G");
  if (const auto status = app.parse(argc, argv)) return *status;

  try {
    run(arguments);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "mkfs.lazyfs: %s\n", e.what());
    return 1;
  }
  return 0;
}
