// A device that forwards every call and records, in order, each change: appends with their bytes,
// write pointers set, bands reset and discarded, flushes. device/power_cut.h builds from the
// recording any state that a power cut could have left. A test records a workload once and then
// tries a power cut after every change.
#pragma once

#include <set>
#include <vector>

#include "base/mutex.h"
#include "device/device.h"

namespace lazyfs::device {

// One change.
struct Op {
  enum class Kind : std::uint8_t { kAppend, kSetWritePointer, kReset, kDiscard, kFlush };
  Kind kind = Kind::kFlush;
  BandAddress at;                // kAppend: its first block; kSetWritePointer: the new position
  std::vector<std::byte> bytes;  // kAppend: the written bytes, whole blocks
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
//   R1  the recording has the ops that `inner` has completed, in the order of completion; of a
//       failed append it has the blocks that the device kept
//   R2  a flush covers the ops that had completed when the flush began, and no others
//   R3  the ops, replayed on an empty device of the same geometry, give the contents of `inner`
//   R4  when the device moves a sealed band's write pointer to the end for an append to another
//       band, the new position is recorded before that append
//   R5  on a device without keeps_write_pointers, stating an end is no change and is not recorded
// Thread-safe. `inner` must outlive this. mu_ is a leaf lock, not held during calls to `inner`.
class RecordingDevice final : public Device {
 public:
  // The present contents of `inner` become the first ops. A flush that covers them follows.
  explicit RecordingDevice(Device& inner);

  // The number of ops so far. A test stores it with its own steps ("synced at op 17").
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
  void seal(BandId band) override EXCLUDES(mu_);
  Result<std::uint64_t> discard(BandId band) override EXCLUDES(mu_);
  Result<BandReport> report(BandId band) override { return inner_.report(band); }
  // Not recorded. recording() has the bands that the device has at that call.
  Result<> grow(std::uint64_t bytes) override { return inner_.grow(bytes); }
  Result<> flush() override EXCLUDES(mu_);

 private:
  void record(Op op) EXCLUDES(mu_);
  void record_contents(BandId band);
  std::size_t blocks_kept(BandAddress from, std::size_t blocks);
  void record_ends_of_sealed() EXCLUDES(mu_);

  Device& inner_;
  mutable Mutex mu_;
  std::vector<Op> ops_ GUARDED_BY(mu_);
  std::set<BandId> sealed_ GUARDED_BY(mu_);  // not at their ends at the last check
};

}  // namespace lazyfs::device
