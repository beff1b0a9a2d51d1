#include "meta/log.h"

#include <algorithm>

#include "base/check.h"
#include "base/log.h"
#include "meta/log_writer.h"

namespace lazyfs::meta {
namespace {

constexpr std::size_t kMapMovesPerLock = 256;

}  // namespace

Log::Log(device::Device& device, Identity identity, const RecoveredLog& found)
    : device_(device),
      identity_(identity),
      chain_(found.chain.begin(), found.chain.end()),
      retired_(found.spare),
      head_rba_(found.head_rba),
      next_slot_(first_slot_of(identity.session)),
      recovered_parts_(found.parts.size()) {
  MutexLock lock(mu_);
  if (found.snapshot) restore_locked(*found.snapshot);
  for (const RecoveredPart& part : found.parts) {
    restore_locked(part);
    const Seq first = found.parts.front().place.address.seq;
    const bool carries_it = found.snapshot && part.place.address.seq == first;
    if (!carries_it) behind_snapshot_ += part.place.blocks;
  }
  if (!found.parts.empty()) last_part_ = found.parts.back().place;
  while (parts_.size() > 1 && parts_.front().live.empty()) parts_.pop_front();  // L4
}

void Log::restore_locked(const MapSnapshot& snapshot) {
  auto live = snapshot.nodes.begin();
  for (const MapSnapshot::Part& from : snapshot.parts) {
    const BandId band = band_of_locked(from.place.address.slot);
    Part& part = parts_.emplace_back(from.place.address, band, from.place.blocks);
    for (std::uint32_t i = 0; i < from.nodes; ++i, ++live) {
      jmap_.assign(live->node, {band, live->rba}, part);
    }
  }
}

void Log::restore_locked(const RecoveredPart& from) {
  Part& part = parts_.emplace_back(from.place.address, from.band, from.place.blocks);
  std::uint32_t rba = from.place.address.rba + from.descriptors;
  for (const DescriptorEntry& entry : from.entries) {
    switch (entry.kind) {
      case EntryKind::kImage: jmap_.assign(entry.node(), {from.band, rba++}, part); break;
      case EntryKind::kFreed: jmap_.erase(entry.node()); break;
      case EntryKind::kSnapshot: ++rba; break;
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
  free_.insert(free_.end(), usable.begin(), usable.end());
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

std::vector<Log::LiveNode> Log::find_run(NodeNo node, std::uint32_t blocks) const {
  MutexLock lock(mu_);
  const auto address = jmap_.find(node);
  if (!address) return {};
  const Part* part = part_at_locked(*address);
  CHECK(part != nullptr);
  std::vector<LiveNode> run;
  for (const JmapEntry* entry : jmap_.find_run(node, *part, blocks)) {
    run.push_back({entry->node, entry->address()});
  }
  return run;
}

const Part* Log::part_at_locked(BandAddress address) const {
  const auto band = std::ranges::find(chain_, address.band, &ChainBand::band);
  if (band == chain_.end()) return nullptr;
  const auto place = std::pair(band->slot, address.rba);
  const auto next = std::ranges::upper_bound(parts_, place, {}, [](const Part& part) {
    return std::pair(part.address.slot, part.address.rba);
  });
  return next == parts_.begin() ? nullptr : &*std::prev(next);
}

std::uint64_t Log::available_locked() const {
  std::uint64_t blocks = chain_.empty() ? 0 : blocks_of(chain_.back().band) - head_rba_;
  for (const BandId band : free_) blocks += blocks_of(band) - 1;
  return blocks;
}

std::uint64_t Log::available() const {
  MutexLock lock(mu_);
  return available_locked();
}

std::optional<LogPlan> Log::plan(Seq seq, std::uint64_t images, std::uint64_t freed) {
  MutexLock lock(mu_);
  std::vector<Room> rooms;
  if (!chain_.empty()) {
    const ChainBand head = chain_.back();
    rooms.push_back({head.band, head.slot, head_rba_, blocks_of(head.band) - head_rba_});
  }
  std::uint64_t slot = next_slot_;
  for (const BandId band : free_) rooms.push_back({band, slot++, 1, blocks_of(band) - 1});
  LogPlan plan{seq, lay_out(images, freed, rooms)};
  if (plan.parts.empty()) return std::nullopt;
  const Room& last = plan.parts.back().room;
  while (next_slot_ <= last.slot && !free_.empty()) {
    chain_.push_back({next_slot_++, free_.front()});
    free_.erase(free_.begin());
  }
  head_rba_ = last.rba + last.blocks;
  return plan;
}

// Moves the map to the transaction's images and returns the tail as it is then. Readers that look
// for a node of this transaction do not come here: its images stay in memory until it is durable.
PartAddress Log::move_map(const LogPlan& plan, std::span<const LogImage> images,
                          std::span<const NodeNo> freed) {
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
        jmap_.assign(image.node(), {planned.room.band, rba}, *part);
      }
    }
    images = images.subspan(planned.images);
    for (auto gone = freed.first(planned.freed); !gone.empty();) {
      MutexLock lock(mu_);
      const std::size_t some = std::min(gone.size(), kMapMovesPerLock);
      for (const NodeNo node : gone.first(some)) jmap_.erase(node);
      gone = gone.subspan(some);
    }
    freed = freed.subspan(planned.freed);
  }
  MutexLock lock(mu_);
  while (parts_.size() > 1 && parts_.front().live.empty()) parts_.pop_front();  // L4
  return parts_.front().address;
}

Result<> Log::write(const LogPlan& plan, std::span<const LogImage> images,
                    std::span<const NodeNo> freed, NodeNo next_node) {
  const PartAddress tail = move_map(plan, images, freed);
  PartPlace previous;
  {
    MutexLock lock(mu_);
    previous = last_part_;
  }
  LogWriter writer(device_, {identity_.uuid, identity_.session, 0, 0});
  TRY(writer.write({plan, images, freed, next_node, previous, tail}));
  MutexLock lock(mu_);
  const Room& last = plan.parts.back().room;
  last_part_ = {{last.slot, last.rba, plan.seq}, last.blocks};
  blocks_written_ += writer.blocks_written();
  behind_snapshot_ += writer.blocks_written();
  if (!images.empty() && images.back().kind == EntryKind::kSnapshot) behind_snapshot_ = 0;
  return ok();
}

void Log::release() {
  std::vector<BandId> passed;
  {
    MutexLock lock(mu_);
    while (chain_.size() > 1 && chain_.front().slot < parts_.front().address.slot) {
      passed.push_back(chain_.front().band);
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
      if (nodes > 0) snapshot.parts.push_back({{part.address, part.blocks}, nodes});
    }
  }
  return snapshot;
}

PartPlace Log::newest() const {
  MutexLock lock(mu_);
  return last_part_;
}

std::vector<NodeNo> Log::oldest_live(std::size_t max) const {
  MutexLock lock(mu_);
  std::vector<NodeNo> nodes;
  const std::uint64_t oldest = parts_.front().address.slot;
  if (oldest == chain_.back().slot) return nodes;
  for (const Part& part : parts_) {
    if (part.address.slot != oldest) break;
    for (const JmapEntry& entry : part.live) {
      if (nodes.size() == max) return nodes;
      nodes.push_back(entry.node);
    }
  }
  return nodes;
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
  return all;
}

void Log::add_band(BandId band) {
  MutexLock lock(mu_);
  free_.push_back(band);
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
                  .available = available_locked(),
                  .bands = chain_.size() + free_.size() + retired_.size(),
                  .free_bands = free_.size(),
                  .parts = parts_.size(),
                  .blocks_written = blocks_written_,
                  .behind_snapshot = behind_snapshot_,
                  .snapshot_pieces = snapshot_pieces(
                      chain_.size(), std::min(parts_.size(), jmap_.size()), jmap_.size()),
                  .recovered_parts = recovered_parts_};
  for (const ChainBand& band : chain_) figures.total_blocks += blocks_of(band.band);
  for (const BandId band : free_) figures.total_blocks += blocks_of(band);
  for (const BandId band : retired_) figures.total_blocks += blocks_of(band);
  return figures;
}

std::vector<BandId> Log::bands() const {
  MutexLock lock(mu_);
  std::vector<BandId> all = free_;
  for (const ChainBand& band : chain_) all.push_back(band.band);
  all.insert(all.end(), retired_.begin(), retired_.end());
  std::ranges::sort(all);
  return all;
}

std::vector<std::uint32_t> Log::band_sizes() const {
  std::vector<std::uint32_t> sizes;
  for (const BandId band : bands()) sizes.push_back(blocks_of(band));
  return sizes;
}

}  // namespace lazyfs::meta
