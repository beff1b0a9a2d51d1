// Fault injection: a device whose calls fail when a test requests it. A test can fail the n-th call
// of a kind, calls that a predicate selects, all calls to one band, or all calls after a power cut.
// An append can fail after a part of it was written.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "base/mutex.h"
#include "device/device.h"

namespace lazyfs::device {

enum class Call : std::uint8_t {
  kRead,
  kAppend,
  kWritePointer,
  kSetWritePointer,
  kReset,
  kDiscard,
  kReport,
  kFlush
};
inline constexpr std::size_t kCallKinds = 8;

// The arguments of a call, for a predicate.
struct CallInfo {
  Call call = Call::kRead;
  BandAddress at;            // band 0, RBA 0 for a flush
  std::uint64_t blocks = 0;  // of a read or an append
  std::uint64_t number = 0;  // counts the calls of its kind, from 1
};

struct Fault {
  Errc error = Errc::kDeviceRead;
  std::uint64_t blocks_done = 0;  // a failing append writes this number of its first blocks
};

// A failing call does not reach `inner`, except for the first blocks_done blocks of an append.
// After a failed append the band refuses appends with kBandFailed until it is reset or its write
// pointer is set, as device.h specifies.
// Thread-safe. `inner` must outlive this. mu_ is a leaf lock and is not held during calls to
// `inner`. Predicates run with mu_ held. REQUIRES: a predicate does not call this device.
class FaultyDevice final : public Device {
 public:
  explicit FaultyDevice(Device& inner) : inner_(inner) {}

  using Predicate = std::function<std::optional<Fault>(const CallInfo&)>;
  // The n-th call of this kind from now fails, once. REQUIRES: n >= 1.
  void fail_nth(Call call, std::uint64_t n, Fault fault) EXCLUDES(mu_);
  // Every call fails for which `predicate` returns a fault. The newest predicate runs first.
  void fail_when(Predicate predicate) EXCLUDES(mu_);
  // Until mend(), reads of the band fail with kDeviceRead and changes with kDeviceWrite.
  void break_band(BandId band) EXCLUDES(mu_);
  // Cancels all faults requested above. A band whose append has failed still refuses appends.
  void mend() EXCLUDES(mu_);

  // Until restore_power(), all calls fail with kPowerCut: from now on, or from the n-th change on
  // (append, set_write_pointer, reset, flush). If the n-th change is an append, its first
  // `blocks_done` blocks are written. REQUIRES: n >= 1. device/power_cut.h builds the disk contents
  // after a power cut; this class does not.
  void cut_power() EXCLUDES(mu_);
  void cut_power_at_change(std::uint64_t n, std::uint64_t blocks_done = 0) EXCLUDES(mu_);
  void restore_power() EXCLUDES(mu_);

  std::uint64_t calls(Call call) const EXCLUDES(mu_);  // includes the calls that failed
  std::uint64_t changes() const EXCLUDES(mu_);
  std::uint64_t faults() const EXCLUDES(mu_);  // injected so far

  const Geometry& geometry() const override { return inner_.geometry(); }
  Capabilities capabilities() const override { return inner_.capabilities(); }
  std::string name() const override { return "faulty " + inner_.name(); }
  using Device::append;
  Result<> read(BandAddress from, std::span<std::byte> to) override EXCLUDES(mu_);
  Result<> append(BandAddress to, std::span<const Piece> pieces) override EXCLUDES(mu_);
  Result<std::uint32_t> write_pointer(BandId band) override EXCLUDES(mu_);
  Result<> set_write_pointer(BandId band, std::uint32_t rba) override EXCLUDES(mu_);
  Result<> reset(BandId band) override EXCLUDES(mu_);
  void seal(BandId band) override { inner_.seal(band); }
  Result<std::uint64_t> discard(BandId band) override EXCLUDES(mu_);
  Result<BandReport> report(BandId band) override EXCLUDES(mu_);
  Result<> grow(std::uint64_t bytes) override { return inner_.grow(bytes); }
  Result<> flush() override EXCLUDES(mu_);

 private:
  struct Countdown {
    Call call;
    std::uint64_t left;
    Fault fault;
  };

  // Counts the call. Returns the fault if the call must fail.
  std::optional<Fault> fault_of(Call call, BandAddress at, std::uint64_t blocks) EXCLUDES(mu_);
  std::optional<Fault> power_fault_locked(bool is_change) REQUIRES(mu_);
  std::optional<Fault> planned_fault_locked(const CallInfo& info) REQUIRES(mu_);
  Result<> append_part(BandAddress to, std::span<const Piece> pieces, std::uint64_t blocks);

  Device& inner_;
  mutable Mutex mu_;
  std::vector<Countdown> countdowns_ GUARDED_BY(mu_);
  std::vector<Predicate> predicates_ GUARDED_BY(mu_);
  std::set<BandId> failing_ GUARDED_BY(mu_);  // by break_band()
  std::set<BandId> failed_ GUARDED_BY(mu_);   // an append failed; cleared by a reset or set
  bool has_power_ GUARDED_BY(mu_) = true;
  std::uint64_t changes_left_ GUARDED_BY(mu_) = 0;  // until the power cut; 0: none is planned
  std::uint64_t last_blocks_ GUARDED_BY(mu_) = 0;   // written of an append that the power cut tears
  std::array<std::uint64_t, kCallKinds> calls_ GUARDED_BY(mu_){};
  std::uint64_t changes_ GUARDED_BY(mu_) = 0;
  std::uint64_t faults_ GUARDED_BY(mu_) = 0;
};

}  // namespace lazyfs::device
