// A workload that has run on a volume. The trace has all that is needed to verify the state after
// any power cut: the ops that reached the device in their order, and which of them made names
// durable.
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

// A clock that advances by a minute at each call: dirty data is old at once, and runs repeat
// exactly.
class QuickClock final : public Clock {
 public:
  Timestamp now() override { return {1'700'000'000 + ++looks_, 0}; }
  std::chrono::nanoseconds monotonic() override { return std::chrono::minutes(++looks_); }

 private:
  std::atomic<std::int64_t> looks_{100};
};

fs::MountOptions quiet_options();  // no background threads, no access times, little memory

// The contents of an unmounted device, and the model of its volume.
struct Image {
  device::Recording recording;
  Model model;
};
enum class Failures : std::uint8_t { kNone, kAllowed };
// Makes a volume on an empty device, runs `setup`, and unmounts. Failing operations of `setup` are
// skipped if `failures` allows it.
Image make_image(device::MemoryDevice& device, const Workload& setup,
                 Failures failures = Failures::kNone);
// The same on a new device with `bands` bands of `band_blocks` blocks.
Image make_image(std::uint32_t bands, std::uint32_t band_blocks, const Workload& setup,
                 Failures failures = Failures::kNone);

struct Trace {
  // An operation that sent ops [begin, end) to the device. A copy may be several steps
  // (crash/copying.h).
  struct Step {
    std::size_t begin = 0, end = 0;
    bool promises = false;  // at `end` all names made so far are durable
  };
  device::Recording recording;  // the image's contents, the mount, the operations, the unmount
  std::size_t first = 0;        // the image's contents end here
  std::vector<Step> steps;      // of the operations that succeeded, and the unmount
  std::vector<Model> models;    // models[i]: after i steps
  std::vector<std::string> problems;  // differences from the model without a power cut

  struct Range {
    std::size_t low = 0, high = 0;
  };
  // Returns the models that the volume may equal after `op_count` ops and a power cut.
  Range possible(std::size_t op_count) const;
  // Returns an empty list if `found` is allowed by one of models[low .. high].
  std::vector<std::string> differences(Range range, const Observation& found) const;
};

struct RunOptions {
  fs::MountOptions mount = quiet_options();
  bool unmount = true;
};
// Runs a workload. Failing operations are not in the trace. A mount with background threads uses
// the system clock.
Trace run(const Image& image, const Workload& workload, const RunOptions& options);

// Returns the state after `op_count` ops and a power cut, or nullopt if it cannot be mounted.
std::optional<Image> crashed_image(const Trace& trace, std::size_t op_count,
                                   device::Choice& choice);

// The problem of a device without write pointers on which a block was overwritten.
std::string overwritten(BandAddress at);

// Performs one operation on a volume that equals `model`. Returns the inode that the operation
// made, the number of bytes that it copied, or 0.
Result<std::uint64_t> perform(fs::Volume& volume, const Operation& operation, const Model& model);

}  // namespace lazyfs::crash
