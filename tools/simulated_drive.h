// A simulated disk with contents: requests take their simulated time, and their data is in a sparse
// file (drive_contents.h). smrdisk shows it as a file. Not thread-safe.
//
// Invariants:
//   V1  the model serves each request, and it is recorded, before its data changes
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <expected>
#include <memory>
#include <span>
#include <string>

#include "base/json.h"
#include "sim/disk.h"
#include "sim/latencies.h"
#include "sim/models.h"
#include "tools/drive_contents.h"

namespace lazyfs {

struct DriveOptions {
  std::string model;
  std::uint64_t size_bytes = 0;  // at most the model's; 0: all of it
  std::string backing;           // is made, or has that size already
  std::string record;            // where requests are written as a trace; empty: nowhere
  // A request returns when its simulated time has passed, and pauses between requests count.
  // Otherwise each request begins when the one before it ended, and returns at once.
  bool is_realtime = false;
  bool forgets_data = false;  // DriveContents keeps fills
};

class SimulatedDrive {
 public:
  // The error says what cannot be used.
  static std::expected<std::unique_ptr<SimulatedDrive>, std::string> open(
      const DriveOptions& options);
  ~SimulatedDrive();
  SimulatedDrive(const SimulatedDrive&) = delete;
  SimulatedDrive& operator=(const SimulatedDrive&) = delete;

  // These return 0 or a negative errno: -EINVAL past the end, -EIO where the model refuses a write.
  // Ranges that are not whole sectors count as all sectors that they touch.
  int read(std::uint64_t offset, std::span<std::byte> to);
  int write(std::uint64_t offset, std::span<const std::byte> bytes);
  int flush();
  int discard(std::uint64_t offset, std::uint64_t length);
  int write_zeros(std::uint64_t offset, std::uint64_t length);

  std::uint64_t size_bytes() const { return size_bytes_; }
  // What happened so far. `cleaning_seconds`: how long the disk would clean now.
  Json report();

 private:
  SimulatedDrive(const DriveOptions& options, std::unique_ptr<sim::Disk> disk,
                 std::unique_ptr<DriveContents> contents, std::FILE* record);
  int serve(sim::Op op, std::uint64_t offset, std::uint64_t length);
  double now_ms() const;
  void write_record(double start_ms, const sim::Request& request);

  const DriveOptions options_;
  const std::unique_ptr<sim::Disk> disk_;
  const std::unique_ptr<DriveContents> contents_;
  std::FILE* const record_;
  std::uint64_t size_bytes_ = 0;
  double begin_ms_ = 0;  // of the monotonic clock
  double end_ms_ = 0;    // of the last request
  std::uint64_t read_bytes_ = 0, written_bytes_ = 0, flushes_ = 0;
  sim::Latencies latency_;
};

}  // namespace lazyfs
