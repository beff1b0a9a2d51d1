// A device of which one block is read wrong for a while.
#pragma once

#include "device/forwarding.h"

namespace lazyfs::meta {

// Until the copies of its band are forgotten, `at` cannot be read, or is read with a wrong bit.
class TroubledDevice final : public device::ForwardingDevice {
 public:
  TroubledDevice(Device& inner, BandAddress at, bool is_wrong)
      : ForwardingDevice(inner), at_(at), is_wrong_(is_wrong) {}
  Result<> read(BandAddress from, std::span<std::byte> to) override {
    TRY(ForwardingDevice::read(from, to));
    const bool hit = is_troubled_ && from.band == at_.band && from.rba <= at_.rba &&
                     at_.rba < from.rba + to.size() / kBlockBytes;
    if (hit && !is_wrong_) return fail(Errc::kDeviceRead);
    if (hit) to[std::size_t{at_.rba - from.rba} * kBlockBytes + 99] ^= std::byte{1};
    return ok();
  }
  void forget_copies(BandId band) override { is_troubled_ &= band != at_.band; }

 private:
  const BandAddress at_;
  const bool is_wrong_;
  bool is_troubled_ = true;
};

}  // namespace lazyfs::meta
