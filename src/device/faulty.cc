#include "device/faulty.h"

#include <algorithm>

#include "base/check.h"

namespace lazyfs::device {
namespace {

bool is_change(Call call) {
  return call == Call::kAppend || call == Call::kSetWritePointer || call == Call::kReset ||
         call == Call::kFlush;
}

}  // namespace

void FaultyDevice::fail_nth(Call call, std::uint64_t n, Fault fault) {
  CHECK(n > 0);
  MutexLock lock(mu_);
  countdowns_.push_back({.call = call, .left = n, .fault = fault});
}

void FaultyDevice::fail_when(Predicate predicate) {
  MutexLock lock(mu_);
  predicates_.push_back(std::move(predicate));
}

void FaultyDevice::break_band(BandId band) {
  MutexLock lock(mu_);
  failing_.insert(band);
}

void FaultyDevice::mend() {
  MutexLock lock(mu_);
  countdowns_.clear();
  predicates_.clear();
  failing_.clear();
}

void FaultyDevice::cut_power() {
  MutexLock lock(mu_);
  has_power_ = false;
}

void FaultyDevice::cut_power_at_change(std::uint64_t n, std::uint64_t blocks_done) {
  CHECK(n > 0);
  MutexLock lock(mu_);
  changes_left_ = n;
  last_blocks_ = blocks_done;
}

void FaultyDevice::restore_power() {
  MutexLock lock(mu_);
  has_power_ = true;
  changes_left_ = 0;
  failed_.clear();  // the state is lost when the power goes
}

std::uint64_t FaultyDevice::calls(Call call) const {
  MutexLock lock(mu_);
  return calls_[static_cast<std::size_t>(call)];
}

std::uint64_t FaultyDevice::changes() const {
  MutexLock lock(mu_);
  return changes_;
}

std::uint64_t FaultyDevice::faults() const {
  MutexLock lock(mu_);
  return faults_;
}

std::optional<Fault> FaultyDevice::power_fault_locked(bool is_a_change) {
  if (!has_power_) return Fault{.error = Errc::kPowerCut};
  if (!is_a_change || changes_left_ == 0 || --changes_left_ > 0) return {};
  has_power_ = false;
  return Fault{.error = Errc::kPowerCut, .blocks_done = last_blocks_};
}

std::optional<Fault> FaultyDevice::planned_fault_locked(const CallInfo& info) {
  std::optional<Fault> fault;
  for (Countdown& countdown : countdowns_) {
    if (countdown.call == info.call && --countdown.left == 0) fault = countdown.fault;
  }
  std::erase_if(countdowns_, [](const Countdown& countdown) { return countdown.left == 0; });
  for (auto predicate = predicates_.rbegin(); !fault && predicate != predicates_.rend();
       ++predicate) {
    fault = (*predicate)(info);
  }
  if (!fault && info.call != Call::kFlush && failing_.contains(info.at.band)) {
    if (info.call == Call::kRead) fault = Fault{.error = Errc::kDeviceRead};
    if (is_change(info.call) || info.call == Call::kDiscard) {
      fault = Fault{.error = Errc::kDeviceWrite};
    }
  }
  return fault;
}

std::optional<Fault> FaultyDevice::fault_of(Call call, BandAddress at, std::uint64_t blocks) {
  MutexLock lock(mu_);
  const std::uint64_t number = ++calls_[static_cast<std::size_t>(call)];
  if (is_change(call)) ++changes_;
  auto fault = power_fault_locked(is_change(call));
  if (!fault) fault = planned_fault_locked({call, at, blocks, number});
  if (fault) ++faults_;
  return fault;
}

Result<> FaultyDevice::read(BandAddress from, std::span<std::byte> to) {
  if (auto fault = fault_of(Call::kRead, from, to.size() / geometry().block_bytes)) {
    return fail(fault->error);
  }
  return inner_.read(from, to);
}

Result<> FaultyDevice::append_part(BandAddress to, std::span<const Piece> pieces,
                                   std::uint64_t blocks) {
  std::vector<Piece> part;
  std::uint64_t left = blocks * geometry().block_bytes;
  for (const Piece& piece : pieces) {
    part.push_back(piece.first(std::min<std::uint64_t>(piece.size(), left)));
    left -= part.back().size();
  }
  return inner_.append(to, part);
}

Result<> FaultyDevice::append(BandAddress to, std::span<const Piece> pieces) {
  const auto fault = fault_of(Call::kAppend, to, bytes_of(pieces) / geometry().block_bytes);
  if (!fault || fault->error != Errc::kPowerCut) {
    MutexLock lock(mu_);
    if (failed_.contains(to.band)) return fail(Errc::kBandFailed);
  }
  if (!fault) return inner_.append(to, pieces);
  // A device checks an append before it writes, so an invalid append fails with its own error.
  if (fault->error != Errc::kPowerCut || fault->blocks_done > 0) {
    ASSIGN_OR_RETURN(const std::uint32_t at, inner_.write_pointer(to.band));
    TRY(check_append(geometry(), to, pieces, at));
    TRY(append_part(to, pieces, fault->blocks_done));
  }
  if (fault->error == Errc::kDeviceWrite || fault->error == Errc::kDeviceNoSpace) {
    MutexLock lock(mu_);
    failed_.insert(to.band);
  }
  return fail(fault->error);
}

Result<std::uint32_t> FaultyDevice::write_pointer(BandId band) {
  if (auto fault = fault_of(Call::kWritePointer, {band, 0}, 0)) return fail(fault->error);
  return inner_.write_pointer(band);
}

Result<> FaultyDevice::set_write_pointer(BandId band, std::uint32_t rba) {
  if (auto fault = fault_of(Call::kSetWritePointer, {band, rba}, 0)) return fail(fault->error);
  TRY(inner_.set_write_pointer(band, rba));
  MutexLock lock(mu_);
  failed_.erase(band);
  return ok();
}

Result<> FaultyDevice::reset(BandId band) {
  if (auto fault = fault_of(Call::kReset, {band, 0}, 0)) return fail(fault->error);
  TRY(inner_.reset(band));
  MutexLock lock(mu_);
  failed_.erase(band);
  return ok();
}

Result<std::uint64_t> FaultyDevice::discard(BandId band) {
  if (auto fault = fault_of(Call::kDiscard, {band, 0}, 0)) return fail(fault->error);
  return inner_.discard(band);
}

Result<BandReport> FaultyDevice::report(BandId band) {
  if (auto fault = fault_of(Call::kReport, {band, 0}, 0)) return fail(fault->error);
  return inner_.report(band);
}

Result<> FaultyDevice::flush() {
  if (auto fault = fault_of(Call::kFlush, {}, 0)) return fail(fault->error);
  return inner_.flush();
}

}  // namespace lazyfs::device
