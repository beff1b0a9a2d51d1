// Makes an Emulated Disk Image in a new sparse file or on a block device.
#include <cstdio>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/size.h"
#include "device/backing.h"
#include "edi/create.h"
#include "tools/block_device_claim.h"
#include "tools/command_line.h"
#include "tools/contents.h"

namespace {

using namespace lazyfs;

// A message "what: why", followed by advice if there is any.
struct Trouble : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Arguments {
  std::string block_bytes = "4096", band_blocks, bands, file;
  std::vector<std::string> zones, conventional, linked;
  std::uint32_t format = 1;
  bool force = false;
};

template <class T>
T given(const std::string& option, const std::string& text, const Result<T>& value) {
  if (!value) throw Trouble(option + " " + text + ": not understood");
  return *value;
}

std::uint32_t number(const std::string& option, const std::string& text) {
  const std::uint64_t value = given(option, text, parse_size(text));
  if (value > UINT32_MAX) throw Trouble(option + " " + text + ": too large");
  return static_cast<std::uint32_t>(value);
}

std::vector<edi::Zone> zones_of(const Arguments& arguments) {
  std::vector<edi::Zone> zones;
  for (const std::string& text : arguments.zones) {
    const auto cross = text.find('x');
    if (cross == text.npos) throw Trouble("--zone " + text + ": it has the form COUNTxBLOCKS");
    zones.push_back({number("--zone", text.substr(0, cross)),
                     number("--zone", text.substr(cross + 1))});
  }
  if (zones.empty()) {
    if (arguments.band_blocks.empty() || arguments.bands.empty()) {
      throw Trouble("geometry: give -b and -c, or --zone");
    }
    zones.push_back({number("-c", arguments.bands), number("-b", arguments.band_blocks)});
  } else if (!arguments.band_blocks.empty() || !arguments.bands.empty()) {
    throw Trouble("geometry: give either -b and -c or --zone, not both");
  }
  return zones;
}

edi::CreateOptions options_of(const Arguments& arguments) {
  edi::CreateOptions options{.format = arguments.format,
                             .block_bytes = number("-s", arguments.block_bytes),
                             .zones = zones_of(arguments),
                             .overwrite = arguments.force};
  for (const std::string& text : arguments.conventional) {
    const auto [first, last] = given("--conventional", text, parse_range(text));
    if (last >= edi::kMaxBands) throw Trouble("--conventional " + text + ": no such bands");
    for (std::uint32_t band = first; band <= last; ++band) options.conventional.push_back(band);
  }
  for (const std::string& text : arguments.linked) {
    options.linked.push_back(given("--linked", text, parse_range(text)));
  }
  if (options.format == 0 && (options.zones.size() > 1 || !options.conventional.empty() ||
                              !options.linked.empty())) {
    throw Trouble("--format 0: it knows no zones, conventional or linked bands; use --format 1");
  }
  return options;
}

// REQUIRES: the caller has claimed the device.
Result<> write_block_device(const std::string& path, const edi::CreateOptions& options) {
  const auto contents = options.overwrite ? std::nullopt : find_contents(path);
  if (contents) throw Trouble(path + ": holds " + *contents + " already (--force replaces it)");
  ASSIGN_OR_RETURN(auto device,
                   device::Backing::open(path, false, device::Backing::Claim::kNone));
  return edi::overwrite(device, options);
}

// A block device stays claimed from the look at it to the end. edi::create() itself refuses
// existing files.
Result<> make_image(const std::string& path, const edi::CreateOptions& options) {
  const BlockDeviceClaim claim(path);
  if (claim.is_busy()) return fail(Errc::kDeviceBusy);
  return claim.is_held() ? write_block_device(path, options) : edi::create(path, options);
}

std::string hint(Errc error) {
  switch (error) {
    case Errc::kEdiExists: return " (--force replaces it)";
    case Errc::kBadGeometry:
      return " (blocks: a power of two from 512 to 65536 bytes; bands: at most 16777216, "
             "all those named must exist; links: two or more neighbouring shingled bands)";
    default: return "";
  }
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine app(
      "edicreate",
      "Makes an Emulated Disk Image (EDI): a banded, shingled disk in a file.",
      LAZYFS_VERSION);
  Arguments arguments;
  app.option("-s,--block-size", arguments.block_bytes, "size of a block in bytes")
      .with_default();
  app.option("-b,--band-blocks", arguments.band_blocks, "number of blocks of a band");
  app.option("-c,--bands", arguments.bands, "number of bands");
  app.option("-f,--file", arguments.file, "image file, or block device").required();
  app.option("--format", arguments.format, "0: as in the thesis, 1: with zones and checksums")
      .one_of({"0", "1"})
      .with_default();
  app.option("--zone", arguments.zones, "COUNTxBLOCKS: bands of one size; may be repeated");
  app.option("--conventional", arguments.conventional, "unshingled bands, for example 0-3,7")
      .with_commas();
  app.option("--linked", arguments.linked, "A-B: bands joined into one; may be repeated")
      .with_commas();
  app.flag("--force", arguments.force,
           "replace an existing file or image, or what a block device holds");
  if (const auto status = app.parse(argc, argv)) return *status;

  try {
    const edi::CreateOptions options = options_of(arguments);
    if (const auto made = make_image(arguments.file, options); !made) {
      throw Trouble(arguments.file + ": " + std::string(describe(made.error())) +
                    hint(made.error()));
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "edicreate: %s\n", e.what());
    return 1;
  }
  return 0;
}
