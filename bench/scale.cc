// Measures the cost of operations in a small and in a large namespace: scale IMAGE [--files N]
// [--small N] [--big N] [--cache SIZE] [--lookups N]. For each of the two sizes it makes empty
// files on a new image, 100 in each directory, lists them, looks some of them up at random, and
// removes them. Lookups run right after a mount with an empty cache (cold), with a cache of a tenth
// of the namespace that has the inner nodes (settled), and in directories that are in the cache
// (warm). Then it fills one directory with --big entries and removes them while it reads the
// directory. It uses the volume without FUSE. Makes IMAGE as a new sparse file and removes it at
// the end. Prints JSON: medians, over the directories, of the cost of an operation, and the memory
// used.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "base/size.h"
#include "bench.h"
#include "edi/create.h"
#include "edi/image.h"
#include "mkfs/mkfs.h"
#include "fs/volume/volume.h"
#include "tools/command_line.h"

namespace {

using namespace lazyfs;
using namespace lazyfs::bench;
using Json = nlohmann::ordered_json;

constexpr std::uint64_t kFilesPerDirectory = 100, kDirectoriesPerGroup = 1000;
constexpr std::uint32_t kBandBlocks = 16384;

struct Plan {
  std::string image;
  std::uint64_t files = 10'000'000, small = 100'000, big = 2'000'000, lookups = 1000;
  std::uint64_t seed = 1;
  std::string cache = "64M";
};

double resident_mib() {
  std::ifstream status("/proc/self/statm");
  std::uint64_t total = 0, resident = 0;
  status >> total >> resident;
  return static_cast<double>(resident * 4096) / (1 << 20);
}

// The costs of an operation, one value per directory or other small batch.
class Costs {
 public:
  template <class F>
  void batch(std::uint64_t operations, F f) {
    const double begin = now_us();
    f();
    costs_.push_back((now_us() - begin) / static_cast<double>(operations));
  }
  void add(double cost) { costs_.push_back(cost); }
  Json summary() {
    if (costs_.empty()) return {};
    std::ranges::sort(costs_);
    double sum = 0;
    for (const double cost : costs_) sum += cost;
    return {{"median_us", costs_[costs_.size() / 2]},
            {"p99_us", costs_[costs_.size() * 99 / 100]},
            {"mean_us", sum / static_cast<double>(costs_.size())}};
  }

 private:
  std::vector<double> costs_;
};

class Bench {
 public:
  explicit Bench(const Plan& plan) : plan_(plan), random_(plan.seed) {
    options_.cache_bytes = *parse_size(plan.cache);
  }
  ~Bench() { ::unlink(plan_.image.c_str()); }

  Json run(std::uint64_t files) {
    make_image(files);
    Json result;
    result["files"] = files;
    directories_ = std::max<std::uint64_t>(1, files / kFilesPerDirectory);
    make_groups();
    result["create"] = create();
    note_memory(result["create"]);
    result["remount_ms"] = remount();
    result["list"] = list();
    remount();
    result["lookup_cold"] = look_up();
    note_memory(result["lookup_cold"]);
    result["lookup_warm"] = look_up_again();
    result["lookup_settled"] = look_up_in_small_cache();
    remount();
    result["remove"] = remove();
    note_memory(result["remove"]);
    end();
    return result;
  }

  Json run_big(std::uint64_t entries) {
    groups_.clear();
    make_image(entries);
    Json result;
    result["entries"] = entries;
    const auto made = must(volume_->make_directory(fs::kRootInode, "big", 0755, {}), "mkdir");
    Costs creating;
    for (std::uint64_t i = 0; i < entries;) {
      const std::uint64_t end = std::min(entries, i + 1000);
      creating.batch(end - i, [&] {
        for (; i < end; ++i) create_file(made.inode, "entry-" + std::to_string(i));
      });
    }
    result["create"] = creating.summary();
    remount();
    const InodeNo big = must(volume_->lookup(fs::kRootInode, "big"), "lookup").inode;
    Costs listing;
    std::uint64_t cookie = 0, seen = 0;
    for (bool more = true; more;) {
      std::uint64_t some = 0;
      const double begin = now_us();
      const auto part = must(volume_->read_directory(big, cookie, 1000), "list");
      some = part.size();
      if (some > 0) listing.add((now_us() - begin) / static_cast<double>(some));
      seen += some;
      more = some > 0;
      if (more) cookie = part.back().cookie;
    }
    must(seen == entries, "the big directory lists a wrong number of entries");
    result["list"] = listing.summary();
    result["remove_while_reading"] = remove_while_reading(big, entries);
    volume_->forget(big, 1);
    must(volume_->remove_directory(fs::kRootInode, "big"), "rmdir");
    note_memory(result["remove_while_reading"]);
    end();
    return result;
  }

