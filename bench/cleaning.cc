// What one way of placing and cleaning costs under one load, on a volume over a device in memory:
// cleaning [--load NAME] [--placement P] [--clean C] [--trigger T] [--bands N] [--band-blocks N]
// [--full PERCENT] [--scale N] [--seed N]. One line of JSON.
//
// Nothing depends on the machine: work is counted in blocks, and time is the bench's own. A write
// of n blocks takes n / 25,000 s (100 MB/s); between phases users are idle for 10 s. The volume has
// no threads: what is due is done after each write, and when a writer finds no room it cleans
// itself. How many blocks are moved within one write is what that write waits for.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "bench.h"
#include "device/memory.h"
#include "fs/format.h"
#include "fs/volume.h"

namespace {

using namespace lazyfs;
using namespace lazyfs::bench;

constexpr std::uint64_t kWriteBlocks = 32;  // at most, of one write: 128 KiB

class BenchClock final : public Clock {
 public:
  Timestamp now() override { return {1'700'000'000 + ns_.count() / 1'000'000'000, 0}; }
  std::chrono::nanoseconds monotonic() override { return ns_; }
  void pass(std::chrono::nanoseconds time) { ns_ += time; }

 private:
  std::chrono::nanoseconds ns_{1};
};

struct Plan {
  std::string load = "uniform", placement = "first", clean = "auto", trigger = "idle+space";
  std::uint32_t bands = 128, band_blocks = 64;
  double full_percent = 85, scale = 1;
  std::uint64_t seed = 1;
};

// Writes, deletes, waits; and notes what each write had to wait for.
class Bench {
 public:
  Bench(const Plan& plan, device::Device& device) : random(plan.seed) {
    fs::MountOptions options;
    options.background = false;
    options.dirty_bytes = kWriteBlocks * kBlockBytes;  // so that a write waits for its own work
    const std::map<std::string, fs::PlacementChoice> placements{
        {"first", fs::PlacementChoice::kFirst},
        {"best", fs::PlacementChoice::kBest},
        {"age", fs::PlacementChoice::kAge},
        {"random", fs::PlacementChoice::kRandom}};
    const std::map<std::string, fs::CleanChoice> cleans{{"whole", fs::CleanChoice::kWhole},
                                                        {"tail", fs::CleanChoice::kTail},
                                                        {"auto", fs::CleanChoice::kAuto}};
    options.placement = placements.at(plan.placement);
    options.clean = cleans.at(plan.clean);
    options.gc_idle = plan.trigger.find("idle") != std::string::npos;
    options.gc_space = plan.trigger.find("space") != std::string::npos;
    must(fs::format(device, fs::FormatOptions{}, clock_).has_value(), "format");
    auto mounted = fs::Volume::mount(device, options, clock_);
    must(mounted.has_value(), "mount");
    volume_ = std::move(*mounted);
    capacity = volume_->space()->available_blocks;
  }
  ~Bench() { must(volume_->unmount().has_value(), "unmount"); }

  nlohmann::json stats(const char* group) {
    return nlohmann::json::parse(volume_->stats_json())[group];
  }
  InodeNo create(const std::string& name) {
    const auto made = volume_->create(fs::kRootInode, name, 0644, {});
    must(made.has_value(), "create");
    volume_->release(made->file);
    return made->attributes.inode;
  }
  void write(InodeNo file, std::uint64_t block, std::uint64_t blocks) {
    static const std::vector<std::byte> bytes(kWriteBlocks * kBlockBytes, std::byte{42});
    while (blocks > 0) {
      const std::uint64_t count = std::min(blocks, kWriteBlocks);
      const std::uint64_t before = stats("data")["collector_blocks_written"];
      must(volume_->write(file, block * kBlockBytes, std::span(bytes).first(count * kBlockBytes))
               .has_value(),
           "write");
      const auto data = stats("data");
      waits.push_back(data["collector_blocks_written"].get<std::uint64_t>() - before);
      clock_.pass(std::chrono::microseconds(40 * count));
      written += count;
      if (written / 128 != (written - count) / 128) {
        volume_->tick();
        least_free = std::min(least_free, stats("space")["free_bands"].get<std::uint64_t>());
      }
      block += count;
      blocks -= count;
    }
  }
  void remove(const std::string& name, InodeNo file) {
    must(volume_->unlink(fs::kRootInode, name).has_value(), "unlink");
    volume_->forget(file, 1);
  }
  void sync() { must(volume_->sync().has_value(), "sync"); }
  void rest() {
    sync();
    for (int i = 0; i < 20; ++i) {
      clock_.pass(std::chrono::milliseconds(500));
      volume_->tick();
    }
  }
  std::uint64_t below(std::uint64_t end) { return random() % end; }

