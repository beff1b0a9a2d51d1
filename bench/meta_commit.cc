// Measures how long operations wait during commits: `meta_commit [SECONDS]`. The device is in
// memory but as slow as a disk: 150 MB/s, 15 ms for a flush. One thread makes directories. A second
// thread requests durability without a pause, so that a commit always runs. Prints one figure per
// line.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "bench.h"
#include "device/forwarding.h"
#include "device/memory.h"
#include "meta/store/store.h"
#include "tools/command_line.h"

namespace lazyfs::meta {
namespace {

using namespace bench;

using Clock = std::chrono::steady_clock;
using std::chrono::duration;

class SlowDevice final : public device::ForwardingDevice {
 public:
  SlowDevice() : SlowDevice(device::MemoryDevice::uniform(20, 32768)) {}
  using ForwardingDevice::append;

  Result<> append(BandAddress to, std::span<const device::Piece> pieces) override {
    std::this_thread::sleep_for(
        duration<double>(static_cast<double>(device::bytes_of(pieces)) / 150e6));
    return ForwardingDevice::append(to, pieces);
  }
  Result<> flush() override {
    std::this_thread::sleep_for(std::chrono::milliseconds(15));
    return ForwardingDevice::flush();
  }

 private:
  explicit SlowDevice(std::unique_ptr<device::MemoryDevice> below)
      : ForwardingDevice(*below), below_(std::move(below)) {}

  std::unique_ptr<device::MemoryDevice> below_;
};

// Makes the items of mkdir: an inode, two directory entries, counters of the parent.
void make_directory(Store& store, std::uint64_t i) {
  const std::vector<std::byte> value(128, std::byte{42});
  const auto bytes = std::span(value);
  Batch batch;
  const std::uint64_t inode = (std::uint64_t{1} << 32) + i, parent = 1 + i / 500;
  batch.put({inode, 1, 0}, bytes);
  batch.put({parent, 2, i * 0x9E3779B97F4A7C15ull}, bytes.first(34));
  batch.put({parent, 3, i}, bytes.first(34));
  const std::array<std::int64_t, 4> deltas{1, 1, 1, 1};
  batch.add({parent, 1, 0}, deltas);
  const auto applied = store.apply(batch);
  must(applied.has_value(), applied ? "" : describe(applied.error()).data());
}

// Makes `rate` directories a second, or as many as possible if `rate` is 0.
void run(double seconds, double rate, bool commits) {
  SlowDevice device;
  Superblock superblock;
  for (std::uint32_t i = 0; i < 16; ++i) superblock.log_bands.push_back(BandId{2 + i});
  must(Store::format(device, superblock).has_value(), "format");
  auto opened = Store::open(device, {});
  must(opened.has_value(), "open");
  Store& store = **opened;
  std::atomic<bool> stop{false};
  std::thread committer([&] {
    while (commits && !stop) must(store.commit().has_value(), "commit");
  });
  std::vector<double> waits_us;
  const auto begin = Clock::now();
  for (std::uint64_t i = 0;; ++i) {
    const auto due = begin + duration<double>(rate > 0 ? static_cast<double>(i) / rate : 0);
    if (rate > 0) std::this_thread::sleep_until(due);
    const auto before = Clock::now();
    if (before - begin > duration<double>(seconds)) break;
    make_directory(store, i);
    waits_us.push_back(duration<double, std::micro>(Clock::now() - before).count());
  }
  stop = true;
  committer.join();
  const StoreStats stats = store.stats();
  std::ranges::sort(waits_us);
  const auto at = [&](double share) {
    return waits_us[static_cast<std::size_t>(share * static_cast<double>(waits_us.size() - 1))];
  };
  std::printf(
      "%s, %s: %zu mkdirs, %lu commits, %lu MiB of log, longest commit %.0f ms; a mkdir: "
      "median %.1f us, 99.9%% %.0f us, longest %.0f us\n",
      rate > 0 ? "paced" : "as fast as goes", commits ? "fsync always" : "no fsync",
      waits_us.size(), stats.transactions, stats.log_blocks_written / 256,
      static_cast<double>(stats.commit_ns_max) / 1e6, at(0.5), at(0.999), at(1));
  must(store.close().has_value(), "close");
}

}  // namespace
}  // namespace lazyfs::meta

int main(int argc, char** argv) {
  double seconds = 10;
  lazyfs::CommandLine app("meta_commit", "How long operations wait during commits.", nullptr);
  app.option("SECONDS", seconds, "of each of five loads").with_default().at_least(1);
  if (const auto status = app.parse(argc, argv)) return *status;
  lazyfs::meta::run(seconds, 2000, false);
  lazyfs::meta::run(seconds, 2000, true);
  lazyfs::meta::run(seconds, 20000, true);
  lazyfs::meta::run(seconds, 0, true);
  lazyfs::meta::run(seconds, 0, false);
}