 private:
  void make_image(std::uint64_t files) {
    // A file takes less than a KiB of metadata; the log may take a 20th of the device.
    const std::uint64_t bytes = std::max<std::uint64_t>(16ull << 30, files * 1024 * 24);
    const auto bands = static_cast<std::uint32_t>(bytes / kBlockBytes / kBandBlocks);
    edi::CreateOptions image{.zones = {{bands, kBandBlocks}}, .overwrite = true};
    must(edi::create(plan_.image, image), "creating the image");
    device_ = must(edi::open_image(plan_.image), "opening the image");
    must(mkfs::make_filesystem(*device_, mkfs::Options{}), "format");
    volume_ = must(fs::Volume::mount(*device_, options_), "mount");
  }
  void end() {
    must(volume_->unmount(), "unmount");
    volume_.reset();
    device_.reset();
  }
  // Returns the time of the mount in milliseconds.
  double remount() {
    end();
    drop_caches();
    const double begin = now_us();
    device_ = must(edi::open_image(plan_.image), "opening the image");
    volume_ = must(fs::Volume::mount(*device_, options_), "mount");
    const double took = now_us() - begin;
    if (!groups_.empty()) find_groups();
    return took / 1000;
  }

  void create_file(InodeNo directory, const std::string& name) {
    const auto file = must(volume_->create(directory, name, 0644, {}), "create");
    volume_->release(file.file);
    volume_->forget(file.attributes.inode, 1);
  }

  static std::string directory_name(std::uint64_t d) { return "directory-" + std::to_string(d); }
  static std::string file_name(std::uint64_t f) { return "file-" + std::to_string(f); }

  Json create() {
    Costs costs;
    const double begin = now_us();
    for (std::uint64_t d = 0; d < directories_; ++d) {
      costs.batch(kFilesPerDirectory + 1, [&] {
        const auto made =
            must(volume_->make_directory(group_of(d), directory_name(d), 0755, {}), "mkdir");
        for (std::uint64_t f = 0; f < kFilesPerDirectory; ++f)
          create_file(made.inode, file_name(f));
        volume_->forget(made.inode, 1);
      });
    }
    must(volume_->sync(), "sync");
    Json json = costs.summary();
    json["seconds"] = (now_us() - begin) / 1e6;
    return json;
  }

  // A directory may have at most 65,000 subdirectories.
  static std::string group_name(std::uint64_t g) { return "group-" + std::to_string(g); }
  std::uint64_t groups() const {
    return (directories_ + kDirectoriesPerGroup - 1) / kDirectoriesPerGroup;
  }
  void make_groups() {
    groups_.clear();
    for (std::uint64_t g = 0; g < groups(); ++g) {
      groups_.push_back(
          must(volume_->make_directory(fs::kRootInode, group_name(g), 0755, {}), "mkdir").inode);
    }
  }
  void find_groups() {
    groups_.clear();
    for (std::uint64_t g = 0; g < groups(); ++g) {
      groups_.push_back(must(volume_->lookup(fs::kRootInode, group_name(g)), "lookup").inode);
    }
  }
  InodeNo group_of(std::uint64_t d) const { return groups_[d / kDirectoriesPerGroup]; }

  template <class F>
  void for_each_directory(F f) {
    for (const InodeNo group : groups_) {
      for (const auto& entry :
           must(volume_->read_directory(group, 0, kDirectoriesPerGroup + 1), "list")) {
        f(group, entry);
      }
    }
  }

  Json list() {
    Costs costs;
    const double begin = now_us();
    std::uint64_t seen = 0;
    for_each_directory([&](InodeNo, const fs::DirectoryEntry& directory) {
      costs.batch(kFilesPerDirectory, [&] {
        const auto files = must(volume_->read_directory(directory.inode, 0, 1000), "list");
        for (const auto& file : files) {
          must(volume_->lookup_inode(file.inode), "lookup");
          volume_->forget(file.inode, 1);
        }
        seen += files.size();
      });
    });
    must(seen == directories_ * kFilesPerDirectory, "a wrong number of files is listed");
    Json json = costs.summary();
    json["seconds"] = (now_us() - begin) / 1e6;
    return json;
  }

  Json look_up() {
    Costs costs;
    for (std::uint64_t i = 0; i < plan_.lookups; ++i) {
      costs.batch(1, [&] {
        const std::uint64_t d = random_() % directories_;
        const auto directory = must(volume_->lookup(group_of(d), directory_name(d)), "lookup");
        const std::string name = file_name(random_() % kFilesPerDirectory);
        const auto file = must(volume_->lookup(directory.inode, name), "lookup");
        volume_->forget(file.inode, 1);
        volume_->forget(directory.inode, 1);
      });
    }
    Json json = costs.summary();
    const auto stats = Json::parse(volume_->stats_json())["metadata"];
    json["node_reads_each"] =
        stats["node_reads"].get<double>() / static_cast<double>(plan_.lookups);
    return json;
  }

  double meta_figure(const char* name) const {
    return Json::parse(volume_->stats_json())["metadata"][name].get<double>();
  }

