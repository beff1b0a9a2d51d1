// Cold bands of the metadata log: what lies in them, and how it is listed (meta/log/log.h).
#include <algorithm>
#include <cstdlib>

#include "base/log.h"
#include "meta/log/log.h"
#include "meta/log/log_writer.h"

namespace lazyfs::meta {
namespace {

constexpr std::size_t kPartsPerLock = 64;
// When more bands than that cannot be read it may be the device, for a while: they are tried again.
constexpr std::size_t kMaxHeld = 8;
constexpr std::uint64_t kMaxSlot = std::uint64_t{1} << 62;  // and so many sessions by far

DescriptorEntry band_note(std::uint64_t slot, BandId band) {
  return {slot, band.value, EntryKind::kColdBand};
}

void list_part(const Part& part, std::vector<DescriptorEntry>& to) {
  to.push_back({part.address.seq.value, part.address.rba, EntryKind::kColdPart});
  for (const JmapEntry& entry : part.live) {
    to.push_back({entry.node.value, entry.address().rba, EntryKind::kColdNode});
  }
}

}  // namespace

// ---- The map --------------------------------------------------------------------------------

void Log::assign_locked(NodeNo node, BandAddress address, Part& part) {
  const auto before = jmap_.assign(node, address, part);
  if (before) --live_in_[before->band.value];
  ++live_in_[address.band.value];  // L6
  written_at_[address.band.value] = ++assigned_;
}

void Log::erase_locked(NodeNo node) {
  if (const auto before = jmap_.erase(node)) --live_in_[before->band.value];
}

void Log::trim_locked() {
  while (parts_.size() > 1 && parts_.front().live.empty() &&
         !has_listing_locked(place_of(parts_.front().address))) {
    parts_.pop_front();  // L4
  }
}

// Nearest to the middle of the device first: those are used first, and kept longest.
void Log::free_locked(std::span<const BandId> bands) {
  free_.insert(free_.end(), bands.begin(), bands.end());
  const auto middle = static_cast<std::int64_t>(device_.geometry().band_count() / 2);
  std::ranges::sort(free_, {}, [&](BandId band) {
    return std::pair(std::abs(std::int64_t{band.value} - middle), band);
  });
}

// ---- Listings -------------------------------------------------------------------------------

// One entry of a listing that stands in the transaction whose first part is at `at`.
void Log::note_locked(const DescriptorEntry& note, LogPlace at, ListingCursor& cursor) {
  switch (note.kind) {
    case EntryKind::kImage:
    case EntryKind::kSnapshot:
    case EntryKind::kFreed:
    case EntryKind::kEarlier: return;
    case EntryKind::kColdBand: {
      cursor = {note.number, nullptr, nullptr};
      const BandId id{note.crc};
      if (!device_.geometry().has(id)) {
        is_sound_ = false;
        return;
      }
      cursor.band = &cold_.try_emplace(note.number, id).first->second;
      is_sound_ &= cursor.band->band == id;
      return;
    }
    case EntryKind::kColdPart: {
      cursor.part = nullptr;
      if (cursor.band == nullptr) return;  // a listing whose beginning the tail has passed
      const PartAddress address{cursor.slot, note.crc, Seq{note.number}};
      ColdPart& cold =
          cursor.band->parts.try_emplace(note.crc, address, cursor.band->band).first->second;
      cold.listed_at = at;
      listings_[at].push_back(place_of(address));
      cursor.part = &cold.part;
      // A band that is adopted: its nodes stay where they are, all those of a part together.
      const auto hot = std::ranges::lower_bound(
          parts_, place_of(address), {}, [](const Part& part) { return place_of(part.address); });
      if (hot != parts_.end() && hot->address == address) {
        is_sound_ &= hot->band == cold.part.band;
        cold.part.blocks = hot->blocks;
        cold.part.live.splice(cold.part.live.end(), hot->live);
      }
      return;
    }
    case EntryKind::kColdNode: {
      if (cursor.part == nullptr) return;
      const BandAddress address{cursor.part->band, note.crc};
      const std::uint32_t begin = cursor.part->address.rba;
      if (address.rba < begin || address.rba >= blocks_of(address.band)) {
        is_sound_ = false;
        return;
      }
      cursor.part->blocks = std::max(cursor.part->blocks, address.rba + 1 - begin);
      if (jmap_.find(note.node()) != address) assign_locked(note.node(), address, *cursor.part);
      return;
    }
  }
}

Log::ColdPart* Log::cold_part_locked(LogPlace place) {
  const auto band = cold_.find(place.slot);
  if (band == cold_.end()) return nullptr;
  const auto part = band->second.parts.find(place.rba);
  return part == band->second.parts.end() ? nullptr : &part->second;
}

bool Log::is_listed_locked(LogPlace cold_part, LogPlace at) {
  const ColdPart* cold = cold_part_locked(cold_part);
  return cold != nullptr && cold->listed_at == at && !cold->part.live.empty();
}

// Whether something that is listed there counts. Forgets what does not.
bool Log::has_listing_locked(LogPlace at) {
  const auto found = listings_.find(at);
  if (found == listings_.end()) return false;
  std::erase_if(found->second, [&](LogPlace part) { return !is_listed_locked(part, at); });
  if (!found->second.empty()) return true;
  listings_.erase(found);
  return false;
}

std::vector<DescriptorEntry> Log::listing_of(const ColdRoom& room, Seq seq,
                                             std::span<const LogImage> images) {
  std::vector<DescriptorEntry> notes{band_note(room.slot, room.band),
                                     {seq.value, room.rba, EntryKind::kColdPart}};
  std::uint32_t rba = room.rba;
  for (const LogImage& image : images) notes.push_back({image.number, rba++, EntryKind::kColdNode});
  return notes;
}

std::vector<DescriptorEntry> Log::list_for_adoption(std::uint64_t slot) const {
  std::vector<DescriptorEntry> notes;
  std::size_t parts = 0;
  {
    MutexLock lock(mu_);
    if (chain_.size() < 2 || chain_.front().slot != slot) return notes;
    notes.push_back(band_note(slot, chain_.front().band));
    parts = parts_.size();
  }
  // Nobody but the caller changes parts and map, so they stay while the lock is given to others.
  for (std::size_t i = 0; i < parts;) {
    MutexLock lock(mu_);
    for (const std::size_t stop = std::min(parts, i + kPartsPerLock); i < stop; ++i) {
      const Part& part = parts_[i];
      if (part.address.slot != slot) return notes;
      if (!part.live.empty()) list_part(part, notes);
    }
  }
  return notes;
}

std::vector<DescriptorEntry> Log::list_anew(std::uint64_t slot, std::size_t max) {
  MutexLock lock(mu_);
  std::vector<DescriptorEntry> notes;
  if (chain_.size() < 2 || chain_.front().slot != slot) return notes;
  std::uint64_t last_slot = 0;
  for (auto from = listings_.lower_bound({slot, 0});
       from != listings_.end() && from->first.slot == slot; ++from) {
    const auto& [at, listed] = *from;
    for (const LogPlace place : listed) {
      if (notes.size() >= max) return notes;
      if (!is_listed_locked(place, at)) continue;
      const ColdPart& cold = *cold_part_locked(place);
      if (last_slot != place.slot) notes.push_back(band_note(place.slot, cold.part.band));
      last_slot = place.slot;
      list_part(cold.part, notes);
    }
  }
  return notes;
}

// ---- Recovery -------------------------------------------------------------------------------

bool Log::is_sound() const {
  MutexLock lock(mu_);
  return is_sound_;
}

// The map is whole: cold bands that hold none of it are not cold ones any more.
void Log::restore_cold_locked() {
  for (auto band = cold_.begin(); band != cold_.end();) {
    std::erase_if(band->second.parts,
                  [](const auto& part) { return part.second.part.live.empty(); });
    band = band->second.parts.empty() ? cold_.erase(band) : std::next(band);
  }
  for (auto& [slot, band] : cold_) {
    written_at_[band.band.value] = 0;                   // older than all that is hot
    is_sound_ &= std::erase(retired_, band.band) == 1;  // L2
    for (auto& [rba, cold] : band.parts) {
      const bool is_known = std::ranges::binary_search(
          parts_, cold.listed_at, {}, [](const Part& part) { return place_of(part.address); });
      if (is_known || parts_.empty()) continue;
      cold.listed_at = place_of(parts_.front().address);  // L5
      listings_[cold.listed_at].push_back({slot, rba});
    }
  }
}

// What no honest log says: parts that overlap, or lie where a part is still to be begun.
void Log::check_places_locked() {
  const auto is_behind = [](const Part& part, const Part& before) {
    const PartAddress &at = part.address, &end = before.address;
    return at.slot > end.slot ||
           (at.slot == end.slot && at.rba > end.rba && at.rba - end.rba >= before.blocks);
  };
  for (std::size_t i = 1; i < parts_.size(); ++i) is_sound_ &= is_behind(parts_[i], parts_[i - 1]);
  for (const auto& [slot, band] : cold_) {
    const Part* before = nullptr;
    for (const auto& [rba, cold] : band.parts) {
      is_sound_ &= before == nullptr || is_behind(cold.part, *before);
      before = &cold.part;
    }
  }
  std::uint64_t highest = cold_.empty() ? 0 : cold_.rbegin()->first;
  if (!chain_.empty()) highest = std::max(highest, chain_.back().slot);
  next_slot_ = std::max(next_slot_, highest + 1);
  is_sound_ &= highest < kMaxSlot;
}

void Log::add_cold(MapSnapshot& snapshot) const {
  std::vector<const ColdPart*> parts;
  {
    MutexLock lock(mu_);
    for (const auto& [slot, band] : cold_) {
      for (const auto& [rba, cold] : band.parts) parts.push_back(&cold);
    }
  }
  // As above: they stay.
  for (const ColdPart* cold : parts) {
    MutexLock lock(mu_);
    const std::size_t before = snapshot.nodes.size();
    for (const JmapEntry& entry : cold->part.live) {
      snapshot.nodes.push_back({entry.node, entry.address().rba});
    }
    const auto nodes = static_cast<std::uint32_t>(snapshot.nodes.size() - before);
    if (nodes == 0) continue;
    snapshot.cold.push_back(
        {{cold->part.address, cold->part.blocks}, nodes, cold->part.band, cold->listed_at});
  }
}

// ---- Cold bands -----------------------------------------------------------------------------

void Log::resume_cold() {
  MutexLock lock(mu_);
  for (const auto& [slot, band] : cold_) {
    const auto pointer = device_.write_pointer(band.band);
    if (!pointer || *pointer == 0 || *pointer >= blocks_of(band.band)) continue;
    const std::uint32_t room = blocks_of(band.band) - *pointer;
    if (!cold_room_ || room > cold_room_->blocks) {
      cold_room_ = ColdRoom{band.band, slot, *pointer, room};
    }
  }
}

std::optional<ColdRoom> Log::plan_cold(std::size_t wanted, std::uint64_t keep) {
  MutexLock lock(mu_);
  if (!cold_room_ || cold_room_->blocks == 0) {
    if (free_.empty()) return std::nullopt;
    const BandId band = free_.front();
    const std::uint32_t room = blocks_of(band) - 1;
    if (space_locked().available < keep + room) return std::nullopt;
    free_.erase(free_.begin());
    cold_room_ = ColdRoom{band, next_slot_++, 1, room, true};
    cold_.try_emplace(cold_room_->slot, band);
  }
  ColdRoom taken = *cold_room_;
  taken.blocks = static_cast<std::uint32_t>(std::min<std::size_t>(wanted, taken.blocks));
  cold_room_->rba += taken.blocks;
  cold_room_->blocks -= taken.blocks;
  cold_room_->is_fresh = false;
  return taken;
}

Result<> Log::write_cold(const ColdRoom& room, std::span<const LogImage> images) {
  LogWriter writer(device_, {identity_.uuid, identity_.session, 0, 0});
  if (auto written = writer.write_cold(room, images); !written) {
    close_failed(room.band, written.error());
    return written;
  }
  MutexLock lock(mu_);
  blocks_written_ += writer.blocks_written();
  return ok();
}

std::vector<BandId> Log::dead_cold_bands_locked() const {
  std::vector<BandId> dead;
  for (const auto& [slot, band] : cold_) {
    if (live_in_[band.band.value] == 0) dead.push_back(band.band);
  }
  return dead;
}

bool Log::has_dead_cold_bands() const {
  MutexLock lock(mu_);
  return !dead_cold_bands_locked().empty();
}

void Log::release_cold() {
  {
    MutexLock lock(mu_);
    const std::vector<BandId> dead = dead_cold_bands_locked();
    std::erase_if(cold_, [&](const auto& cold) {
      return std::ranges::find(dead, cold.second.band) != dead.end();
    });
    if (cold_room_ && std::ranges::find(dead, cold_room_->band) != dead.end()) cold_room_.reset();
    retired_.insert(retired_.end(), dead.begin(), dead.end());
  }
  reset_spares();
}

// ---- What to clean --------------------------------------------------------------------------

void Log::hold(std::uint64_t slot) {
  MutexLock lock(mu_);
  const auto hot = std::ranges::find(chain_, slot, &ChainBand::slot);
  const auto cold = cold_.find(slot);
  if (hot == chain_.end() && cold == cold_.end()) return;
  const BandId band = hot != chain_.end() ? hot->band : cold->second.band;
  if (held_.size() == kMaxHeld) held_.clear();
  if (!held_.try_emplace(slot, band).second) return;
  log::error("log band {}: a metadata node in it cannot be read: cleaning leaves it out",
             band.value);
}

// Until all of it has died.
bool Log::is_held(BandId band) const {
  MutexLock lock(mu_);
  return live_in_[band.value] > 0 &&
         std::ranges::any_of(held_, [band](const auto& held) { return held.second == band; });
}

std::optional<CleanChoice> Log::choose_victim(bool may_adopt, bool has_cold) const {
  MutexLock lock(mu_);
  const auto age = [&](BandId band) { return assigned_ - written_at_[band.value]; };
  std::vector<BandLive> bands;
  for (std::size_t i = 0; i + 1 < chain_.size(); ++i) {
    const BandId band = chain_[i].band;
    bands.push_back({chain_[i].slot, live_in_[band.value], blocks_of(band) - 1, age(band), false});
  }
  for (const auto& [slot, band] : cold_) {
    const bool is_filled = !cold_room_ || cold_room_->slot != slot || cold_room_->blocks == 0;
    if (!is_filled || held_.contains(slot)) continue;
    bands.push_back(
        {slot, live_in_[band.band.value], blocks_of(band.band) - 1, age(band.band), true});
  }
  auto choice = meta::choose_victim(bands, may_adopt);
  const bool is_held = choice && choice->is_oldest_hot && held_.contains(choice->slot);
  if (is_held && has_cold) choice->kind = CleanChoice::Kind::kAdopt;
  return choice;
}

std::vector<NodeNo> Log::live_of(std::uint64_t slot, std::size_t max) const {
  MutexLock lock(mu_);
  std::vector<NodeNo> nodes;
  const auto add = [&](const Part& part) {
    for (const JmapEntry& entry : part.live) {
      if (nodes.size() == max) return;
      nodes.push_back(entry.node);
    }
  };
  if (const auto cold = cold_.find(slot); cold != cold_.end()) {
    for (const auto& [rba, part] : cold->second.parts) add(part.part);
    return nodes;
  }
  const auto from = std::ranges::lower_bound(parts_, slot, {},
                                             [](const Part& part) { return part.address.slot; });
  for (auto part = from; part != parts_.end() && part->address.slot == slot; ++part) add(*part);
  return nodes;
}

}  // namespace lazyfs::meta
