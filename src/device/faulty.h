// A device that fails when the test says so: the n-th call of a kind, calls that a predicate picks,
// a band for ever, or everything from a moment on (a power cut). Appends can fail half done.
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
  kReport,
  kFlush
};
inline constexpr std::size_t kCallKinds = 7;

// What a predicate sees of a call that is about to be made.
struct CallInfo {
  Call call = Call::kRead;
  BandAddress at;            // band 0, RBA 0 for a flush
  std::uint64_t blocks = 0;  // of a read or an append
  std::uint64_t number = 0;  // among the calls of its kind, from 1
};

struct Fault {
  Errc error = Errc::kDeviceRead;
  // Of a failing append: so many of its blocks, from the first, are written nevertheless.
  std::uint64_t blocks_done = 0;
};

// A call that fails does not reach `inner`, but for the blocks_done of an append. An append that
// failed leaves its band as device.h has it: kBandFailed until a reset or set_write_pointer.
// Thread-safe. `inner` must outlive this. mu_ is a leaf lock, not held over calls to `inner`, but
// predicates run under it: they must not call this device.
class FaultyDevice final : public Device {
 public:
  explicit FaultyDevice(Device& inner) : inner_(inner) {}

  using Predicate = std::function<std::optional<Fault>(const CallInfo&)>;
  // The n-th call of this kind from now fails, once. n is at least 1.
  void fail_nth(Call call, std::uint64_t n, Fault fault) EXCLUDES(mu_);
  // Every call fails that `predicate` gives a fault for; the newest predicate is asked first.
  void fail_when(Predicate predicate) EXCLUDES(mu_);
  // Reads of the band fail with kDeviceRead, changes with kDeviceWrite, for ever.
  void break_band(BandId band) EXCLUDES(mu_);
  // Takes back everything above; what failed already stays failed.
  void mend() EXCLUDES(mu_);

  // All calls fail with kPowerCut: from now, or from the n-th change from now on (append,
  // set_write_pointer, reset, flush; n is at least 1); if that is an append, `blocks_done` of it
  // are written still. What the medium then holds is the business of device/power_cut.h.
  void cut_power() EXCLUDES(mu_);
  void cut_power_at_change(std::uint64_t n, std::uint64_t blocks_done = 0) EXCLUDES(mu_);
  void restore_power() EXCLUDES(mu_);

  std::uint64_t calls(Call call) const EXCLUDES(mu_);  // made so far, failed ones among them
  std::uint64_t changes() const EXCLUDES(mu_);
  std::uint64_t faults() const EXCLUDES(mu_);  // how many failed through this

  const Geometry& geometry() const override { return inner_.geometry(); }
  Capabilities capabilities() const override { return inner_.capabilities(); }
  std::string name() const override { return "faulty " + inner_.name(); }
  using Device::append;
  Result<> read(BandAddress from, std::span<std::byte> to) override EXCLUDES(mu_);
  Result<> append(BandAddress to, std::span<const Piece> pieces) override EXCLUDES(mu_);
  Result<std::uint32_t> write_pointer(BandId band) override EXCLUDES(mu_);
  Result<> set_write_pointer(BandId band, std::uint32_t rba) override EXCLUDES(mu_);
  Result<> reset(BandId band) override EXCLUDES(mu_);
  Result<BandReport> report(BandId band) override EXCLUDES(mu_);
  Result<> flush() override EXCLUDES(mu_);

 private:
  struct Countdown {
    Call call;
    std::uint64_t left;
    Fault fault;
  };

  // Counts the call and says whether it is to fail.
  std::optional<Fault> judge(Call call, BandAddress at, std::uint64_t blocks) EXCLUDES(mu_);
  std::optional<Fault> judge_power_locked(bool is_change) REQUIRES(mu_);
  std::optional<Fault> judge_plans_locked(const CallInfo& info) REQUIRES(mu_);
  Result<> append_part(BandAddress to, std::span<const Piece> pieces, std::uint64_t blocks);

  Device& inner_;
  mutable Mutex mu_;
  std::vector<Countdown> countdowns_ GUARDED_BY(mu_);
  std::vector<Predicate> predicates_ GUARDED_BY(mu_);
  std::set<BandId> broken_ GUARDED_BY(mu_);
  std::set<BandId> failed_ GUARDED_BY(mu_);  // an append failed; until reset
  bool has_power_ GUARDED_BY(mu_) = true;
  std::uint64_t changes_left_ GUARDED_BY(mu_) = 0;  // until the power goes; 0: it stays
  std::uint64_t last_blocks_ GUARDED_BY(mu_) = 0;   // of the append that the power cut meets
  std::array<std::uint64_t, kCallKinds> calls_ GUARDED_BY(mu_){};
  std::uint64_t changes_ GUARDED_BY(mu_) = 0;
  std::uint64_t faults_ GUARDED_BY(mu_) = 0;
};

}  // namespace lazyfs::device