  std::mt19937_64 random;
  std::uint64_t capacity = 0, written = 0, least_free = UINT64_MAX;
  std::vector<std::uint64_t> waits;

 private:
  BenchClock clock_;
  std::unique_ptr<fs::Volume> volume_;
};

// 4 KiB at random in a file; `hot` percent of the blocks get the other percent of the writes.
void overwrite(Bench& b, std::uint64_t blocks, std::uint64_t writes, unsigned hot) {
  const InodeNo file = b.create("file");
  b.write(file, 0, blocks);
  b.sync();
  const std::uint64_t hot_blocks = blocks * hot / 100;
  for (std::uint64_t i = 0; i < writes; ++i) {
    const bool is_hot = hot > 0 && b.below(100) >= hot;
    b.write(file, is_hot ? b.below(hot_blocks) : hot_blocks + b.below(blocks - hot_blocks), 1);
    if (i % (writes / 8 + 1) == 0) b.rest();
  }
}

// Trees of files of 1 to 64 blocks are unpacked; the oldest tree is deleted when there is no room.
void untar(Bench& b, std::uint64_t blocks, std::uint64_t writes) {
  std::map<std::uint64_t, std::vector<std::pair<std::string, InodeNo>>> trees;
  std::map<std::uint64_t, std::uint64_t> sizes;
  std::uint64_t live = 0;
  for (std::uint64_t tree = 0; b.written < blocks + writes; ++tree) {
    for (int i = 0; i < 60; ++i) {
      const std::uint64_t size = 1 + (b.below(8) == 0 ? b.below(64) : b.below(4));
      while (live + size > blocks && trees.begin()->first != tree) {
        for (const auto& [name, file] : trees.begin()->second) b.remove(name, file);
        live -= sizes[trees.begin()->first];
        trees.erase(trees.begin());
      }
      const std::string name = std::to_string(tree) + "." + std::to_string(i);
      const InodeNo file = b.create(name);
      b.write(file, 0, size);
      trees[tree].emplace_back(name, file);
      sizes[tree] += size;
      live += size;
    }
    if (tree % 8 == 7) b.rest();
  }
}

// Postmark's transactions: small files, of which any is created, deleted, or gets more at its end.
void postmark(Bench& b, std::uint64_t blocks, std::uint64_t writes) {
  struct File {
    std::string name;
    InodeNo inode;
    std::uint64_t size;
  };
  std::vector<File> files;
  std::uint64_t live = 0, names = 0;
  while (b.written < blocks + writes) {
    const std::uint64_t size = 1 + b.below(16);
    const bool full = live + size > blocks;
    if (!files.empty() && (full || b.below(4) == 0)) {
      std::swap(files[b.below(files.size())], files.back());
      b.remove(files.back().name, files.back().inode);
      live -= files.back().size;
      files.pop_back();
    } else if (!files.empty() && b.below(3) == 0) {
      File& file = files[b.below(files.size())];
      b.write(file.inode, file.size, 1);
      file.size += 1;
      live += 1;
    } else {
      const std::string name = std::to_string(names++);
      files.push_back({name, b.create(name), size});
      b.write(files.back().inode, 0, size);
      live += size;
    }
    if (names % 400 == 399) b.rest();
  }
}

// As TeraSort: an input stays, runs are spilled and merged, the output takes the runs' place; the
// next sort begins when the last output was deleted.
void sort(Bench& b, std::uint64_t blocks, std::uint64_t writes) {
  const std::uint64_t part = blocks / 3;
  const InodeNo input = b.create("input");
  b.write(input, 0, part);
  for (int round = 0; b.written < blocks + writes; ++round) {
    std::vector<InodeNo> runs;
    for (std::uint64_t i = 0; i < 8; ++i) {
      runs.push_back(b.create("run" + std::to_string(i)));
      b.write(runs.back(), 0, part / 8);
    }
    const InodeNo output = b.create("output");
    std::uint64_t merged = 0;
    for (std::uint64_t at = 0; at < part; at += kWriteBlocks) {
      b.write(output, at, std::min(kWriteBlocks, part - at));
      for (; merged < at * 8 / part; ++merged) {
        b.remove("run" + std::to_string(merged), runs[merged]);
      }
    }
    for (; merged < 8; ++merged) b.remove("run" + std::to_string(merged), runs[merged]);
    b.rest();
    b.remove("output", output);
  }
}

std::uint64_t percentile(std::vector<std::uint64_t>& values, double share) {
  if (values.empty()) return 0;
  const auto at = static_cast<std::size_t>(share * static_cast<double>(values.size() - 1));
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(at));
  return values[at];
}

}  // namespace

