// A workload carried out on a volume, with all that is needed to judge what any power cut on the
// way leaves: what reached the device in which order, and what the volume had promised by when.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "crash/model.h"
#include "crash/operation.h"
#include "device/memory.h"
#include "device/power_cut.h"
#include "device/recording.h"
#include "fs/volume/volume.h"

namespace lazyfs::crash {

// A minute passes each time that somebody looks: everything is old at once, and runs repeat.
class QuickClock final : public Clock {
 public:
  Timestamp now() override { return {1'700'000'000 + ++looks_, 0}; }
  std::chrono::nanoseconds monotonic() override { return std::chrono::minutes(++looks_); }

 private:
  std::atomic<std::int64_t> looks_{100};
};

fs::MountOptions quiet_options();  // no threads, no access times, little memory

// A device that is not in use, and what the volume on it holds.
struct Image {
  device::Recording recording;
  Model model;
};
enum class Failures : std::uint8_t { kNone, kAllowed };
// A fresh volume on an empty device, in which `setup` was done and which was then unmounted.
// Operations of `setup` that fail are left out, if that is allowed.
Image make_image(device::MemoryDevice& device, const Workload& setup,
                 Failures failures = Failures::kNone);
// The same on `bands` bands of `band_blocks` blocks.
Image make_image(std::uint32_t bands, std::uint32_t band_blocks, const Workload& setup,
                 Failures failures = Failures::kNone);

struct Trace {
  // An operation had reached the device with nothing at op `begin`, with everything at op `end`.
  // A copy may be several steps (crash/copying.h).
  struct Step {
    std::size_t begin = 0, end = 0;
    bool promises = false;  // at `end` all names so far are durable
  };
  device::Recording recording;  // the image's contents, the mount, the operations, the unmount
  std::size_t first = 0;        // the image's contents end here
  std::vector<Step> steps;      // of the operations that succeeded, and the unmount
  std::vector<Model> models;    // models[i]: after i steps
  std::vector<std::string> problems;  // what contradicts the model though no power was cut

  struct Range {
    std::size_t low = 0, high = 0;
  };
  // The models that a power cut after `op_count` ops may lead to.
  Range possible(std::size_t op_count) const;
  // Accepts what one of models[low .. high] does.
  std::vector<std::string> differences(Range range, const Observation& found) const;
};

struct RunOptions {
  fs::MountOptions mount = quiet_options();
  bool unmount = true;
};
// Operations that fail, as they may, are left out. With a background, time is the machine's.
Trace run(const Image& image, const Workload& workload, const RunOptions& options);

// What a power cut after `op_count` ops leaves. Nothing when it cannot be mounted.
std::optional<Image> crashed_image(const Trace& trace, std::size_t op_count,
                                   device::Choice& choice);

// Carries one operation out on a volume that is as `model` says. Returns the inode that it made,
// the bytes that it copied, or 0.
Result<std::uint64_t> perform(fs::Volume& volume, const Operation& operation, const Model& model);

}  // namespace lazyfs::crash
