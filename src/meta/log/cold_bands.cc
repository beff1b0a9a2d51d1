#include "meta/log/cold_bands.h"

#include <algorithm>

namespace lazyfs::meta {

bool is_past(const Part& part, const Part& before) {
  const PartAddress &at = part.address, &end = before.address;
  return at.slot > end.slot ||
         (at.slot == end.slot && at.rba > end.rba && at.rba - end.rba >= before.blocks);
}

const Part* ColdBands::part_holding(BandAddress address) const {
  for (const auto& [slot, cold] : bands_) {
    if (cold.band != address.band) continue;
    const auto next = cold.parts.upper_bound(address.rba);
    if (next == cold.parts.begin()) return nullptr;
    const Part& part = std::prev(next)->second.part;
    return address.rba - part.address.rba < part.blocks ? &part : nullptr;
  }
  return nullptr;
}

std::vector<BandId> ColdBands::dead_bands() const {
  std::vector<BandId> dead;
  for (const auto& [slot, cold] : bands_) {
    if (map_.live_in(cold.band) == 0) dead.push_back(cold.band);
  }
  return dead;
}

void ColdBands::forget(std::span<const BandId> bands) {
  const auto is_one = [&](BandId band) {
    return std::ranges::find(bands, band) != bands.end();
  };
  std::erase_if(bands_, [&](const auto& cold) { return is_one(cold.second.band); });
  if (filling_ && is_one(filling_->band)) filling_.reset();
}

// ---- The index ------------------------------------------------------------------------------

void ColdBands::read_index(const DescriptorEntry& entry, LogPlace at, ColdIndexCursor& cursor) {
  switch (entry.kind) {
    case EntryKind::kImage:
    case EntryKind::kCheckpoint:
    case EntryKind::kFreed:
    case EntryKind::kEarlier:
    case EntryKind::kData: return;
    case EntryKind::kColdBand: return read_band(entry, cursor);
    case EntryKind::kColdPart: return read_part(entry, at, cursor);
    case EntryKind::kColdNode: return read_node(entry, cursor);
  }
}

void ColdBands::read_band(const DescriptorEntry& entry, ColdIndexCursor& cursor) {
  cursor = {entry.number, nullptr, nullptr};
  const BandId id{entry.crc};
  if (!device_.geometry().has(id)) {
    is_sound_ = false;
    return;
  }
  cursor.band = &bands_.try_emplace(entry.number, id).first->second;
  is_sound_ &= cursor.band->band == id;
}

void ColdBands::read_part(const DescriptorEntry& entry, LogPlace at, ColdIndexCursor& cursor) {
  cursor.part = nullptr;
  if (cursor.band == nullptr) return;  // the tail has passed the beginning of this index
  const PartAddress address{cursor.slot, entry.crc, Seq{entry.number}};
  ColdPart& cold =
      cursor.band->parts.try_emplace(entry.crc, address, cursor.band->band).first->second;
  cold.indexed_at = at;
  indexed_in_[at].push_back(place_of(address));
  cursor.part = &cold.part;
  // A part of an adopted band: all its nodes stay where they are.
  if (Part* hot = map_.part_at(address)) {
    is_sound_ &= hot->band == cold.part.band;
    cold.part.blocks = hot->blocks;
    cold.part.live.splice(cold.part.live.end(), hot->live);
  }
}

void ColdBands::read_node(const DescriptorEntry& entry, const ColdIndexCursor& cursor) {
  if (cursor.part == nullptr) return;
  const BandAddress address{cursor.part->band, entry.crc};
  const std::uint32_t begin = cursor.part->address.rba;
  if (address.rba < begin || address.rba >= device_.geometry().blocks_of(address.band)) {
    is_sound_ = false;
    return;
  }
  cursor.part->blocks = std::max(cursor.part->blocks, address.rba + 1 - begin);
  if (map_.find(entry.node()) != address) map_.assign(entry.node(), address, *cursor.part);
}

const ColdPart* ColdBands::part_at(LogPlace place) const {
  const auto band = bands_.find(place.slot);
  if (band == bands_.end()) return nullptr;
  const auto part = band->second.parts.find(place.rba);
  return part == band->second.parts.end() ? nullptr : &part->second;
}

bool ColdBands::is_current(LogPlace cold_part, LogPlace at) const {
  const ColdPart* cold = part_at(cold_part);
  return cold != nullptr && cold->indexed_at == at && !cold->part.live.empty();
}

bool ColdBands::has_current_index(LogPlace at) {
  const auto found = indexed_in_.find(at);
  if (found == indexed_in_.end()) return false;
  std::erase_if(found->second, [&](LogPlace part) { return !is_current(part, at); });  // D1
  if (!found->second.empty()) return true;
  indexed_in_.erase(found);
  return false;
}

std::vector<DescriptorEntry> ColdBands::index_of(const ColdRoom& room, Seq seq,
                                                 std::span<const LogImage> images) {
  std::vector<DescriptorEntry> entries{index_of(room.slot, room.band),
                                       {seq.value, room.rba, EntryKind::kColdPart}};
  std::uint32_t rba = room.rba;
  for (const LogImage& image : images) {
    entries.push_back({image.number, rba++, EntryKind::kColdNode});
  }
  return entries;
}

void ColdBands::append_index(const Part& part, std::vector<DescriptorEntry>& to) {
  to.push_back({part.address.seq.value, part.address.rba, EntryKind::kColdPart});
  for (const JmapEntry& entry : part.live) {
    to.push_back({entry.node.value, entry.address().rba, EntryKind::kColdNode});
  }
}

std::vector<DescriptorEntry> ColdBands::index_again(std::uint64_t slot, std::size_t max) const {
  std::vector<DescriptorEntry> entries;
  std::uint64_t last_slot = 0;
  for (auto from = indexed_in_.lower_bound({slot, 0});
       from != indexed_in_.end() && from->first.slot == slot; ++from) {
    const auto& [at, parts] = *from;
    for (const LogPlace place : parts) {
      if (entries.size() >= max) return entries;
      if (!is_current(place, at)) continue;
      const Part& part = part_at(place)->part;
      if (last_slot != place.slot) entries.push_back(index_of(place.slot, part.band));
      last_slot = place.slot;
      append_index(part, entries);
    }
  }
  return entries;
}

// ---- The band being filled --------------------------------------------------------------------

void ColdBands::begin(BandId band, std::uint64_t slot) {
  filling_ = ColdRoom{band, slot, 1, device_.geometry().blocks_of(band) - 1, true};
  bands_.try_emplace(slot, band);
}

ColdRoom ColdBands::take_room(std::size_t wanted) {
  ColdRoom taken = *filling_;
  taken.blocks = static_cast<std::uint32_t>(std::min<std::size_t>(wanted, taken.blocks));
  filling_->rba += taken.blocks;
  filling_->blocks -= taken.blocks;
  filling_->is_fresh = false;
  return taken;
}

bool ColdBands::stop_filling(BandId band) {
  if (!filling_ || filling_->band != band) return false;
  filling_.reset();
  return true;
}

// ---- Recovery -------------------------------------------------------------------------------

void ColdBands::finish_recovery() {
  for (auto band = bands_.begin(); band != bands_.end();) {
    std::erase_if(band->second.parts,
                  [](const auto& part) { return part.second.part.live.empty(); });
    band = band->second.parts.empty() ? bands_.erase(band) : std::next(band);
  }
  if (map_.parts().empty()) return;
  for (auto& [slot, band] : bands_) {
    for (auto& [rba, cold] : band.parts) {
      if (map_.has_part_at(cold.indexed_at)) continue;
      cold.indexed_at = place_of(map_.parts().front().address);  // L5
      indexed_in_[cold.indexed_at].push_back({slot, rba});
    }
  }
}

bool ColdBands::has_overlaps() const {
  for (const auto& [slot, band] : bands_) {
    const Part* before = nullptr;
    for (const auto& [rba, cold] : band.parts) {
      if (before != nullptr && !is_past(cold.part, *before)) return true;
      before = &cold.part;
    }
  }
  return false;
}

}  // namespace lazyfs::meta
