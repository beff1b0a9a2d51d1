#include "device/whole_blocks.h"

#include <algorithm>

#include "base/buffer.h"
#include "base/log.h"

namespace lazyfs::device {
namespace {

Result<Geometry> whole_geometry(const Geometry& inner) {
  const std::uint32_t inner_blocks = kBlockBytes / inner.block_bytes;
  Geometry geometry = inner;
  geometry.block_bytes = kBlockBytes;
  for (std::uint32_t& blocks : geometry.band_blocks) {
    // A later part of a link has none.
    if (blocks > 0 && blocks < inner_blocks) return fail(Errc::kBandTooSmall);
    blocks /= inner_blocks;
  }
  return geometry;
}

}  // namespace

Result<std::unique_ptr<Device>> WholeBlocks::make(std::unique_ptr<Device> inner) {
  if (inner->geometry().block_bytes >= kBlockBytes) return inner;
  ASSIGN_OR_RETURN(Geometry geometry, whole_geometry(inner->geometry()));
  auto device = std::make_unique<WholeBlocks>(std::move(inner), std::move(geometry));
  if (!device->capabilities().read_only) TRY(device->fill_blocks());
  return device;
}

WholeBlocks::WholeBlocks(std::unique_ptr<Device> inner, Geometry geometry)
    : inner_(std::move(inner)),
      inner_blocks_(kBlockBytes / inner_->geometry().block_bytes),
      geometry_(std::move(geometry)) {}

Result<> WholeBlocks::fill_blocks() {
  const AlignedBuffer zeros = AlignedBuffer::zeroed(kBlockBytes);
  for (std::uint32_t i = 0; i < geometry().band_count(); ++i) {
    const BandId band{i};
    if (geometry().blocks_of(band) == 0) continue;  // a later part of a link
    ASSIGN_OR_RETURN(const BandReport report, inner_->report(band));
    const bool is_open =
        report.kind == BandKind::kShingled && report.condition == BandCondition::kOpen;
    const std::uint32_t in_block = report.write_pointer % inner_blocks_;
    const std::uint32_t whole = report.write_pointer / inner_blocks_;
    if (!is_open || in_block == 0 || whole >= geometry().blocks_of(band)) continue;
    log::debug("{}: band {} ends within a block, which is filled", name(), i);
    const std::size_t missing_bytes =
        std::size_t{inner_blocks_ - in_block} * inner_->geometry().block_bytes;
    const auto filled =
        inner_->append({band, report.write_pointer}, Piece(zeros.span()).first(missing_bytes));
    if (!filled) {  // the other bands can be used
      log::error("{}: band {} ends within a block, which cannot be filled: {}", name(), i,
                 describe(filled.error()));
    }
  }
  return ok();
}

BandAddress WholeBlocks::inside(BandAddress at) const {
  const std::uint64_t rba = std::uint64_t{at.rba} * inner_blocks_;
  return {at.band, static_cast<std::uint32_t>(std::min<std::uint64_t>(rba, UINT32_MAX))};
}

Result<> WholeBlocks::read(BandAddress from, std::span<std::byte> to) {
  if (to.size() % kBlockBytes != 0) return fail(Errc::kBadAlignment);
  return inner_->read(inside(from), to);
}

Result<> WholeBlocks::append(BandAddress to, std::span<const Piece> pieces) {
  const bool is_whole = std::ranges::all_of(
      pieces, [](const Piece& piece) { return piece.size() % kBlockBytes == 0; });
  return is_whole ? inner_->append(inside(to), pieces) : fail(Errc::kBadAlignment);
}

Result<std::uint32_t> WholeBlocks::write_pointer(BandId band) {
  ASSIGN_OR_RETURN(const std::uint32_t rba, inner_->write_pointer(band));
  return rba / inner_blocks_;
}

Result<> WholeBlocks::set_write_pointer(BandId band, std::uint32_t rba) {
  return inner_->set_write_pointer(band, inside({band, rba}).rba);
}

Result<std::uint64_t> WholeBlocks::discard(BandId band) {
  ASSIGN_OR_RETURN(const std::uint64_t bytes, inner_->discard(band));
  return std::min(bytes, std::uint64_t{geometry().blocks_of(band)} * kBlockBytes);
}

Result<BandReport> WholeBlocks::report(BandId band) {
  ASSIGN_OR_RETURN(BandReport report, inner_->report(band));
  report.blocks /= inner_blocks_;
  report.write_pointer /= inner_blocks_;
  const bool is_written = report.condition != BandCondition::kReadOnly &&
                          report.condition != BandCondition::kOffline &&
                          report.kind == BandKind::kShingled;
  if (is_written) report.condition = condition_of(report.write_pointer, report.blocks);
  return report;
}

Result<> WholeBlocks::grow(std::uint64_t bytes) {
  TRY(inner_->grow(bytes));
  ASSIGN_OR_RETURN(Geometry geometry, whole_geometry(inner_->geometry()));
  geometry_.replace(std::move(geometry));
  return ok();
}

}  // namespace lazyfs::device
