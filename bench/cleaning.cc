// Measures the cost of one placement and cleaning policy under one load, on a device in memory:
// cleaning [--load NAME | --trace FILE] [--placement P] [--clean C] [--trigger T] [--bands N]
// [--band-blocks N] [--full PERCENT] [--scale N] [--seed N]. Prints one line of JSON.
//
// The results do not depend on the machine: work is counted in blocks, and time is simulated. Users
// are idle for 10 s between the phases of a load, and in a trace as long as its pauses. For a trace
// (trace.h) the size of the bands is chosen so that the trace's maximum of live data is --full
// percent of the space that statfs reports as available at first. The volume has no threads: due
// work is done after each write, and a writer without space cleans itself. The wait of a write or
// fsync is the number of blocks moved during the call.
#include <cstdio>
#include <fstream>

#include "cleaning_bench.h"
#include "device/memory.h"
#include "fs/item/schema.h"
#include "tools/command_line.h"
#include "trace.h"

namespace {

using namespace lazyfs;
using namespace lazyfs::bench;

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

// Unpacks trees of files of 1 to 64 blocks. Deletes the oldest tree when no space is left.
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

// Postmark's transactions: small files are created, deleted or appended to at random.
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

// Like TeraSort: the input stays, runs are written and merged, the output replaces the runs. The
// next sort begins after the last output was deleted.
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

void run_load(Bench& b, const Plan& plan) {
  const auto capacity = static_cast<double>(b.capacity);
  const auto blocks = static_cast<std::uint64_t>(capacity * plan.full_percent / 100);
  const auto writes = static_cast<std::uint64_t>(capacity * plan.scale);
  if (plan.load == "uniform") overwrite(b, blocks, writes, 0);
  if (plan.load == "hot") overwrite(b, blocks, writes, 10);
  if (plan.load == "untar") untar(b, blocks, writes);
  if (plan.load == "postmark") postmark(b, blocks, writes);
  if (plan.load == "sort") sort(b, blocks, writes);
}

std::vector<TraceRecord> read_trace(const std::string& path) {
  std::ifstream from(path);
  std::vector<TraceRecord> records;
  for (TraceRecord record; read(from, record);) records.push_back(record);
  must(from.eof() && !records.empty(),
       path + " is no trace, record " + std::to_string(records.size() + 1));
  return records;
}

// Returns the maximum number of blocks with data at any time. Inline data takes no block.
std::uint64_t most_blocks(const std::vector<TraceRecord>& records) {
  std::map<std::uint64_t, std::vector<bool>> files;
  std::uint64_t live = 0, most = 0;
  for (const TraceRecord& record : records) {
    if (record.kind == TraceKind::kWrite && record.length > 0) {
      std::vector<bool>& blocks = files[record.file];
      if (blocks.empty() && record.value + record.length <= fs::kInlinePieceBytes) continue;
      const std::uint64_t end = (record.value + record.length - 1) / kBlockBytes + 1;
      if (blocks.size() < end) blocks.resize(end);
      for (std::uint64_t block = record.value / kBlockBytes; block < end; ++block) {
        live += blocks[block] ? 0 : 1;
        blocks[block] = true;
      }
      most = std::max(most, live);
    } else if (record.kind == TraceKind::kTruncate || record.kind == TraceKind::kDelete) {
      std::vector<bool>& blocks = files[record.file];
      const std::uint64_t end = (record.value + kBlockBytes - 1) / kBlockBytes;
      if (end >= blocks.size()) continue;
      live -= static_cast<std::uint64_t>(
          std::count(blocks.begin() + static_cast<std::ptrdiff_t>(end), blocks.end(), true));
      blocks.resize(end);
    }
  }
  return most;
}

void replay(Bench& b, const std::vector<TraceRecord>& records) {
  std::map<std::uint64_t, InodeNo> inodes;
  const auto inode_of = [&](std::uint64_t file) {
    must(inodes.contains(file), "the trace's file " + std::to_string(file));
    return inodes.at(file);
  };
  for (const TraceRecord& record : records) {
    switch (record.kind) {
      case TraceKind::kCreate: inodes[record.file] = b.create(std::to_string(record.file)); break;
      case TraceKind::kWrite:
        b.write_bytes(inode_of(record.file), record.value, record.length);
        break;
      case TraceKind::kTruncate: b.cut(inode_of(record.file), record.value); break;
      case TraceKind::kDelete:
        b.remove(std::to_string(record.file), inode_of(record.file));
        inodes.erase(record.file);
        break;
      case TraceKind::kFsync: b.fsync(inode_of(record.file)); break;
      case TraceKind::kSync: b.sync(); break;
      case TraceKind::kPause: b.pass(std::chrono::milliseconds(record.value)); break;
    }
  }
}

// Returns the band size of a disk on which `blocks` take the requested share of the space.
std::uint32_t fitting_band_blocks(Plan plan, std::uint64_t blocks) {
  const auto wanted =
      static_cast<std::uint64_t>(static_cast<double>(blocks) * 100 / plan.full_percent);
  plan.band_blocks = static_cast<std::uint32_t>(wanted / plan.bands) + 8;
  for (;;) {
    auto device = device::MemoryDevice::uniform(plan.bands, plan.band_blocks);
    const std::uint64_t room = Bench(plan, *device).capacity;
    if (room >= wanted) return plan.band_blocks;
    plan.band_blocks += static_cast<std::uint32_t>((wanted - room) / plan.bands) + 1;
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
  CommandLine app(
      "cleaning",
      "What one way of placing and cleaning costs under one load.",
      nullptr);
  app.option("--load", plan.load)
      .one_of({"uniform", "hot", "untar", "postmark", "sort"})
      .with_default();
  app.option("--trace", plan.trace, "replay this trace instead");
  app.option("--placement", plan.placement)
      .one_of({"first", "best", "age", "random"})
      .with_default();
  app.option("--clean", plan.clean)
      .one_of({"whole", "tail", "auto", "greedy"})
      .with_default();
  app.option("--trigger", plan.trigger)
      .one_of({"idle+space", "idle", "space", "off"})
      .with_default();
  app.option("--bands", plan.bands).with_default();
  app.option("--band-blocks", plan.band_blocks).with_default();
  app.option("--full", plan.full_percent, "percent of the space available at first")
      .with_default();
  app.option("--scale", plan.scale, "writes, as a multiple of the disk's capacity").with_default();
  app.option("--seed", plan.seed).with_default();
  if (const auto status = app.parse(argc, argv)) return *status;

  std::vector<TraceRecord> trace;
  if (!plan.trace.empty()) {
    trace = read_trace(plan.trace);
    plan.band_blocks = fitting_band_blocks(plan, most_blocks(trace));
    plan.load = plan.trace.substr(plan.trace.rfind('/') + 1);
    plan.load.resize(std::min(plan.load.find('.'), plan.load.size()));
  }
  auto device = device::MemoryDevice::uniform(plan.bands, plan.band_blocks);
  Bench bench(plan, *device);
  if (trace.empty()) {
    run_load(bench, plan);
  } else {
    replay(bench, trace);
  }
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
                                      {"bands_waited_for", data["bands_waited_for"]},
                                      {"least_free_bands", bench.least_free},
                                      {"moved_in_a_write_p99", percentile(bench.waits, 0.99)},
                                      {"moved_in_a_write_p999", percentile(bench.waits, 0.999)},
                                      {"moved_in_a_write_max", percentile(bench.waits, 1)}};
  std::printf("%s\n", result.dump().c_str());
}
