// Shows what a device says of itself. An Emulated Disk Image: header, zones, links and every band.
// A plain block device: its identification block and where the bands lie. A zoned block device: its
// limits and every zone.
#include <cstdio>
#include <string>

#include "base/json.h"
#include "base/size.h"
#include "disk/open.h"
#include "edi/image.h"
#include "plain/plain_device.h"
#include "tools/command_line.h"
#include "tools/words.h"
#include "zoned/zoned_device.h"

namespace {

using namespace lazyfs;

std::string uuid_text(std::span<const std::byte, 16> uuid) {
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
                           {"layout", "image"},
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

Json describe_plain(plain::PlainDevice& device) {
  const plain::Identity& identity = device.identity();
  Json out = Json::object({{"device", device.name()}, {"layout", "plain"}});
  out["uuid"] = uuid_text(std::as_bytes(std::span(identity.uuid)));
  out["label"] = identity.label;
  out["block_size"] = identity.block_bytes;
  out["band_count"] = identity.band_count;
  out["blocks"] = device.geometry().total_blocks();
  out["volume_bytes"] = identity.volume_bytes;
  out["band_bytes"] = identity.band_bytes;
  out["super_bands"] = Json::array();
  for (const BandId band : identity.super_bands) out["super_bands"].push_back(band.value);
  out["generation"] = identity.generation;
  out["features"] = Json::object({{"compatible", identity.compat},
                                  {"read_only_compatible", identity.ro_compat},
                                  {"incompatible", identity.incompat}});
  out["identification_good"] = device.found().first_is_good;
  out["copy_good"] = device.found().copy_is_current;
  out["bands"] = Json::array();
  for (std::uint32_t band = 0; band < identity.band_count; ++band) {
    out["bands"].push_back(Json::object({{"band", band},
                                         {"kind", to_string(device::BandKind::kShingled)},
                                         {"blocks", device.geometry().blocks_of(BandId{band})},
                                         {"offset", device.band_at(BandId{band})}}));
  }
  return out;
}

Json describe_zone(std::uint32_t number, const zoned::Zone& zone) {
  const auto blocks = [](std::uint64_t bytes) { return bytes / kBlockBytes; };
  return Json::object({{"band", number},
                       {"kind", to_string(zone.type)},
                       {"condition", to_string(zone.condition)},
                       {"blocks", blocks(zone.size_bytes)},
                       {"capacity", blocks(zone.capacity_bytes)},
                       {"write_pointer", blocks(zone.written_bytes)},
                       {"offset", zone.start_bytes}});
}

Json describe_zoned(zoned::ZonedDevice& device) {
  const device::Geometry& geometry = device.geometry();
  const zoned::DiskLimits limits = device.limits();
  Json out = Json::object({{"device", device.name()}, {"layout", "zoned"}});
  out["block_size"] = kBlockBytes;
  out["write_granularity"] = limits.write_bytes;
  out["band_count"] = geometry.band_count();
  out["blocks"] = geometry.total_blocks();
  out["super_bands"] = Json::array();
  for (const BandId band : geometry.super_bands) out["super_bands"].push_back(band.value);
  out["max_open_zones"] = limits.max_open_zones;
  out["max_active_zones"] = limits.max_active_zones;
  out["max_write_bytes"] = limits.max_write_bytes;
  out["bands"] = Json::array();
  const auto zones = device.zones();
  if (!zones) return out;  // what could not be read is not there
  for (std::uint32_t i = 0; i < zones->size(); ++i) {
    out["bands"].push_back(describe_zone(i, (*zones)[i]));
  }
  return out;
}

Json describe_device(device::Device& device) {
  if (auto* const zoned = dynamic_cast<zoned::ZonedDevice*>(&device)) return describe_zoned(*zoned);
  if (auto* const plain = dynamic_cast<plain::PlainDevice*>(&device)) return describe_plain(*plain);
  return describe_image(*disk::image_of(device));
}

unsigned long long whole(const Json& value) { return value.number(); }

void print_text(const Json& image) {
  std::printf("EDI Image:     %s\n", printable(image["device"].text()).c_str());
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

void print_plain(const Json& device) {
  std::printf("Plain device:   %s\n", printable(device["device"].text()).c_str());
  std::printf("Layout:         plain\n");
  std::printf("UUID:           %s\n", device["uuid"].text().c_str());
  std::printf("Label:          %s\n", printable(device["label"].text()).c_str());
  std::printf("Block size:     %llu\n", whole(device["block_size"]));
  std::printf("Bands:          %llu of %s\n", whole(device["band_count"]),
              size_text(whole(device["band_bytes"])).c_str());
  std::printf("Capacity:       %s\n",
              size_text(whole(device["blocks"]) * whole(device["block_size"])).c_str());
  std::printf("Volume size:    %s\n", size_text(whole(device["volume_bytes"])).c_str());
  std::printf("Super bands:    %llu and %llu\n", whole(device["super_bands"].items()[0]),
              whole(device["super_bands"].items()[1]));
  std::printf("Generation:     %llu\n", whole(device["generation"]));
  std::printf("Write pointers: none are kept; edistats shows what the filesystem knows\n");
  std::printf("\n%8s  %-12s  %10s  %16s\n", "Band", "Kind", "Blocks", "Offset");
  for (const Json& band : device["bands"].items()) {
    std::printf("%8llu  %-12s  %10llu  %16llu\n", whole(band["band"]),
                band["kind"].text().c_str(), whole(band["blocks"]), whole(band["offset"]));
  }
}

std::string limit_text(const Json& limit) {
  return whole(limit) == 0 ? "any number" : std::to_string(whole(limit));
}

void print_zoned(const Json& device) {
  std::printf("Zoned device:   %s\n", printable(device["device"].text()).c_str());
  std::printf("Block size:     %llu, written in units of %llu bytes\n", whole(device["block_size"]),
              whole(device["write_granularity"]));
  std::printf("Zones:          %llu\n", whole(device["band_count"]));
  std::printf("Capacity:       %s\n",
              size_text(whole(device["blocks"]) * whole(device["block_size"])).c_str());
  std::printf("Super bands:    %llu and %llu\n", whole(device["super_bands"].items()[0]),
              whole(device["super_bands"].items()[1]));
  std::printf("May be open:    %s\n", limit_text(device["max_open_zones"]).c_str());
  std::printf("May be active:  %s\n", limit_text(device["max_active_zones"]).c_str());
  std::printf("Largest write:  %s\n", size_text(whole(device["max_write_bytes"])).c_str());
  std::printf("\n%8s  %-20s  %-16s  %10s  %10s  %13s\n", "Zone", "Type", "Condition", "Blocks",
              "Capacity", "Write pointer");
  for (const Json& zone : device["bands"].items()) {
    std::printf("%8llu  %-20s  %-16s  %10llu  %10llu  %13llu\n", whole(zone["band"]),
                zone["kind"].text().c_str(), zone["condition"].text().c_str(),
                whole(zone["blocks"]), whole(zone["capacity"]), whole(zone["write_pointer"]));
  }
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine app(
      "edidump",
      "Shows the header, the geometry and every band of an Emulated Disk Image, a plain block "
      "device or a zoned one.",
      LAZYFS_VERSION);
  std::string device;
  bool as_json = false;
  app.flag("--json", as_json, "as one JSON object");
  app.option("DEVICE", device, "image file or block device").required();
  if (const auto status = app.parse(argc, argv)) return *status;

  // Looking takes no claim: a mounted device can be looked at too.
  const auto opened = disk::open(device, {.read_only = true, .exclusive = false});
  if (!opened) {
    std::fprintf(stderr, "edidump: %s: %s\n", printable(device).c_str(),
                 std::string(describe(opened.error())).c_str());
    return 1;
  }
  const Json description = describe_device(**opened);
  if (as_json) {
    std::printf("%s\n", description.dump(true).c_str());
  } else if (description["layout"].text() == "plain") {
    print_plain(description);
  } else if (description["layout"].text() == "zoned") {
    print_zoned(description);
  } else {
    print_text(description);
  }
  return end_output("edidump", 0);
}
