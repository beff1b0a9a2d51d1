#include "fs/volume/switched_device.h"

namespace lazyfs::fs {

class SwitchedDevice::Call {
 public:
  explicit Call(std::atomic<std::uint32_t>& state)
      : state_(state), may_pass_(state.fetch_add(1) < kOff) {}
  ~Call() {
    if (state_.fetch_sub(1) > kOff) state_.notify_all();
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  bool may_pass() const { return may_pass_; }

 private:
  std::atomic<std::uint32_t>& state_;
  const bool may_pass_;
};

void SwitchedDevice::switch_off() {
  std::uint32_t state = state_.fetch_or(kOff) | kOff;
  for (; state != kOff; state = state_.load()) state_.wait(state);
}

Result<> SwitchedDevice::read(BandAddress from, std::span<std::byte> to) {
  const Call call(state_);
  return call.may_pass() ? ForwardingDevice::read(from, to) : fail(Errc::kShutDown);
}

Result<> SwitchedDevice::append(BandAddress to, std::span<const device::Piece> pieces) {
  const Call call(state_);
  return call.may_pass() ? ForwardingDevice::append(to, pieces) : fail(Errc::kShutDown);
}

Result<std::uint32_t> SwitchedDevice::write_pointer(BandId band) {
  const Call call(state_);
  if (!call.may_pass()) return fail(Errc::kShutDown);
  return ForwardingDevice::write_pointer(band);
}

Result<> SwitchedDevice::set_write_pointer(BandId band, std::uint32_t rba) {
  const Call call(state_);
  return call.may_pass() ? ForwardingDevice::set_write_pointer(band, rba) : fail(Errc::kShutDown);
}

Result<> SwitchedDevice::reset(BandId band) {
  const Call call(state_);
  return call.may_pass() ? ForwardingDevice::reset(band) : fail(Errc::kShutDown);
}

Result<std::uint64_t> SwitchedDevice::discard(BandId band) {
  const Call call(state_);
  if (!call.may_pass()) return fail(Errc::kShutDown);
  return ForwardingDevice::discard(band);
}

Result<device::BandReport> SwitchedDevice::report(BandId band) {
  const Call call(state_);
  if (!call.may_pass()) return fail(Errc::kShutDown);
  return ForwardingDevice::report(band);
}

Result<> SwitchedDevice::grow(std::uint64_t bytes) {
  const Call call(state_);
  return call.may_pass() ? ForwardingDevice::grow(bytes) : fail(Errc::kShutDown);
}

Result<> SwitchedDevice::flush() {
  const Call call(state_);
  return call.may_pass() ? ForwardingDevice::flush() : fail(Errc::kShutDown);
}

}  // namespace lazyfs::fs
