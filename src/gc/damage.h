// Which errors say that metadata of one band or file is damaged, so that other bands can still be
// cleaned, and other files written back.
#pragma once

#include "base/result.h"

namespace lazyfs::gc {

// For errors of reading or changing metadata. Other errors, such as a full log, concern every band.
constexpr bool is_damage(Errc e) {
  return e == Errc::kItemBad || e == Errc::kNodeBad || e == Errc::kNodeChecksumBad ||
         e == Errc::kNodeMissing || e == Errc::kDeviceRead || e == Errc::kBandOffline ||
         e == Errc::kBadBand || e == Errc::kPastWritePointer || e == Errc::kDeviceTruncated ||
         e == Errc::kBandTableBad;
}

}  // namespace lazyfs::gc
