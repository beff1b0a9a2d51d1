#include "sim/read_buffer.h"

#include <algorithm>

namespace lazyfs::sim {

std::uint64_t ReadBuffer::end_of(std::uint64_t sector) const {
  return std::min(sector + parameters_.ahead_sectors, mechanics_.geometry().sectors());
}

bool ReadBuffer::holds(const Segment& segment, std::uint64_t sector, std::uint64_t end) const {
  if (sector < segment.start) return false;
  // The segment that is being filled continues for as long as the host takes sectors out of it.
  const bool continues = is_filling_ && &segment == &segments_.back();
  return end <= segment.end || (continues && sector <= segment.end);
}

std::optional<ReadBuffer::Hit> ReadBuffer::find(double now_ms, std::uint64_t sector,
                                                std::uint32_t sectors) {
  const std::uint64_t end = sector + sectors;
  const auto found = std::ranges::find_if(
      segments_, [&](const Segment& segment) { return holds(segment, sector, end); });
  if (found == segments_.end()) return std::nullopt;
  Segment segment = *found;
  const bool is_newest = &*found == &segments_.back();
  segments_.erase(found);
  is_filling_ = is_filling_ && is_newest;
  if (is_filling_) {
    // Read-ahead that filled the segment waits at its end for space, and continues now.
    if (segment.ready_ms(segment.end) < now_ms) {
      segment.from_ms = now_ms;
      segment.from = segment.end;
    }
    segment.end = end_of(end);
  }
  const Hit hit{segment.ready_ms(end), sector == segment.start};
  segment.start = end;
  segments_.push_back(segment);
  return hit;
}

void ReadBuffer::filled(double start_ms, std::uint64_t sector, std::uint32_t sectors) {
  const std::uint64_t end = sector + sectors;
  const double rotation_ms = mechanics_.parameters().revolution_ms;
  const std::uint64_t ahead_end = end_of(end);
  const double all_ms = mechanics_.geometry().revolutions(sector, ahead_end - sector) * rotation_ms;
  std::erase_if(segments_, [&](const Segment& old) {
    return old.start < ahead_end && sector < old.end;
  });
  if (segments_.size() >= parameters_.segments) segments_.pop_front();
  segments_.push_back({end, ahead_end, sector, start_ms,
                       all_ms / static_cast<double>(ahead_end - sector)});
  is_filling_ = true;
}

void ReadBuffer::stop(double now_ms) {
  if (!is_filling_) return;
  is_filling_ = false;
  Segment& segment = segments_.back();
  const double passed = std::max(0.0, (now_ms - segment.from_ms) / segment.sector_ms);
  const std::uint64_t reached = std::min(
      segment.end, std::max(segment.start, segment.from + static_cast<std::uint64_t>(passed)));
  if (reached > segment.start) {
    mechanics_.transfer(now_ms, segment.start, reached - segment.start);
  }
  segment.end = reached;
  if (segment.end == segment.start) segments_.pop_back();
}

}  // namespace lazyfs::sim
