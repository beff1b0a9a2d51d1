#include "crash/medium.h"

#include <algorithm>
#include <iterator>
#include <span>

namespace lazyfs::crash {

using device::Op;

namespace {

// Writes the blocks again that were written since the band's last reset, so that the device which
// the ops build remembers them.
void add_written(device::MemoryDevice& device, BandId band, std::vector<Op>& ops) {
  const std::uint32_t block_bytes = device.geometry().block_bytes;
  for (const std::uint32_t rba : device.written_since_reset(band)) {
    Op* const last = ops.empty() ? nullptr : &ops.back();
    const bool continues = last && last->kind == Op::Kind::kAppend && last->at.band == band &&
                           last->at.rba + last->bytes.size() / block_bytes == rba;
    Op& run = continues ? *last : ops.emplace_back(Op{Op::Kind::kAppend, {band, rba}, {}, 0});
    run.bytes.resize(run.bytes.size() + block_bytes);
    device.peek({band, rba}, std::span(run.bytes).last(block_bytes));
  }
}

}  // namespace

std::vector<Op> medium_of(device::MemoryDevice& device) {
  const device::Geometry& geometry = device.geometry();
  std::vector<Op> ops;
  for (std::uint32_t i = 0; i < geometry.band_count(); ++i) {
    const BandId band{i};
    const std::size_t band_bytes = std::size_t{geometry.blocks_of(band)} * geometry.block_bytes;
    std::vector<std::byte> bytes(band_bytes);
    device.peek({band, 0}, bytes);
    const auto is_set = [](std::byte b) { return b != std::byte{0}; };
    const auto last = std::find_if(bytes.rbegin(), bytes.rend(), is_set);
    const auto used = static_cast<std::size_t>(bytes.rend() - last);
    bytes.resize((used + geometry.block_bytes - 1) / geometry.block_bytes * geometry.block_bytes);
    const bool is_written = !bytes.empty();
    if (is_written) ops.push_back({.kind = Op::Kind::kAppend, .at = {band, 0}, .bytes = bytes});
    if (geometry.band_kinds[i] == device::BandKind::kConventional) continue;
    if (!device.capabilities().keeps_write_pointers) {
      if (is_written) ops.push_back({.kind = Op::Kind::kReset, .at = {band, 0}});
      add_written(device, band, ops);
      continue;
    }
    const std::uint32_t pointer = device.write_pointer(band).value_or(0);
    if (is_written || pointer > 0) {
      ops.push_back({.kind = Op::Kind::kSetWritePointer, .at = {band, pointer}});
    }
  }
  ops.push_back({.kind = Op::Kind::kFlush, .covers = ops.size()});
  return ops;
}

std::ptrdiff_t begin_with_medium(device::Recording& recording, std::size_t first,
                                 std::vector<Op> medium) {
  const auto added = std::ssize(medium) - static_cast<std::ptrdiff_t>(first);
  for (Op& op : std::span(recording.ops).subspan(first)) {
    if (op.kind == Op::Kind::kFlush) op.covers += static_cast<std::size_t>(added);
    medium.push_back(std::move(op));
  }
  recording.ops = std::move(medium);
  return added;
}

}  // namespace lazyfs::crash
