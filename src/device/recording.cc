#include "device/recording.h"

#include <algorithm>

#include "base/buffer.h"

namespace lazyfs::device {
namespace {

std::vector<std::byte> joined(std::span<const Piece> pieces, std::size_t length_bytes) {
  std::vector<std::byte> bytes;
  bytes.reserve(length_bytes);
  for (const Piece& piece : pieces) {
    const auto part = piece.first(std::min(piece.size(), length_bytes - bytes.size()));
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  return bytes;
}

}  // namespace

std::string to_string(const Op& op) {
  const std::string at = " " + std::to_string(op.at.band.value) + "/" + std::to_string(op.at.rba);
  switch (op.kind) {
    case Op::Kind::kAppend:
      return "append" + at + " " + std::to_string(op.bytes.size()) + " bytes";
    case Op::Kind::kSetWritePointer:
      return "set" + at;
    case Op::Kind::kReset:
      return "reset " + std::to_string(op.at.band.value);
    case Op::Kind::kDiscard:
      return "discard " + std::to_string(op.at.band.value);
    case Op::Kind::kFlush:
      return "flush of " + std::to_string(op.covers);
  }
  return "unknown";
}

RecordingDevice::RecordingDevice(Device& inner) : inner_(inner) {
  for (std::uint32_t i = 0; i < inner.geometry().band_count(); ++i) record_contents(BandId{i});
  const std::size_t count = op_count();
  if (count > 0) record({.kind = Op::Kind::kFlush, .covers = count});
}

void RecordingDevice::record_contents(BandId band) {
  const auto end = inner_.write_pointer(band);
  if (!end || *end == 0) return;
  AlignedBuffer bytes(std::size_t{*end} * geometry().block_bytes);
  if (!inner_.read({band, 0}, bytes.span())) return;
  const bool is_blank = std::ranges::all_of(bytes.span(), [](auto b) { return b == std::byte{0}; });
  // An unwritten band without a write pointer holds zeros. It needs no op.
  const bool is_shingled = geometry().band_kinds[band.value] == BandKind::kShingled;
  const bool keeps_pointers = capabilities().keeps_write_pointers;
  if (is_blank && !(is_shingled && keeps_pointers)) return;
  record({.kind = Op::Kind::kAppend,
          .at = {band, 0},
          .bytes = {bytes.span().begin(), bytes.span().end()}});
  // The blocks may be leftovers: a device without write pointers does not know which are written.
  if (is_shingled && !keeps_pointers) record({.kind = Op::Kind::kReset, .at = {band, 0}});
}

std::size_t RecordingDevice::op_count() const {
  MutexLock lock(mu_);
  return ops_.size();
}

Recording RecordingDevice::recording() const {
  MutexLock lock(mu_);
  return {.geometry = geometry(), .capabilities = capabilities(), .ops = ops_};
}

void RecordingDevice::record(Op op) {
  MutexLock lock(mu_);
  ops_.push_back(std::move(op));
}

// Returns the number of blocks that the device kept of a failed append: those from `from` to the
// write pointer. Returns 0 for a conventional band, which has no write pointer.
std::size_t RecordingDevice::blocks_kept(BandAddress from, std::size_t blocks) {
  if (geometry().band_kinds[from.band.value] == BandKind::kConventional) return 0;
  const auto now = inner_.write_pointer(from.band);
  if (!now || *now <= from.rba) return 0;
  return std::min<std::size_t>(*now - from.rba, blocks);
}

Result<> RecordingDevice::append(BandAddress to, std::span<const Piece> pieces) {
  const auto before = inner_.write_pointer(to.band);
  const Result<> result = inner_.append(to, pieces);
  record_ends_of_sealed();
  std::size_t length_bytes = bytes_of(pieces);
  if (!result) {
    // A refused append left nothing on the device.
    if (!before || *before != to.rba) return result;
    length_bytes = blocks_kept(to, length_bytes / geometry().block_bytes) * geometry().block_bytes;
  }
  if (length_bytes == 0) return result;
  record({.kind = Op::Kind::kAppend, .at = to, .bytes = joined(pieces, length_bytes)});
  return result;
}

Result<> RecordingDevice::set_write_pointer(BandId band, std::uint32_t rba) {
  TRY(inner_.set_write_pointer(band, rba));
  if (!capabilities().keeps_write_pointers) return ok();  // it stated the end, and wrote nothing
  record({.kind = Op::Kind::kSetWritePointer, .at = {band, rba}});
  return ok();
}

void RecordingDevice::seal(BandId band) {
  inner_.seal(band);
  if (geometry().band_kinds[band.value] == BandKind::kConventional) return;
  const auto pointer = inner_.write_pointer(band);
  if (!pointer || *pointer == 0 || *pointer == geometry().blocks_of(band)) return;
  MutexLock lock(mu_);
  sealed_.insert(band);
}

void RecordingDevice::record_ends_of_sealed() {
  std::set<BandId> sealed;
  {
    MutexLock lock(mu_);
    sealed = sealed_;
  }
  for (const BandId band : sealed) {  // R4
    const std::uint32_t end = geometry().blocks_of(band);
    if (inner_.write_pointer(band) != end) continue;
    MutexLock lock(mu_);
    const bool is_new = sealed_.erase(band) > 0;
    if (is_new) ops_.push_back({.kind = Op::Kind::kSetWritePointer, .at = {band, end}});
  }
}

Result<> RecordingDevice::reset(BandId band) {
  {
    MutexLock lock(mu_);
    sealed_.erase(band);
  }
  TRY(inner_.reset(band));
  record({.kind = Op::Kind::kReset, .at = {band, 0}});
  return ok();
}

Result<std::uint64_t> RecordingDevice::discard(BandId band) {
  ASSIGN_OR_RETURN(const std::uint64_t bytes, inner_.discard(band));
  if (bytes > 0) record({.kind = Op::Kind::kDiscard, .at = {band, 0}});
  return bytes;
}

Result<> RecordingDevice::flush() {
  const std::size_t covers = op_count();
  TRY(inner_.flush());
  record({.kind = Op::Kind::kFlush, .covers = covers});
  return ok();
}

}  // namespace lazyfs::device
