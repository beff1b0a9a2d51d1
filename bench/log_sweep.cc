// Measures a small and a full metadata log: log_sweep IMAGE [--scale S].
//
// size: makes 100,000 files in 60,000 directories on volumes whose logs begin with 16 MiB to 1 GiB
// (ext4-lazy, figure 6, where a small journal was 46 times slower). Makes IMAGE as a new sparse
// file and removes it at the end.
// cleaning: a share of the blocks of a log that cannot grow is live. Changes nodes at random,
// either uniformly or mostly a tenth of them.
// files: makes files in such a log, and then replaces files in a few directories at a time, as
// programs do (ext4-lazy, section 4.4).
// cleaning and files count the blocks written for each changed node, on a device in memory.
//
// Prints JSON.
#include <unistd.h>

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "bench.h"
#include "device/memory.h"
#include "edi/create.h"
#include "edi/image.h"
#include "mkfs/mkfs.h"
#include "fs/volume/volume.h"
#include "meta/store/store.h"
#include "tools/command_line.h"

namespace {

using namespace lazyfs;
using namespace lazyfs::bench;
using Json = nlohmann::ordered_json;

// ---- Size ---------------------------------------------------------------------------------------

Json run_size(const std::string& image, std::uint64_t log_mib, double scale) {
  constexpr std::uint32_t kBandBlocks = 1024;
  edi::CreateOptions options{.zones = {{4096, kBandBlocks}}, .overwrite = true};
  must(edi::create(image, options), "creating the image");
  const auto device = must(edi::open_image(image), "opening the image");
  mkfs::Options format;
  format.log_bytes = log_mib << 20;
  must(mkfs::make_filesystem(*device, format), "format");
  const auto volume = must(fs::Volume::mount(*device, fs::MountOptions{}), "mount");
  const auto directories = static_cast<std::uint64_t>(60'000 * scale);
  const auto files = static_cast<std::uint64_t>(100'000 * scale);
  const double begin = now_us();
  std::vector<InodeNo> inodes;
  for (std::uint64_t d = 0; d < directories; ++d) {
    const std::string name = "directory-" + std::to_string(d);
    inodes.push_back(must(volume->make_directory(fs::kRootInode, name, 0755, {}), "mkdir").inode);
  }
  for (std::uint64_t f = 0; f < files; ++f) {
    const InodeNo in = inodes[f % directories];
    const auto file = must(volume->create(in, "file-" + std::to_string(f), 0644, {}), "create");
    volume->release(file.file);
    volume->forget(file.attributes.inode, 1);
  }
  must(volume->sync(), "sync");
  const double seconds = (now_us() - begin) / 1e6;
  const auto meta = Json::parse(volume->stats_json())["metadata"];
  must(volume->unmount(), "unmount");
  ::unlink(image.c_str());
  return {{"log_mib", log_mib},
          {"seconds", seconds},
          {"log_mib_written", meta["log_bytes_written"].get<double>() / (1 << 20)},
          {"log_mib_at_the_end", meta["log_total_blocks"].get<double>() / 256},
          {"log_write_amplification", meta["log_write_amplification"]}};
}

// ---- Cleaning -----------------------------------------------------------------------------------

// An empty log that cannot grow.
std::unique_ptr<device::MemoryDevice> device_with_log(double scale) {
  constexpr std::uint32_t kBands = 32;
  const auto blocks = static_cast<std::uint32_t>(std::max(256.0, 1024 * scale));
  auto device = device::MemoryDevice::uniform(kBands + 2, blocks);
  meta::Superblock superblock;
  for (std::uint32_t i = 0; i < kBands; ++i) superblock.log_bands.push_back(BandId{2 + i});
  must(meta::Store::format(*device, superblock), "format");
  return device;
}

double log_blocks(const device::Device& device) {
  const auto& geometry = device.geometry();
  return (geometry.band_count() - 2) * static_cast<double>(geometry.blocks_of(BandId{2}));
}

void put(meta::Store& store, std::uint64_t key, char letter) {
  const std::vector<std::byte> value(1000, static_cast<std::byte>(letter));
  meta::Batch batch;
  batch.put({1, 1, key}, value);
  must(store.apply(batch), "apply");
}

Json run_cleaning(double live_share, double hot_share, double scale) {
  const auto device = device_with_log(scale);
  meta::StoreOptions options;
  options.background = false;
  options.cache_bytes = std::size_t{256} << 20;
  options.transaction_bytes = std::size_t{256} * kBlockBytes;
  const auto store = must(meta::Store::open(*device, options), "open");
  const double lap = log_blocks(*device);
  std::uint64_t keys = 0;  // three to a node
  while (static_cast<double>(store->stats().jmap_entries) < live_share * lap) {
    for (int i = 0; i < 30; ++i) put(*store, keys++, 'a');
    must(store->commit(), "commit");
  }
  std::mt19937_64 random(1);
  const auto hot = static_cast<std::uint64_t>(static_cast<double>(keys) * 0.1);
  std::bernoulli_distribution is_hot(hot_share);
  const auto work = [&](double laps) {
    const double stop = static_cast<double>(store->stats().log_blocks_written) + laps * lap;
    std::uint64_t changes = 0;
    while (static_cast<double>(store->stats().log_blocks_written) < stop) {
      for (int i = 0; i < 100; ++i, ++changes) {
        const bool is_hot_one = hot_share > 0 && is_hot(random);
        const std::uint64_t key = is_hot_one ? random() % hot : random() % keys;
        put(*store, key, static_cast<char>('a' + random() % 26));
      }
      must(store->commit(), "commit");
    }
    return changes;
  };
  work(3);  // reaches a steady state
  const meta::StoreStats before = store->stats();
  const double begin = now_us();
  const auto changes = static_cast<double>(work(3));
  const double took = (now_us() - begin) / 1e6;
  const meta::StoreStats after = store->stats();
  const auto written = static_cast<double>(after.log_blocks_written - before.log_blocks_written);
  const auto nodes = static_cast<double>(after.nodes_written - before.nodes_written);
  const auto cleaned = static_cast<double>(after.nodes_cleaned - before.nodes_cleaned);
  return {{"live_share", live_share},
          {"hot_share", hot_share},
          {"log_write_amplification", written / (nodes - cleaned)},
          {"us_each_change", took / changes * 1e6},
          {"cold_bands", after.log_cold_bands},
          {"bands_adopted", after.bands_adopted}};
}

// ---- Files ----------------------------------------------------------------------------------

// Makes a file as a filesystem does: an inode, an entry by hash and one by number, and the counters
// of the directory; 100 files per directory.
class Files {
 public:
  explicit Files(meta::Store& store) : store_(store) {}
  void make() { make(next_++); }
  void replace(std::uint64_t old) {
    meta::Batch batch;
    batch.erase({inode_of(old), 1, 0});
    batch.erase({directory_of(old), 2, hash_of(old)});
    batch.erase({directory_of(old), 3, old % 100 + 1});
    must(store_.apply(batch), "apply");
    make(old);
  }
  std::uint64_t count() const { return next_; }

 private:
  static std::uint64_t inode_of(std::uint64_t i) { return 1'000'000 + i + i / 100; }
  static std::uint64_t directory_of(std::uint64_t i) { return 1'000'000 + i / 100 * 101 + 100; }
  static std::uint64_t hash_of(std::uint64_t i) { return (i + 1) * 0x9E3779B97F4A7C15ull >> 8; }
  void make(std::uint64_t i) {
    const std::vector<std::byte> value(128, std::byte{42});
    const auto bytes = std::span(value);
    meta::Batch batch;
    batch.put({inode_of(i), 1, 0}, bytes);
    batch.put({directory_of(i), 2, hash_of(i)}, bytes.first(34));
    batch.put({directory_of(i), 3, i % 100 + 1}, bytes.first(34));
    batch.add({directory_of(i), 1, 0}, std::array<std::int64_t, 4>{1, 1, 1, 1});
    must(store_.apply(batch), "apply");
  }
  meta::Store& store_;
  std::uint64_t next_ = 0;
};

// Makes files in a log that cannot grow until the requested share of the log is live. Then replaces
// files in `directories` directories at a time, and changes these directories after every 10,000
// files.
Json run_files(double live_share, std::uint64_t directories, double scale) {
  const auto device = device_with_log(scale);
  const auto store =
      must(meta::Store::open(
               *device, {.transaction_bytes = std::size_t{256} * kBlockBytes, .background = false}),
           "open");
  const double lap = log_blocks(*device);
  Files files(*store);
  const auto written = [&] { return static_cast<double>(store->stats().log_blocks_written); };
  const auto changed = [&] {
    const meta::StoreStats stats = store->stats();
    return static_cast<double>(stats.nodes_written - stats.nodes_cleaned);
  };
  while (static_cast<double>(store->stats().jmap_entries) < live_share * lap) {
    for (int i = 0; i < 200; ++i) files.make();
    must(store->commit(), "commit");
  }
  const double made_blocks = written(), made_nodes = changed();
  std::mt19937_64 random(1);
  double begin_blocks = 0, begin_nodes = 0;
  std::uint64_t done = 0, first = 0;
  for (const double stop : {made_blocks + 2 * lap, made_blocks + 5 * lap}) {
    begin_blocks = written();
    begin_nodes = changed();
    while (written() < stop) {
      for (int i = 0; i < 200; ++i, ++done) {
        if (done % 10'000 == 0) first = random() % (files.count() / 100);
        const std::uint64_t directory = (first + random() % directories) % (files.count() / 100);
        files.replace(directory * 100 + random() % 100);
      }
      must(store->commit(), "commit");
    }
  }
  return {{"live_share", live_share},
          {"directories_at_once", directories},
          {"making", made_blocks / made_nodes},
          {"replacing", (written() - begin_blocks) / (changed() - begin_nodes)}};
}

}  // namespace

int main(int argc, char** argv) {
  std::string image;
  double scale = 1;
  CommandLine app("log_sweep", "The metadata log when it is small, and when it is full.", nullptr);
  app.option("image", image, "new file, removed at the end").required();
  app.option("--scale", scale, "of the load and the log").with_default();
  std::vector<double> live_shares{0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8};
  std::vector<std::uint64_t> log_mib{16, 64, 256, 1024};
  app.option("--live", live_shares, "live shares of a log that is cleaned; 0: none");
  app.option("--size", log_mib, "MiB of the logs that files are made in; 0: none");
  if (const auto status = app.parse(argc, argv)) return *status;
  std::erase(live_shares, 0.0);
  std::erase(log_mib, 0u);
  Json result;
  for (const double live : live_shares) {
    for (const double hot : {0.0, 0.9}) {
      result["cleaning"].push_back(run_cleaning(live, hot, scale));
    }
  }
  for (const double live : live_shares) {
    if (live <= 0.75) result["files"].push_back(run_files(live, 100, scale));
  }
  for (const std::uint64_t mib : log_mib) {
    result["size"].push_back(run_size(image, mib, scale));
  }
  std::printf("%s\n", result.dump(1).c_str());
}
