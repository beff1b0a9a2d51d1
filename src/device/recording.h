// A device that passes every call on and remembers, in order, what changed: appends with their
// bytes, write pointers set, bands reset, flushes. From the record device/power_cut.h builds what a
// power cut at any moment could have left. Tests record a workload once, then try every moment.
#pragma once

#include <vector>

#include "base/mutex.h"
#include "device/device.h"

namespace lazyfs::device {

// One change.
struct Op {
  enum class Kind : std::uint8_t { kAppend, kSetWritePointer, kReset, kFlush };
  Kind kind = Kind::kFlush;
  BandAddress at;                // kAppend: where it began; kSetWritePointer: the new place
  std::vector<std::byte> bytes;  // kAppend: what was written, whole blocks
  std::size_t covers = 0;        // kFlush: ops [0, covers) are durable
  friend bool operator==(const Op&, const Op&) = default;
};
std::string to_string(const Op& op);

struct Recording {
  Geometry geometry;
  Capabilities capabilities;
  std::vector<Op> ops;
};

// Invariants:
//   R1  an op is in the record once the device below has completed it, and in the order of
//       completion; of an append that failed, what the device kept of it
//   R2  a flush covers the ops that had completed when it began, and no other
//   R3  played on an empty device of the same geometry, the ops give what the device holds
// Thread-safe. `inner` must outlive this. mu_ is a leaf lock, not held over calls to `inner`.
class RecordingDevice final : public Device {
 public:
  // What `inner` holds already becomes the first ops, followed by a flush that covers them.
  explicit RecordingDevice(Device& inner);

  // The number of ops so far: a test notes it beside what it did ("synced at op 17").
  std::size_t op_count() const EXCLUDES(mu_);
  Recording recording() const EXCLUDES(mu_);  // a copy

  const Geometry& geometry() const override { return inner_.geometry(); }
  Capabilities capabilities() const override { return inner_.capabilities(); }
  std::string name() const override { return "recorded " + inner_.name(); }
  using Device::append;
  Result<> read(BandAddress from, std::span<std::byte> to) override {
    return inner_.read(from, to);
  }
  Result<> append(BandAddress to, std::span<const Piece> pieces) override EXCLUDES(mu_);
  Result<std::uint32_t> write_pointer(BandId band) override { return inner_.write_pointer(band); }
  Result<> set_write_pointer(BandId band, std::uint32_t rba) override EXCLUDES(mu_);
  Result<> reset(BandId band) override EXCLUDES(mu_);
  Result<BandReport> report(BandId band) override { return inner_.report(band); }
  Result<> flush() override EXCLUDES(mu_);

 private:
  void record(Op op) EXCLUDES(mu_);
  void record_contents(BandId band);
  std::size_t blocks_kept(BandAddress from, std::size_t blocks);

  Device& inner_;
  mutable Mutex mu_;
  std::vector<Op> ops_ GUARDED_BY(mu_);
};

}  // namespace lazyfs::device
