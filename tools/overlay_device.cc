#include "tools/overlay_device.h"

#include <algorithm>

namespace lazyfs {

device::Capabilities OverlayDevice::capabilities() const {
  device::Capabilities capabilities = inner_.capabilities();
  capabilities.read_only = false;
  capabilities.max_open_bands = 0;
  return capabilities;
}

Result<std::uint32_t> OverlayDevice::pointer_of(BandId band) {
  const auto found = pointers_.find(band.value);
  if (found != pointers_.end()) return found->second;
  return inner_.write_pointer(band);
}

Result<std::uint32_t> OverlayDevice::write_pointer(BandId band) {
  MutexLock lock(mu_);
  return pointer_of(band);
}

Result<> OverlayDevice::read(BandAddress from, std::span<std::byte> to) {
  MutexLock lock(mu_);
  ASSIGN_OR_RETURN(const std::uint32_t pointer, pointer_of(from.band));
  TRY(device::check_read(geometry(), from, to, pointer));
  for (; !to.empty(); ++from.rba, to = to.subspan(kBlockBytes)) {
    const auto found = blocks_.find(from.packed());
    if (found == blocks_.end()) {
      TRY(inner_.read(from, to.first(kBlockBytes)));
    } else {
      std::ranges::copy(found->second.span(), to.begin());
    }
  }
  return ok();
}

Result<> OverlayDevice::append(BandAddress to, std::span<const device::Piece> pieces) {
  MutexLock lock(mu_);
  ASSIGN_OR_RETURN(const std::uint32_t pointer, pointer_of(to.band));
  TRY(device::check_append(geometry(), to, pieces, pointer));
  for (device::Piece piece : pieces) {
    for (; !piece.empty(); ++to.rba, piece = piece.subspan(kBlockBytes)) {
      AlignedBuffer block(kBlockBytes);
      std::ranges::copy(piece.first(kBlockBytes), block.span().begin());
      blocks_.insert_or_assign(to.packed(), std::move(block));
    }
  }
  const bool is_shingled =
      geometry().band_kinds[to.band.value] == device::BandKind::kShingled;
  if (is_shingled) pointers_[to.band.value] = to.rba;
  return ok();
}

Result<> OverlayDevice::set_write_pointer(BandId band, std::uint32_t rba) {
  MutexLock lock(mu_);
  ASSIGN_OR_RETURN(const std::uint32_t pointer, pointer_of(band));
  if (rba > pointer) return fail(Errc::kPastWritePointer);
  pointers_[band.value] = rba;
  return ok();
}

Result<device::BandReport> OverlayDevice::report(BandId band) {
  MutexLock lock(mu_);
  ASSIGN_OR_RETURN(device::BandReport report, inner_.report(band));
  const auto found = pointers_.find(band.value);
  if (found == pointers_.end()) return report;
  report.write_pointer = found->second;
  report.condition = device::condition_of(found->second, report.blocks);
  return report;
}

}  // namespace lazyfs
