// Shows what an Emulated Disk Image says of itself: header, zones, links and every band.
#include <cstdio>
#include <string>

#include "base/json.h"
#include "base/size.h"
#include "edi/image.h"
#include "tools/command_line.h"

namespace {

using namespace lazyfs;

std::string uuid_text(const edi::Uuid& uuid) {
  std::string text;
  for (std::size_t i = 0; i < uuid.size(); ++i) {
    char hex[3];
    std::snprintf(hex, sizeof hex, "%02x", std::to_integer<unsigned>(uuid[i]));
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += hex;
  }
  return text;
}

Json ranges(const std::vector<edi::BandRange>& list) {
  Json out = Json::array();
  for (const auto& [first, last] : list) {
    out.push_back(Json::object({{"first", first}, {"last", last}}));
  }
  return out;
}

Json describe_band(edi::Image& image, std::uint32_t band) {
  const auto report = image.report(BandId{band});
  if (!report) return {};  // every band below the count has a report
  return Json::object({{"band", band},
                       {"kind", to_string(report->kind)},
                       {"condition", to_string(report->condition)},
                       {"blocks", report->blocks},
                       {"write_pointer", report->write_pointer},
                       {"offset", image.layout().band_starts[band]}});
}

Json describe_image(edi::Image& image) {
  const edi::Layout& layout = image.layout();
  Json out = Json::object({{"device", image.name()},
                           {"magic", edi::kMagic},
                           {"format", layout.header.version}});
  if (layout.header.version != 0) out["uuid"] = uuid_text(layout.header.uuid);
  out["block_size"] = layout.geometry.block_bytes;
  out["band_count"] = layout.geometry.band_count();
  out["blocks"] = layout.geometry.total_blocks();
  out["image_bytes"] = layout.image_bytes;
  out["table_offset"] = layout.table_start;
  out["zones"] = Json::array();
  for (const edi::Zone& zone : layout.header.zones) {
    out["zones"].push_back(Json::object({{"count", zone.count}, {"blocks", zone.band_blocks}}));
  }
  out["conventional"] = ranges(layout.header.conventional);
  out["links"] = ranges(layout.header.links);
  out["bands"] = Json::array();
  for (std::uint32_t band = 0; band < layout.geometry.band_count(); ++band) {
    out["bands"].push_back(describe_band(image, band));
  }
  return out;
}

unsigned long long whole(const Json& value) { return value.number(); }

void print_text(const Json& image) {
  std::printf("EDI Image:     %s\n", image["device"].text().c_str());
  std::printf("Magic:         0x%llX\n", whole(image["magic"]));
  std::printf("Format:        %llu\n", whole(image["format"]));
  if (image.contains("uuid")) {
    std::printf("UUID:          %s\n", image["uuid"].text().c_str());
  }
  std::printf("Block size:    %llu\n", whole(image["block_size"]));
  std::printf("Bands:         %llu\n", whole(image["band_count"]));
  std::printf("Capacity:      %s\n",
              size_text(whole(image["blocks"]) * whole(image["block_size"])).c_str());
  std::printf("Image size:    %s\n", size_text(whole(image["image_bytes"])).c_str());
  std::printf("Pointer table: at byte %llu\n", whole(image["table_offset"]));
  for (const Json& zone : image["zones"].items()) {
    std::printf("Zone:          %llu bands of %llu blocks\n", whole(zone["count"]),
                whole(zone["blocks"]));
  }
  for (const Json& range : image["conventional"].items()) {
    std::printf("Conventional:  %llu-%llu\n", whole(range["first"]), whole(range["last"]));
  }
  for (const Json& range : image["links"].items()) {
    std::printf("Linked:        %llu-%llu\n", whole(range["first"]), whole(range["last"]));
  }
  std::printf("\n%8s  %-12s  %-9s  %10s  %13s\n", "Band", "Kind", "Condition", "Blocks",
              "Write pointer");
  for (const Json& band : image["bands"].items()) {
    std::printf("%8llu  %-12s  %-9s  %10llu  %13llu\n", whole(band["band"]),
                band["kind"].text().c_str(),
                band["condition"].text().c_str(), whole(band["blocks"]),
                whole(band["write_pointer"]));
  }
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine app(
      "edidump",
      "Shows the header, the geometry and every band of an Emulated Disk Image.",
      LAZYFS_VERSION);
  std::string device;
  bool as_json = false;
  app.flag("--json", as_json, "as one JSON object");
  app.option("DEVICE", device, "image file or block device").required();
  if (const auto status = app.parse(argc, argv)) return *status;

  // Looking takes no claim: a mounted device can be looked at too.
  const auto image = edi::open_image(device, {.read_only = true, .exclusive = false});
  if (!image) {
    std::fprintf(stderr, "edidump: %s: %s\n", device.c_str(),
                 std::string(describe(image.error())).c_str());
    return 1;
  }
  const Json description = describe_image(**image);
  if (as_json) {
    std::printf("%s\n", description.dump(true).c_str());
  } else {
    print_text(description);
  }
  return 0;
}
