// Devices of which a block, or a read, is wrong for a while.
#pragma once

#include <algorithm>

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

// All bytes of the n-th read are zeros.
class WrongReadDevice final : public device::ForwardingDevice {
 public:
  WrongReadDevice(Device& inner, std::uint64_t n) : ForwardingDevice(inner), n_(n) {}
  Result<> read(BandAddress from, std::span<std::byte> to) override {
    TRY(ForwardingDevice::read(from, to));
    if (++reads_ == n_) std::ranges::fill(to, std::byte{0});
    return ok();
  }
  bool is_past() const { return reads_ >= n_; }

 private:
  const std::uint64_t n_;
  std::uint64_t reads_ = 0;
};

}  // namespace lazyfs::meta
