#include "crash/medium.h"

#include <algorithm>
#include <iterator>
#include <span>

namespace lazyfs::crash {

using device::Op;

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
