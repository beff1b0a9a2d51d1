// A volume on a device in memory for the loads of bench/cleaning, with counters of their cost.
//
// Time is simulated: a write of n blocks takes n / 25,000 s (100 MB/s).
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "bench.h"
#include "device/forwarding.h"
#include "mkfs/mkfs.h"
#include "fs/volume/volume.h"

namespace lazyfs::bench {

constexpr std::uint64_t kWriteBlocks = 32;  // maximum of one write: 128 KiB

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
  std::string trace;  // path of a trace to replay instead of a load
  std::uint32_t bands = 128, band_blocks = 64;
  double full_percent = 85, scale = 1;
  std::uint64_t seed = 1;
};

// Counts appends, so that the bench looks at the statistics only after some.
class AppendCounter final : public device::ForwardingDevice {
 public:
  using Device::append;
  using ForwardingDevice::ForwardingDevice;
  Result<> append(BandAddress to, std::span<const device::Piece> pieces) override {
    ++appends;
    return ForwardingDevice::append(to, pieces);
  }
  std::uint64_t appends = 0;
};

// Writes, deletes and waits. Records the work that each write had to wait for.
class Bench {
 public:
  Bench(const Plan& plan, device::Device& memory) : random(plan.seed), device_(memory) {
    fs::MountOptions options;
    options.background = false;
    options.dirty_bytes = kWriteBlocks * kBlockBytes;  // so that a write waits for its own work
    const std::map<std::string, data::Placement> placements{
        {"first", data::Placement::kFirstFit},
        {"best", data::Placement::kBestFit},
        {"age", data::Placement::kAgeFit},
        {"random", data::Placement::kRandom}};
    const std::map<std::string, fs::CleanChoice> cleans{{"whole", fs::CleanChoice::kWhole},
                                                        {"tail", fs::CleanChoice::kTail},
                                                        {"auto", fs::CleanChoice::kAuto},
                                                        {"greedy", fs::CleanChoice::kGreedy}};
    options.placement = placements.at(plan.placement);
    options.clean = cleans.at(plan.clean);
    options.gc_idle = plan.trigger.find("idle") != std::string::npos;
    options.gc_space = plan.trigger.find("space") != std::string::npos;
    must(mkfs::make_filesystem(device_, mkfs::Options{}, clock_).has_value(), "format");
    auto mounted = fs::Volume::mount(device_, options, clock_);
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
    write_bytes(file, block * kBlockBytes, blocks * kBlockBytes);
  }
  void write_bytes(InodeNo file, std::uint64_t offset, std::uint64_t length) {
    static const std::vector<std::byte> bytes(kWriteBlocks * kBlockBytes, std::byte{42});
    while (length > 0) {
      const std::uint64_t count = std::min<std::uint64_t>(length, bytes.size());
      const std::uint64_t blocks = (count + kBlockBytes - 1) / kBlockBytes;
      must(volume_->write(file, offset, std::span(bytes).first(count)), "write");
      note_moved(true);
      clock_.pass(std::chrono::microseconds(40 * blocks));
      written += blocks;
      if (written / 128 != (written - blocks) / 128) tick();
      offset += count;
      length -= count;
    }
  }
  void cut(InodeNo file, std::uint64_t size) {
    fs::AttributeChange change;
    change.size = size;
    must(volume_->set_attributes(file, change), "truncate");
  }
  void fsync(InodeNo file) {
    must(volume_->fsync(file, nullptr, false), "fsync");
    note_moved(true);
  }
  void remove(const std::string& name, InodeNo file) {
    must(volume_->unlink(fs::kRootInode, name).has_value(), "unlink");
    volume_->forget(file, 1);
  }
  void sync() { must(volume_->sync().has_value(), "sync"); }
  void rest() {
    sync();
    pass(std::chrono::seconds(10));
  }
  void pass(std::chrono::milliseconds time) {
    for (; time.count() > 0; time -= std::chrono::milliseconds(500)) {
      clock_.pass(std::chrono::milliseconds(500));
      tick();
    }
  }
  std::uint64_t below(std::uint64_t end) { return random() % end; }

  std::mt19937_64 random;
  std::uint64_t capacity = 0, written = 0, least_free = UINT64_MAX;
  std::vector<std::uint64_t> waits;

 private:
  void tick() {
    volume_->tick();
    note_moved(false);
    least_free = std::min(least_free, stats("space")["free_bands"].get<std::uint64_t>());
  }
  void note_moved(bool was_waited_for) {
    std::uint64_t now = moved_;
    if (device_.appends != appends_) {
      now = stats("data")["collector_blocks_written"].get<std::uint64_t>();
      appends_ = device_.appends;
    }
    if (was_waited_for) waits.push_back(now - moved_);
    moved_ = now;
  }

  BenchClock clock_;
  AppendCounter device_;
  std::uint64_t moved_ = 0, appends_ = 0;  // values at the last check
  std::unique_ptr<fs::Volume> volume_;
};

}  // namespace lazyfs::bench
