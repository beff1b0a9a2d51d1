#include "meta/log/log.h"

#include <algorithm>

#include "base/check.h"
#include "base/log.h"
#include "meta/log/log_writer.h"

namespace lazyfs::meta {
namespace {

constexpr std::size_t kMapMovesPerLock = 256;

}  // namespace

Log::Log(device::Device& device, Identity identity, const RecoveredLog& found)
    : device_(device),
      identity_(identity),
      live_in_(device.geometry().band_count()),
      written_at_(device.geometry().band_count()),
      chain_(found.chain.begin(), found.chain.end()),
      retired_(found.spare),
      head_rba_(found.head_rba),
      next_slot_(first_slot_of(identity.session)),
      recovered_parts_(found.parts.size()) {
  MutexLock lock(mu_);
  if (found.snapshot) restore_locked(*found.snapshot);
  const auto seq_of = [](const RecoveredPart& part) { return part.place.address.seq; };
  for (std::span<const RecoveredPart> rest(found.parts); !rest.empty();) {
    const auto end = std::ranges::find_if(
        rest, [&](const RecoveredPart& part) { return seq_of(part) != seq_of(rest.front()); });
    const auto transaction = rest.first(static_cast<std::size_t>(end - rest.begin()));
    restore_locked(transaction);
    const bool carries_it = found.snapshot && seq_of(rest.front()) == seq_of(found.parts.front());
    for (const RecoveredPart& part : transaction) {
      if (!carries_it) behind_snapshot_ += part.place.blocks;
    }
    rest = rest.subspan(transaction.size());
  }
  if (!found.parts.empty()) last_part_ = found.parts.back().place;
  restore_cold_locked();
  check_places_locked();
  trim_locked();
}

// Listings speak of the map as it was before their transaction: they come first.
void Log::restore_locked(std::span<const RecoveredPart> transaction) {
  ListingCursor cursor;
  const LogPlace at = place_of(transaction.front().place.address);
  for (const RecoveredPart& part : transaction) {
    for (const DescriptorEntry& entry : part.entries) note_locked(entry, at, cursor);
  }
  for (const RecoveredPart& part : transaction) restore_locked(part);
}

void Log::restore_locked(const MapSnapshot& snapshot) {
  auto live = snapshot.nodes.begin();
  for (const MapSnapshot::Part& from : snapshot.parts) {
    const BandId band = band_of_locked(from.place.address.slot);
    Part& part = parts_.emplace_back(from.place.address, band, from.place.blocks);
    for (std::uint32_t i = 0; i < from.nodes; ++i, ++live) {
      assign_locked(live->node, {band, live->rba}, part);
    }
  }
  for (const MapSnapshot::ColdPart& from : snapshot.cold) {
    ListingCursor cursor;
    const PartAddress& address = from.place.address;
    note_locked({address.slot, from.band.value, EntryKind::kColdBand}, from.listed_at, cursor);
    note_locked({address.seq.value, address.rba, EntryKind::kColdPart}, from.listed_at, cursor);
    for (std::uint32_t i = 0; i < from.nodes; ++i, ++live) {
      note_locked({live->node.value, live->rba, EntryKind::kColdNode}, from.listed_at, cursor);
    }
  }
}

void Log::restore_locked(const RecoveredPart& from) {
  Part& part = parts_.emplace_back(from.place.address, from.band, from.place.blocks);
  std::uint32_t rba = from.place.address.rba + from.descriptors;
  for (const DescriptorEntry& entry : from.entries) {
    switch (entry.kind) {
      case EntryKind::kImage: assign_locked(entry.node(), {from.band, rba++}, part); break;
      case EntryKind::kFreed: erase_locked(entry.node()); break;
      case EntryKind::kSnapshot: ++rba; break;
      case EntryKind::kColdBand:
      case EntryKind::kColdPart:
      case EntryKind::kColdNode:
      case EntryKind::kEarlier: break;
    }
  }
}

BandId Log::band_of_locked(std::uint64_t slot) const {
  const auto band = std::ranges::find(chain_, slot, &ChainBand::slot);
  CHECK(band != chain_.end());
  return band->band;
}

void Log::reset_spares() {
  std::vector<BandId> spare, usable, retired;
  {
    MutexLock lock(mu_);
    spare.swap(retired_);
  }
  for (const BandId band : spare) {
    if (has_failed(band)) {
      retired.push_back(band);
      continue;
    }
    const auto write_pointer = device_.write_pointer(band);
    const bool empty = write_pointer && *write_pointer == 0;
    if (const auto reset = empty ? ok() : device_.reset(band); reset) {
      usable.push_back(band);
    } else {
      log::error("log band {} cannot be reset and is set aside: {}", band.value,
                 describe(reset.error()));
      retired.push_back(band);
    }
  }
  MutexLock lock(mu_);
  free_locked(usable);
  retired_.insert(retired_.end(), retired.begin(), retired.end());
}

std::optional<Log::Location> Log::find(NodeNo node) const {
  MutexLock lock(mu_);
  const auto address = jmap_.find(node);
  if (!address) return std::nullopt;
  const Part* part = part_at_locked(*address);
  CHECK(part != nullptr);
  return Location{*address, part->address.seq};
}

std::vector<Log::LiveNode> Log::find_run(NodeNo node, std::uint32_t before,
                                         std::uint32_t behind) const {
  MutexLock lock(mu_);
  const auto address = jmap_.find(node);
  if (!address) return {};
  const Part* part = part_at_locked(*address);
  CHECK(part != nullptr);
  std::vector<LiveNode> run;
  for (const JmapEntry* entry : jmap_.find_run(node, *part, before, behind)) {
    run.push_back({entry->node, entry->address()});
  }
  return run;
}

const Part* Log::part_at_locked(BandAddress address) const {
  for (const auto& [slot, cold] : cold_) {
    if (cold.band != address.band) continue;
    const auto behind = cold.parts.upper_bound(address.rba);
    if (behind == cold.parts.begin()) break;
    const Part& part = std::prev(behind)->second.part;
    if (address.rba - part.address.rba < part.blocks) return &part;
  }
  const auto band = std::ranges::find(chain_, address.band, &ChainBand::band);
  if (band == chain_.end()) return nullptr;
  const auto place = std::pair(band->slot, address.rba);
  const auto next = std::ranges::upper_bound(parts_, place, {}, [](const Part& part) {
    return std::pair(part.address.slot, part.address.rba);
  });
  return next == parts_.begin() ? nullptr : &*std::prev(next);
}

LogSpace Log::space_locked() const {
  LogSpace space{.available = 0, .cold_room = cold_room_ ? cold_room_->blocks : 0};
  if (const ChainBand* head = head_locked()) {
    space.available = blocks_of(head->band) - head_rba_;
  }
  for (std::size_t i = chain_.size() - unbegun_; i < chain_.size(); ++i) {
    space.available += blocks_of(chain_[i].band) - 1;
  }
  for (const BandId band : free_) space.available += blocks_of(band) - 1;
  return space;
}

LogSpace Log::space() const {
  MutexLock lock(mu_);
  return space_locked();
}

std::optional<LogPlan> Log::plan(Seq seq, std::uint64_t images, std::uint64_t notes) {
  MutexLock lock(mu_);
  std::vector<Room> rooms;
  if (const ChainBand* head = head_locked()) {
    rooms.push_back({head->band, head->slot, head_rba_, blocks_of(head->band) - head_rba_});
  }
  for (std::size_t i = chain_.size() - unbegun_; i < chain_.size(); ++i) {
    rooms.push_back({chain_[i].band, chain_[i].slot, 1, blocks_of(chain_[i].band) - 1});
  }
  std::uint64_t slot = next_slot_;
  for (const BandId band : free_) rooms.push_back({band, slot++, 1, blocks_of(band) - 1});
  LogPlan plan{seq, lay_out(images, notes, rooms)};
  if (plan.parts.empty()) return std::nullopt;
  const Room& last = plan.parts.back().room;
  while (next_slot_ <= last.slot && !free_.empty()) {
    chain_.push_back({next_slot_++, free_.front()});
    free_.erase(free_.begin());
  }
  const auto head = std::ranges::find(chain_, last.slot, &ChainBand::slot);
  make_head_locked(static_cast<std::size_t>(head - chain_.begin()), last.rba + last.blocks);
  return plan;
}

// Moves the map to the transaction's images and returns the tail as it is then. Readers that look
// for a node of this transaction do not come here: its images stay in memory until it is durable.
PartAddress Log::move_map(const LogPlan& plan, std::span<const LogImage> images,
                          std::span<const DescriptorEntry> notes) {
  const Room& first = plan.parts.front().room;
  ListingCursor cursor;
  for (auto rest = notes; !rest.empty();) {
    MutexLock lock(mu_);
    const std::size_t some = std::min(rest.size(), kMapMovesPerLock);
    for (const DescriptorEntry& note : rest.first(some)) {
      note_locked(note, {first.slot, first.rba}, cursor);
    }
    rest = rest.subspan(some);
  }
  for (const PartPlan& planned : plan.parts) {
    Part* part = nullptr;
    {
      MutexLock lock(mu_);
      const Room& room = planned.room;
      part =
          &parts_.emplace_back(PartAddress{room.slot, room.rba, plan.seq}, room.band, room.blocks);
    }
    std::uint32_t rba = planned.room.rba + planned.descriptors;
    for (std::uint32_t done = 0; done < planned.images;) {
      MutexLock lock(mu_);
      const std::uint32_t stop = std::min<std::uint32_t>(planned.images, done + kMapMovesPerLock);
      for (; done < stop; ++done, ++rba) {
        const LogImage& image = images[done];
        if (image.kind != EntryKind::kImage) continue;
        assign_locked(image.node(), {planned.room.band, rba}, *part);
      }
    }
    images = images.subspan(planned.images);
  }
  for (auto rest = notes; !rest.empty();) {
    MutexLock lock(mu_);
    const std::size_t some = std::min(rest.size(), kMapMovesPerLock);
    for (const DescriptorEntry& note : rest.first(some)) {
      if (note.kind == EntryKind::kFreed) erase_locked(note.node());
    }
    rest = rest.subspan(some);
  }
  MutexLock lock(mu_);
  trim_locked();
  return parts_.front().address;
}

Result<> Log::write(const LogPlan& plan, std::span<const LogImage> images,
                    std::span<const DescriptorEntry> notes, NodeNo next_node) {
  const PartAddress tail = move_map(plan, images, notes);
  PartPlace previous;
  {
    MutexLock lock(mu_);
    previous = last_part_;
  }
  LogWriter writer(device_, {identity_.uuid, identity_.session, 0, 0});
  if (auto written = writer.write({plan, images, notes, next_node, previous, tail, history_});
      !written) {
    close_failed(writer.band(), written.error());
    return written;
  }
  note_history(plan, previous, images, notes);
  MutexLock lock(mu_);
  const Room& last = plan.parts.back().room;
  last_part_ = {{last.slot, last.rba, plan.seq}, last.blocks};
  blocks_written_ += writer.blocks_written();
  behind_snapshot_ += writer.blocks_written();
  if (!images.empty() && images.back().kind == EntryKind::kSnapshot) behind_snapshot_ = 0;
  return ok();
}

void Log::note_history(const LogPlan& plan, const PartPlace& previous,
                       std::span<const LogImage> images, std::span<const DescriptorEntry> notes) {
  const PartPlan& part = plan.parts.front();
  const bool has_snapshot = !images.empty() && images.back().kind == EntryKind::kSnapshot;
  if (plan.parts.size() > 1 || part.descriptors > 1 || has_snapshot) return history_.forget();
  std::vector<DescriptorEntry> entries;
  entries.reserve(images.size() + notes.size());
  for (const LogImage& image : images) entries.push_back({image.number, image.crc, image.kind});
  entries.insert(entries.end(), notes.begin(), notes.end());
  history_.add({{part.room.slot, part.room.rba, plan.seq}, part.room.blocks}, previous, entries);
}

void Log::release() {
  std::vector<BandId> passed;
  {
    MutexLock lock(mu_);
    while (chain_.size() > 1 && chain_.front().slot < parts_.front().address.slot) {
      // A band that was adopted is a cold one now.
      if (!cold_.contains(chain_.front().slot)) passed.push_back(chain_.front().band);
      chain_.pop_front();
    }
    retired_.insert(retired_.end(), passed.begin(), passed.end());
  }
  if (!passed.empty()) reset_spares();
}

MapSnapshot Log::snapshot() const {
  MapSnapshot snapshot;
  std::size_t parts = 0;
  {
    MutexLock lock(mu_);
    snapshot.chain.assign(chain_.begin(), chain_.end());
    std::erase_if(snapshot.chain, [&](const ChainBand& band)
                                      REQUIRES(mu_) { return void_slots_.contains(band.slot); });
    snapshot.nodes.reserve(jmap_.size());
    parts = parts_.size();
  }
  // Nobody but the caller changes parts and map, so they stay while the lock is given to others.
  for (std::size_t i = 0; i < parts;) {
    MutexLock lock(mu_);
    for (const std::size_t stop = snapshot.nodes.size() + kMapMovesPerLock;
         i < parts && snapshot.nodes.size() < stop; ++i) {
      const Part& part = parts_[i];
      const std::size_t before = snapshot.nodes.size();
      for (const JmapEntry& entry : part.live) {
        snapshot.nodes.push_back({entry.node, entry.address().rba});
      }
      const auto nodes = static_cast<std::uint32_t>(snapshot.nodes.size() - before);
      if (nodes > 0 || listings_.contains(place_of(part.address))) {
        snapshot.parts.push_back({{part.address, part.blocks}, nodes});
      }
    }
  }
  add_cold(snapshot);
  return snapshot;
}

PartPlace Log::newest() const {
  MutexLock lock(mu_);
  return last_part_;
}

std::vector<std::pair<NodeNo, Log::Location>> Log::all_live() const {
  MutexLock lock(mu_);
  std::vector<std::pair<NodeNo, Location>> all;
  all.reserve(jmap_.size());
  for (const Part& part : parts_) {
    for (const JmapEntry& entry : part.live) {
      all.push_back({entry.node, {entry.address(), part.address.seq}});
    }
  }
  for (const auto& [slot, band] : cold_) {
    for (const auto& [rba, cold] : band.parts) {
      for (const JmapEntry& entry : cold.part.live) {
        all.push_back({entry.node, {entry.address(), cold.part.address.seq}});
      }
    }
  }
  return all;
}

void Log::add_band(BandId band) {
  MutexLock lock(mu_);
  free_locked(std::span(&band, 1));
}

std::optional<BandId> Log::remove_free_band() {
  MutexLock lock(mu_);
  if (free_.empty()) return std::nullopt;
  const BandId band = free_.back();
  free_.pop_back();
  return band;
}

Log::Figures Log::figures() const {
  MutexLock lock(mu_);
  Figures figures{.live = jmap_.size(),
                  .jmap_bytes = jmap_.bytes(),
                  .space = space_locked(),
                  .bands = chain_.size() + cold_.size() + free_.size() + retired_.size(),
                  .free_bands = free_.size(),
                  .parts = parts_.size(),
                  .cold_bands = cold_.size(),
                  .blocks_written = blocks_written_,
                  .behind_snapshot = behind_snapshot_,
                  .recovered_parts = recovered_parts_};
  std::size_t cold_parts = 0;
  for (const auto& [slot, band] : cold_) {
    figures.total_blocks += blocks_of(band.band);
    figures.cold_live += live_in_[band.band.value];
    cold_parts += band.parts.size();
  }
  figures.snapshot_pieces =
      snapshot_pieces(chain_.size(), std::min(parts_.size(), jmap_.size() + listings_.size()),
                      std::min(cold_parts, jmap_.size()), jmap_.size());
  for (const ChainBand& band : chain_) {
    const bool is_adopted = cold_.contains(band.slot);  // a moment ago
    if (is_adopted) --figures.bands;
    if (!is_adopted) figures.total_blocks += blocks_of(band.band);
  }
  for (const BandId band : free_) figures.total_blocks += blocks_of(band);
  for (const BandId band : retired_) figures.total_blocks += blocks_of(band);
  return figures;
}

std::vector<BandId> Log::bands() const {
  MutexLock lock(mu_);
  std::vector<BandId> all = free_;
  for (const ChainBand& band : chain_) {
    if (!cold_.contains(band.slot)) all.push_back(band.band);
  }
  for (const auto& [slot, band] : cold_) all.push_back(band.band);
  all.insert(all.end(), retired_.begin(), retired_.end());
  std::ranges::sort(all);
  return all;
}

std::vector<std::uint32_t> Log::band_sizes() const {
  std::vector<std::uint32_t> sizes;
  for (const BandId band : bands()) {
    if (!has_failed(band) && !is_held(band)) sizes.push_back(blocks_of(band));
  }
  return sizes;
}

}  // namespace lazyfs::meta
