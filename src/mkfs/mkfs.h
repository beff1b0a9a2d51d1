// Making a filesystem on a banded device: which bands hold what, and the tree's first items.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "device/device.h"
#include "fs/item/attributes.h"
#include "meta/log/superblock.h"

namespace lazyfs::mkfs {

// The super bands, which the device's geometry names, hold superblocks and nothing else.
inline constexpr std::uint32_t kSuperBands = 2;
// The metadata log cannot be cleaned with fewer; meta::min_log_bands() of a device.
inline constexpr std::uint32_t kMinLogBands = 4;
// Four that cleaning and the growing log keep back, and two for files.
inline constexpr std::uint32_t kMinDataBands = 6;
inline constexpr std::uint32_t kMinBands = kSuperBands + kMinLogBands + kMinDataBands;
// kMinBands, or one more on a device whose log needs a rescue band.
std::uint32_t min_bands(const device::Capabilities& capabilities);

struct Options {
  std::string label;  // at most meta::kMaxLabelBytes
  meta::Uuid uuid{};
  std::uint64_t log_bytes = 0;  // of the metadata log, rounded up to bands; 0: default_log_blocks()
  fs::Owner owner;              // of the root directory
  std::uint64_t name_seed = 0;  // secret and random: InodeRecord::name_seed of the root
  bool discard = true;          // every band, before anything is written
};

// Which bands hold what.
struct Layout {
  std::vector<BandId> log_bands;  // ascending; those nearest to the middle of the device
  std::uint64_t log_blocks = 0;
  std::uint32_t data_bands = 0;
  std::uint64_t data_blocks = 0;
  friend bool operator==(const Layout&, const Layout&) = default;
};

struct Made {
  Layout layout;
  std::vector<BandId> dead_bands;  // ascending; read-only or offline, so the layout is without them
  std::uint64_t bytes_discarded = 0;
  std::optional<Errc> discard_error;  // why discarding ended early; not an error of mkfs
};

// A 64th of the device, at most 16 GiB: docs/checking.md says why. The log takes further bands when
// it needs them.
std::uint64_t default_log_blocks(std::uint64_t device_blocks);

// Pure. Errors: kMkfsBlockSize, kMkfsLabelTooLong, kMkfsSuperBands, kMkfsTooFewBands,
// kMkfsLogTooLarge, kFewOpenBands.
// A device that keeps no write pointers needs one log band more: the log's rescue band.
Result<Layout> plan_layout(const device::Geometry& geometry, const Options& options,
                           const device::Capabilities& capabilities = {});

// Gets, after each band, which stage runs ("reset", "discard") and how many of its bands are done.
using ProgressListener =
    std::function<void(std::string_view stage, std::uint64_t done, std::uint64_t total)>;

// Resets and discards every shingled band, whatever the device holds, and makes an empty
// filesystem, durable. A failure or a power cut leaves no filesystem or the whole one: the
// superblocks are written last. Bands that are read-only or offline are left out of the layout
// (Made::dead_bands). Errors: those of plan_layout() and of the device.
Result<Made> make_filesystem(device::Device& device, const Options& options,
                             Clock& clock = system_clock(),
                             const ProgressListener& progress = {});

}  // namespace lazyfs::mkfs