int main(int argc, char** argv) {
  Plan plan;
  CLI::App app("What one way of placing and cleaning costs under one load.");
  app.add_option("--load", plan.load)
      ->check(CLI::IsMember({"uniform", "hot", "untar", "postmark", "sort"}))
      ->capture_default_str();
  app.add_option("--placement", plan.placement)
      ->check(CLI::IsMember({"first", "best", "age", "random"}))
      ->capture_default_str();
  app.add_option("--clean", plan.clean)
      ->check(CLI::IsMember({"whole", "tail", "auto"}))
      ->capture_default_str();
  app.add_option("--trigger", plan.trigger)
      ->check(CLI::IsMember({"idle+space", "idle", "space", "off"}))
      ->capture_default_str();
  app.add_option("--bands", plan.bands)->capture_default_str();
  app.add_option("--band-blocks", plan.band_blocks)->capture_default_str();
  app.add_option("--full", plan.full_percent, "of what statfs calls available at first")
      ->capture_default_str();
  app.add_option("--scale", plan.scale, "writes, in capacities of the disk")->capture_default_str();
  app.add_option("--seed", plan.seed)->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  auto device = device::MemoryDevice::uniform(plan.bands, plan.band_blocks);
  Bench bench(plan, *device);
  const auto capacity = static_cast<double>(bench.capacity);
  const auto blocks = static_cast<std::uint64_t>(capacity * plan.full_percent / 100);
  const auto writes = static_cast<std::uint64_t>(capacity * plan.scale);
  if (plan.load == "uniform") overwrite(bench, blocks, writes, 0);
  if (plan.load == "hot") overwrite(bench, blocks, writes, 10);
  if (plan.load == "untar") untar(bench, blocks, writes);
  if (plan.load == "postmark") postmark(bench, blocks, writes);
  if (plan.load == "sort") sort(bench, blocks, writes);
  bench.sync();

  const auto data = bench.stats("data");
  const nlohmann::ordered_json result{{"load", plan.load},
                                      {"placement", plan.placement},
                                      {"clean", plan.clean},
                                      {"trigger", plan.trigger},
                                      {"user_blocks", data["user_blocks_written"]},
                                      {"moved_blocks", data["collector_blocks_written"]},
                                      {"write_amplification", data["write_amplification"]},
                                      {"bands_cleaned", data["bands_cleaned"]},
                                      {"tails_cleaned", data["tails_cleaned"]},
                                      {"least_free_bands", bench.least_free},
                                      {"moved_in_a_write_p99", percentile(bench.waits, 0.99)},
                                      {"moved_in_a_write_p999", percentile(bench.waits, 0.999)},
                                      {"moved_in_a_write_max", percentile(bench.waits, 1)}};
  std::printf("%s\n", result.dump().c_str());
}