  Json look_up_in_small_cache() {
    const std::size_t usual = options_.cache_bytes;
    const double nodes = meta_figure("jmap_entries");
    options_.cache_bytes = static_cast<std::size_t>(nodes / 10) * kBlockBytes;
    remount();
    // Four lookups for each inner node, so that most inner nodes are in the cache afterwards.
    const auto wanted = plan_.lookups;
    plan_.lookups = std::max<std::uint64_t>(wanted, static_cast<std::uint64_t>(nodes / 25));
    look_up();
    plan_.lookups = wanted;
    const double before = meta_figure("node_reads");
    Json json = look_up();
    json["node_reads_each"] =
        (meta_figure("node_reads") - before) / static_cast<double>(plan_.lookups);
    json["cache_mib"] = static_cast<double>(options_.cache_bytes) / (1 << 20);
    options_.cache_bytes = usual;
    return json;
  }

  // Uses so few directories that they stay in the cache.
  Json look_up_again() {
    Costs costs;
    std::vector<std::uint64_t> some(200);
    for (std::uint64_t& d : some) d = random_() % directories_;
    for (const bool counts : {false, true}) {
      for (const std::uint64_t d : some) {
        const auto directory = must(volume_->lookup(group_of(d), directory_name(d)), "lookup");
        const double begin = now_us();
        for (std::uint64_t f = 0; f < kFilesPerDirectory; ++f) {
          const auto file = must(volume_->lookup(directory.inode, file_name(f)), "lookup");
          volume_->forget(file.inode, 1);
        }
        if (counts) costs.add((now_us() - begin) / kFilesPerDirectory);
        volume_->forget(directory.inode, 1);
      }
    }
    return costs.summary();
  }

  Json remove() {
    Costs costs;
    const double begin = now_us();
    for_each_directory([&](InodeNo group, const fs::DirectoryEntry& directory) {
      costs.batch(kFilesPerDirectory + 1, [&] {
        for (const auto& file : must(volume_->read_directory(directory.inode, 0, 1000), "list")) {
          must(volume_->unlink(directory.inode, file.name), "unlink");
        }
        must(volume_->remove_directory(group, directory.name), "rmdir");
      });
    });
    must(volume_->sync(), "sync");
    Json json = costs.summary();
    json["seconds"] = (now_us() - begin) / 1e6;
    return json;
  }

  Json remove_while_reading(InodeNo big, std::uint64_t entries) {
    Costs costs;
    std::uint64_t cookie = 0, removed = 0;
    for (;;) {
      const auto some = must(volume_->read_directory(big, cookie, 100), "list");
      if (some.empty()) break;
      costs.batch(some.size(), [&] {
        for (const auto& entry : some) must(volume_->unlink(big, entry.name), "unlink");
      });
      removed += some.size();
      cookie = some.back().cookie;
    }
    must(removed == entries, "removal while reading misses entries");
    return costs.summary();
  }

  void note_memory(Json& to) {
    const auto stats = Json::parse(volume_->stats_json());
    const auto& meta = stats["metadata"];
    to["resident_mib"] = resident_mib();
    to["jmap_mib"] = meta["jmap_bytes"].get<double>() / (1 << 20);
    to["nodes_cached_mib"] = meta["nodes_cached"].get<double>() * kBlockBytes / (1 << 20);
    to["metadata"] = meta;
  }

  Plan plan_;
  fs::MountOptions options_;
  std::mt19937_64 random_;
  std::uint64_t directories_ = 0;
  std::vector<InodeNo> groups_;
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<fs::Volume> volume_;
};

double ratio(const Json& large, const Json& small, const char* of) {
  return large[of]["median_us"].get<double>() / small[of]["median_us"].get<double>();
}

}  // namespace

int main(int argc, char** argv) {
  Plan plan;
  CommandLine app("scale", "Cost of operations in small and large namespaces.", nullptr);
  app.option("image", plan.image, "new file, removed at the end").required();
  app.option("--files", plan.files).with_default();
  app.option("--small", plan.small).with_default();
  app.option("--big", plan.big, "entries of the one big directory; 0: none")
      .with_default();
  app.option("--lookups", plan.lookups).with_default();
  app.option("--cache", plan.cache, "limit of the metadata cache").with_default();
  app.option("--seed", plan.seed).with_default();
  if (const auto status = app.parse(argc, argv)) return *status;

  Bench bench(plan);
  Json result;
  result["cache"] = plan.cache;
  result["small"] = bench.run(plan.small);
  result["large"] = bench.run(plan.files);
  for (const char* of :
       {"create", "list", "lookup_warm", "lookup_settled", "lookup_cold", "remove"}) {
    result["ratios"][of] = ratio(result["large"], result["small"], of);
  }
  if (plan.big > 0) result["one_directory"] = bench.run_big(plan.big);
  std::printf("%s\n", result.dump(1).c_str());
}
