// Writes inputs for the fuzz targets that are right in every respect, for fuzzers to begin with:
//   fuzz_seeds FOLDER      FOLDER/TARGET/seed-N
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "edi/format0.h"
#include "edi/format1.h"
#include "test/fsck/sample_volume.h"
#include "fuzz/targets.h"
#include "meta/log/log_format.h"
#include "meta/tree/node_page.h"
#include "tools/command_line.h"

namespace lazyfs::fuzz {
namespace {

class Seeds {
 public:
  explicit Seeds(std::filesystem::path folder) : folder_(std::move(folder)) {}

  void put(const std::string& target, std::string bytes) {
    std::filesystem::create_directories(folder_ / target);
    std::ofstream file(folder_ / target / ("seed-" + std::to_string(counts_[target]++)),
                       std::ios::binary);
    file << bytes;
  }

 private:
  std::filesystem::path folder_;
  std::map<std::string, int> counts_;
};

std::string text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
std::string without_zeros(Bytes bytes) {
  std::string text = text_of(bytes);
  text.resize(text.find_last_not_of('\0') + 1);
  return text;
}
std::string byte(unsigned value) { return {static_cast<char>(value)}; }

void put_block(Seeds& seeds, Bytes block) {
  const std::string magic = text_of(block.first(4));
  if (magic == "LZSB") seeds.put("superblock", without_zeros(block));
  if (magic == "LZBH") seeds.put("log", byte(0) + without_zeros(block));
  if (magic == "LZDE") seeds.put("log", byte(1) + without_zeros(block));
  if (magic == "LZDC") seeds.put("log", byte(2) + without_zeros(block));
  if (magic == "LZCM") seeds.put("log", byte(3) + without_zeros(block));
  if (magic == "LZSN") {
    const auto bytes = load_le_at<std::uint32_t>(block, 28);
    seeds.put("log", byte(4) + text_of(block.subspan(32, bytes)));
  }
  if (magic == "LZND") {
    const std::size_t heap_at = load_le_at<std::uint16_t>(block, 28);
    const std::size_t front = meta::kNodeHeaderBytes +
                              meta::kSlotBytes * std::size_t{load_le_at<std::uint16_t>(block, 26)};
    seeds.put("node", byte(front & 0xFF) + byte(front >> 8) + text_of(block.first(front)) +
                          text_of(block.subspan(heap_at)));
  }
}

void volume(Seeds& seeds) {
  fsck::SampleVolume sample;
  const auto items = sample.store->scan({}, {~std::uint64_t{0}, 255, meta::kMaxOffset}, 1000);
  std::map<std::pair<std::uint8_t, bool>, int> kinds;
  for (const meta::Item& item : *items) {
    const auto record = fs::decode_map_record(item.value);
    const bool is_reference = record && std::holds_alternative<fs::ReferenceRecord>(*record);
    if (++kinds[{item.key.kind, is_reference}] > 3) continue;
    seeds.put("items", byte(item.key.kind) + text_of(meta::bytes_of(item.value)));
  }
  ignore_error(sample.store->close(), "what was committed is enough");
  sample.store.reset();
  AlignedBuffer block(kBlockBytes);
  for (std::uint32_t band = 0; band < sample.device->geometry().band_count(); ++band) {
    for (std::uint32_t rba = 0; rba < *sample.device->write_pointer(BandId{band}); ++rba) {
      sample.device->peek({BandId{band}, rba}, block.span());
      put_block(seeds, block.span());
    }
  }
}

void images(Seeds& seeds) {
  edi::Header header;
  header.zones = {{10, 100}, {20, 50}};
  header.conventional = {{0, 1}};
  header.links = {{4, 6}};
  header.table_before = 12;
  AlignedBuffer area = AlignedBuffer::zeroed(edi::kHeaderAreaBytes);
  edi::encode_header1(header, area.span().first<edi::kHeaderAreaBytes>());
  seeds.put("edi", byte(1) + without_zeros(area.span()));
  AlignedBuffer old = AlignedBuffer::zeroed(kBlockBytes);
  edi::Header header0;
  header0.version = 0;
  header0.zones = {{30, 40}};
  edi::encode_header0(header0, old.span().first<edi::kHeader0Bytes>());
  seeds.put("edi", byte(0) + without_zeros(old.span()));
  const std::uint32_t pointers[] = {1, 2, 3};
  edi::encode_table_block({2, 7, 9, pointers}, old.span().first<edi::kTableBlockBytes>());
  seeds.put("edi", byte(2) + without_zeros(old.span()));
}

void changes(Seeds& seeds) {
  for (const unsigned volume : {0, 1}) {
    seeds.put("image", byte(volume));
    for (unsigned what = 4; what < 8; ++what) {  // a text, another block, a write pointer, zeros
      const std::string change =
          byte(what) + byte(5 + what) + byte(0) + std::string("\x20\x00\x03\x01\x02\x03\x04", 7);
      seeds.put("image", byte(volume) + change);
    }
  }
}

}  // namespace
}  // namespace lazyfs::fuzz

int main(int argc, char** argv) {
  lazyfs::CommandLine app(
      "fuzz_seeds",
      "Writes inputs for the fuzz targets that are right in every respect.",
      nullptr);
  std::string folder;
  app.option("FOLDER", folder, "where to").required();
  if (const auto status = app.parse(argc, argv)) return *status;
  lazyfs::fuzz::Seeds seeds(folder);
  lazyfs::fuzz::volume(seeds);
  lazyfs::fuzz::images(seeds);
  lazyfs::fuzz::changes(seeds);
  return 0;
}
