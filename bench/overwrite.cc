// Measures the write amplification of random overwrites, on a volume on a device in memory, and
// compares it with the theory of greedy cleaning: overwrite [--bands N] [--band-blocks N]
// [--full PERCENT] [--hot PERCENT [--scatter]] [--turnover N] [--seed N]. Prints a line of JSON.
//
// The formula is that of greedy cleaning of large bands under uniformly random overwrites: cleaning
// finds a band whose live share u solves (u - 1) / ln u = live / total, and WA = 1 / (1 - u)
// (Menon, "A performance comparison of RAID-5 and log-structured arrays", HPDC 1995; Desnoyers,
// "Analytic modeling of SSD write performance", SYSTOR 2012, section 3).
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include "bench.h"
#include "device/memory.h"
#include "mkfs/mkfs.h"
#include "fs/volume/volume.h"
#include "tools/command_line.h"

namespace {

using namespace lazyfs;
using namespace lazyfs::bench;

struct Plan {
  std::uint32_t bands = 256, band_blocks = 512;
  double full_percent = 90;  // of the capacity of the bands without the reserve
  double hot_percent = 0;    // of the blocks get 100 - hot_percent % of the writes; 0: uniform
  double turnover = 4;       // measured overwrites in capacities, after as many warm-up overwrites
  bool scatter = false;      // hot blocks are anywhere in the file, not at its start
  std::uint64_t seed = 1;
};

double greedy_amplification(double utilization) {
  double low = 1e-6, high = 1 - 1e-9;
  for (int i = 0; i < 200; ++i) {
    const double u = (low + high) / 2;
    ((u - 1) / std::log(u) < utilization ? low : high) = u;
  }
  return 1 / (1 - low);
}

struct Work {
  std::uint64_t user = 0, moved = 0;
};
Work work_of(fs::Volume& volume) {
  const auto stats = nlohmann::json::parse(volume.stats_json());
  return {stats["data"]["user_blocks_written"], stats["data"]["collector_blocks_written"]};
}

}  // namespace

int main(int argc, char** argv) {
  Plan plan;
  CommandLine app("overwrite", "Write amplification of random overwrites.", nullptr);
  app.option("--bands", plan.bands).with_default();
  app.option("--band-blocks", plan.band_blocks).with_default();
  app.option("--full", plan.full_percent).with_default();
  app.option("--hot", plan.hot_percent).with_default();
  app.option("--turnover", plan.turnover).with_default();
  app.option("--seed", plan.seed).with_default();
  app.flag("--scatter", plan.scatter, "hot blocks are anywhere in the file");
  if (const auto status = app.parse(argc, argv)) return *status;

  auto device = device::MemoryDevice::uniform(plan.bands, plan.band_blocks);
  must(mkfs::make_filesystem(*device, mkfs::Options{}).has_value(), "format");
  fs::MountOptions options;
  options.background = false;
  options.dirty_bytes = std::size_t{2} << 20;
  auto mounted = fs::Volume::mount(*device, options);
  must(mounted.has_value(), "mount");
  fs::Volume& volume = **mounted;
  const auto file = volume.create(fs::kRootInode, "file", 0644, {});
  must(file.has_value(), "create");
  const InodeNo inode = file->attributes.inode;

  const auto space = nlohmann::json::parse(volume.stats_json())["space"];
  const double capacity = space["total_blocks"].get<double>();
  const auto blocks = static_cast<std::uint64_t>(capacity * plan.full_percent / 100);
  const std::vector<std::byte> block(kBlockBytes, std::byte{42});
  const auto write = [&](std::uint64_t at) {
    must(volume.write(inode, at * kBlockBytes, block).has_value(), "write");
  };
  for (std::uint64_t i = 0; i < blocks; ++i) write(i);
  must(volume.sync().has_value(), "sync");

  std::mt19937_64 random(plan.seed);
  std::vector<std::uint64_t> places(blocks);
  std::iota(places.begin(), places.end(), 0);
  if (plan.scatter) std::ranges::shuffle(places, random);
  const auto hot_blocks =
      static_cast<std::uint64_t>(static_cast<double>(blocks) * plan.hot_percent / 100);
  std::bernoulli_distribution is_hot(1 - plan.hot_percent / 100);
  const auto pick = [&]() -> std::uint64_t {
    if (hot_blocks == 0) return random() % blocks;
    if (is_hot(random)) return random() % hot_blocks;
    return hot_blocks + random() % (blocks - hot_blocks);
  };
  const auto overwrite = [&] {
    const auto count = static_cast<std::uint64_t>(capacity * plan.turnover);
    for (std::uint64_t i = 0; i < count; ++i) {
      write(places[pick()]);
      if (i % 512 == 0) volume.tick();
    }
    must(volume.sync().has_value(), "sync");
  };
  overwrite();
  const Work before = work_of(volume);
  overwrite();
  const Work after = work_of(volume);
  const auto now = nlohmann::json::parse(volume.stats_json())["space"];
  const double total = now["total_blocks"].get<double>();
  const double user = static_cast<double>(after.user - before.user);
  const double utilization = now["live_blocks"].get<double>() / total;
  nlohmann::ordered_json result;
  result["utilization"] = utilization;
  result["bands"] = plan.bands;
  result["band_blocks"] = plan.band_blocks;
  result["hot_percent"] = plan.hot_percent;
  result["scatter"] = plan.scatter;
  result["seed"] = plan.seed;
  result["write_amplification"] = (user + static_cast<double>(after.moved - before.moved)) / user;
  result["greedy_theory_uniform"] = greedy_amplification(utilization);
  result["overwrites"] = user;
  std::printf("%s\n", result.dump().c_str());
  volume.release(file->file);
  must(volume.unmount().has_value(), "unmount");
}
