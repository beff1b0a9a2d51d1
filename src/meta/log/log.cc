#include "meta/log/log.h"

#include <algorithm>

#include "base/check.h"
#include "base/log.h"
#include "meta/log/log_writer.h"
#include "meta/log/map_rebuild.h"

namespace lazyfs::meta {
namespace {

constexpr std::size_t kMapMovesPerLock = 256;
constexpr std::size_t kPartsPerLock = 64;
// If the cleaner cannot read more bands than this, the device may refuse all reads for a while. So
// the cleaner then tries all bands again.
constexpr std::size_t kMaxLeftOut = 8;

// Calls f with pieces of `all` that are short enough for one period with the lock held.
template <class T, class F>
void in_pieces(std::span<const T> all, F f) {
  for (; !all.empty(); all = all.subspan(std::min(all.size(), kMapMovesPerLock))) {
    f(all.first(std::min(all.size(), kMapMovesPerLock)));
  }
}

BandLive facts_of(const LiveMap& map, std::uint64_t slot, BandId band, std::uint32_t blocks,
                  bool is_cold) {
  return {slot, map.live_in(band), blocks, map.age_of(band), is_cold};
}

bool is_among(std::span<const BandId> bands, BandId band) {
  return std::ranges::find(bands, band) != bands.end();
}

void seal_all(device::Device& device, const std::vector<BandId>& bands) {
  for (const BandId band : bands) device.seal(band);
}

}  // namespace

// ---- Recovery -------------------------------------------------------------------------------

Log::Log(device::Device& device, Identity identity, const RecoveredLog& found)
    : device_(device),
      identity_(identity),
      has_rescue_band_(needs_rescue_band(device.capabilities())),
      cold_(map_, device),
      map_(device.geometry().band_count()),
      chain_(device, found.chain, found.head_rba, first_slot_of(identity.session)),
      pool_(device, found.spare),
      recovered_parts_(found.parts.size()) {
  MutexLock lock(mu_);
  const RebuiltMap rebuilt = MapRebuilder(map_, cold_, chain_, pool_).run(found);
  is_sound_ = rebuilt.is_sound;
  after_checkpoint_ = rebuilt.after_checkpoint;
  if (!found.parts.empty()) last_part_ = found.parts.back().place;
  trim_locked();
}

void Log::reset_retired() {
  std::vector<BandId> bands, usable, reset_now, retired;
  {
    MutexLock lock(mu_);
    for (const BandId band : pool_.take_retired()) {
      (pool_.has_failed(band) ? retired : bands).push_back(band);
    }
  }
  for (const BandId band : bands) {
    const auto write_pointer = device_.write_pointer(band);
    const bool empty = write_pointer && *write_pointer == 0;
    if (const auto reset = empty ? ok() : device_.reset(band); reset) {
      usable.push_back(band);
      if (!empty) reset_now.push_back(band);
    } else {
      log::error("log band {} cannot be reset and is set aside: {}", band.value,
                 describe(reset.error()));
      retired.push_back(band);
    }
  }
  MutexLock lock(mu_);
  unflushed_.insert(reset_now.begin(), reset_now.end());
  pool_.add_free(usable);
  pool_.retire(retired);
}

// ---- The map --------------------------------------------------------------------------------

const Part& Log::part_holding_locked(BandAddress address) const {
  if (const Part* cold = cold_.part_holding(address)) return *cold;
  const ChainBand* band = chain_.find(address.band);
  CHECK(band != nullptr);
  const Part* part = map_.last_part_up_to({band->slot, address.rba});
  CHECK(part != nullptr);
  return *part;
}

std::optional<Log::Location> Log::find(NodeNo node) const {
  MutexLock lock(mu_);
  const auto address = map_.find(node);
  if (!address) return std::nullopt;
  return Location{*address, part_holding_locked(*address).address.seq};
}

std::vector<Log::LiveNode> Log::find_run(NodeNo node, std::uint32_t before,
                                         std::uint32_t after) const {
  MutexLock lock(mu_);
  const auto address = map_.find(node);
  if (!address) return {};
  std::vector<LiveNode> run;
  for (const JmapEntry* entry :
       map_.find_run(node, part_holding_locked(*address), before, after)) {
    run.push_back({entry->node, entry->address()});
  }
  return run;
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
  if (const auto cold = cold_.bands().find(slot); cold != cold_.bands().end()) {
    for (const auto& [rba, part] : cold->second.parts) add(part.part);
    return nodes;
  }
  const auto& parts = map_.parts();
  const auto from = std::ranges::lower_bound(parts, slot, {},
                                             [](const Part& part) { return part.address.slot; });
  for (auto part = from; part != parts.end() && part->address.slot == slot; ++part) add(*part);
  return nodes;
}

bool Log::is_live_in(std::uint64_t slot, NodeNo node) const {
  MutexLock lock(mu_);
  const auto address = map_.find(node);
  return address && part_holding_locked(*address).address.slot == slot;
}

std::vector<std::pair<NodeNo, Log::Location>> Log::all_live() const {
  MutexLock lock(mu_);
  std::vector<std::pair<NodeNo, Location>> all;
  all.reserve(map_.size());
  const auto add = [&](const Part& part) {
    for (const JmapEntry& entry : part.live) {
      all.push_back({entry.node, {entry.address(), part.address.seq}});
    }
  };
  for (const Part& part : map_.parts()) add(part);
  for (const auto& [slot, band] : cold_.bands()) {
    for (const auto& [rba, cold] : band.parts) add(cold.part);
  }
  return all;
}

MapCheckpoint Log::checkpoint() const {
  MapCheckpoint checkpoint;
  std::size_t parts = 0;
  {
    MutexLock lock(mu_);
    checkpoint.chain = chain_.recoverable_bands();
    checkpoint.nodes.reserve(map_.size());
    parts = map_.parts().size();
  }
  // Only the committing thread, which is the caller, changes parts and map: they stay the same
  // while the lock is free.
  for (std::size_t i = 0; i < parts;) {
    MutexLock lock(mu_);
    for (const std::size_t stop = checkpoint.nodes.size() + kMapMovesPerLock;
         i < parts && checkpoint.nodes.size() < stop; ++i) {
      const Part& part = map_.parts()[i];
      const std::size_t before = checkpoint.nodes.size();
      for (const JmapEntry& entry : part.live) {
        checkpoint.nodes.push_back({entry.node, entry.address().rba});
      }
      const auto nodes = static_cast<std::uint32_t>(checkpoint.nodes.size() - before);
      if (nodes > 0 || cold_.has_index(place_of(part.address))) {
        checkpoint.parts.push_back({{part.address, part.blocks}, nodes});
      }
    }
  }
  add_cold_parts(checkpoint);
  return checkpoint;
}

void Log::add_cold_parts(MapCheckpoint& checkpoint) const {
  std::vector<const ColdPart*> parts;
  {
    MutexLock lock(mu_);
    for (const auto& [slot, band] : cold_.bands()) {
      for (const auto& [rba, cold] : band.parts) parts.push_back(&cold);
    }
  }
  for (const ColdPart* cold : parts) {  // they stay the same, as above
    MutexLock lock(mu_);
    const std::size_t before = checkpoint.nodes.size();
    for (const JmapEntry& entry : cold->part.live) {
      checkpoint.nodes.push_back({entry.node, entry.address().rba});
    }
    const auto nodes = static_cast<std::uint32_t>(checkpoint.nodes.size() - before);
    if (nodes == 0) continue;
    checkpoint.cold.push_back(
        {{cold->part.address, cold->part.blocks}, nodes, cold->part.band, cold->indexed_at});
  }
}

// ---- Writing --------------------------------------------------------------------------------

std::optional<LogPlan> Log::plan(Seq seq, std::uint64_t images, std::uint64_t annotations,
                                 bool is_rescue) {
  MutexLock lock(mu_);
  const auto bands = is_rescue ? pool_.free() : ordinary_bands_locked();
  LogPlan plan{seq, lay_out(images, annotations, chain_.rooms(bands))};
  if (plan.parts.empty()) return std::nullopt;
  const Room& last = plan.parts.back().room;
  while (chain_.next_slot() <= last.slot && !pool_.free().empty()) {
    chain_.append(pool_.take_nearest());
  }
  chain_.set_head(last.slot, last.rba + last.blocks);
  plan.flushes_first = std::ranges::any_of(plan.parts, [this](const PartPlan& part) REQUIRES(mu_) {
    return unflushed_.contains(part.room.band);
  });
  return plan;
}

void Log::take_back(const LogPlan& plan) {
  MutexLock lock(mu_);
  chain_.take_back(plan.parts.front().room);
}

// Makes the map point to the transaction's images, and returns the new tail. Readers that look for
// a node of this transaction find it in memory, where it stays until it is durable.
PartAddress Log::move_map(const LogPlan& plan, std::span<const LogImage> images,
                          std::span<const DescriptorEntry> annotations) {
  const Room& first = plan.parts.front().room;
  read_index(annotations, {first.slot, first.rba});
  for (const PartPlan& planned : plan.parts) {
    add_part(planned, plan.seq, images.first(planned.images));
    images = images.subspan(planned.images);
  }
  in_pieces(annotations, [&](std::span<const DescriptorEntry> piece) {
    MutexLock lock(mu_);
    for (const DescriptorEntry& entry : piece) {
      if (entry.kind == EntryKind::kFreed) map_.erase(entry.node());
    }
  });
  MutexLock lock(mu_);
  trim_locked();
  return map_.parts().front().address;
}

void Log::read_index(std::span<const DescriptorEntry> annotations, LogPlace at) {
  ColdIndexCursor cursor;
  in_pieces(annotations, [&](std::span<const DescriptorEntry> piece) {
    MutexLock lock(mu_);
    for (const DescriptorEntry& entry : piece) cold_.read_index(entry, at, cursor);
  });
}

void Log::add_part(const PartPlan& planned, Seq seq, std::span<const LogImage> images) {
  const Room& room = planned.room;
  Part* part = nullptr;
  {
    MutexLock lock(mu_);
    part = &map_.add_part({room.slot, room.rba, seq}, room.band, room.blocks);
  }
  std::uint32_t rba = room.rba + planned.descriptors;
  in_pieces(images, [&](std::span<const LogImage> piece) {
    MutexLock lock(mu_);
    for (const LogImage& image : piece) {
      if (image.kind == EntryKind::kImage) map_.assign(image.node(), {room.band, rba}, *part);
      ++rba;
    }
  });
}

void Log::trim_locked() {
  while (map_.parts().size() > 1 && map_.parts().front().live.empty() &&
         !cold_.has_current_index(place_of(map_.parts().front().address))) {
    map_.drop_oldest_part();  // L4
  }
}

Result<> Log::write(const LogPlan& plan, std::span<const LogImage> images,
                    std::span<const DescriptorEntry> annotations, NodeNo next_node) {
  const PartAddress tail = move_map(plan, images, annotations);
  const PartPlace previous = newest();
  if (const Room& first = plan.parts.front().room; first.rba == 1) {
    std::vector<BandId> left;
    {
      MutexLock lock(mu_);
      left = chain_.bands_before(first.slot);
    }
    seal_all(device_, left);
  }
  LogWriter writer(device_, {identity_.uuid, identity_.session, 0, 0});
  if (auto written = writer.write({plan, images, annotations, next_node, previous, tail, history_});
      !written) {
    close_failed(writer.band(), written.error());
    return written;
  }
  history_.record(plan, previous, images, annotations);
  MutexLock lock(mu_);
  const Room& last = plan.parts.back().room;
  last_part_ = {{last.slot, last.rba, plan.seq}, last.blocks};
  blocks_written_ += writer.blocks_written();
  after_checkpoint_ += writer.blocks_written();
  if (!images.empty() && images.back().kind == EntryKind::kCheckpoint) after_checkpoint_ = 0;
  return ok();
}

// Called when a write to a band of the plan, or to a cold band, has failed. The band's contents
// stay readable, and the cleaner empties it like other bands. It is not written again in this
// session, unless the device has no space: that is not the band's fault, so the band is used again
// once it was reset.
void Log::close_failed(BandId band, Errc why) {
  const bool is_bands_fault = why != Errc::kDeviceNoSpace;
  log::error("log band {}: cannot be written: {}; it is {}", band.value, describe(why),
             is_bands_fault ? "set aside" : "used again after its reset");
  device_.seal(band);
  MutexLock lock(mu_);
  if (is_bands_fault) pool_.set_failed(band);
  if (cold_.stop_filling(band)) return;
  const ChainBand* failed = chain_.find(band);
  if (failed == nullptr) return;
  const std::uint64_t slot = failed->slot;
  const bool is_void = std::ranges::none_of(map_.parts(), [slot](const Part& part) {
    return part.address.slot == slot && part.address.rba > 1;
  });
  chain_.close(*failed, is_void);
  map_.void_parts_after(slot);
}

bool Log::has_passed_bands() const {
  MutexLock lock(mu_);
  const auto& bands = chain_.bands();
  return bands.size() > 1 && bands.front().slot < map_.parts().front().address.slot;
}

void Log::release() {
  bool has_passed = false;
  {
    MutexLock lock(mu_);
    unflushed_.clear();  // the transaction was flushed
    while (chain_.bands().size() > 1 &&
           chain_.bands().front().slot < map_.parts().front().address.slot) {
      const ChainBand oldest = chain_.bands().front();
      const bool is_adopted = cold_.contains(oldest.slot);
      if (!is_adopted) pool_.retire(std::span(&oldest.band, 1));
      if (!is_adopted) left_out_.erase(oldest.slot);
      has_passed |= !is_adopted;
      chain_.drop_oldest();
    }
  }
  if (has_passed) reset_retired();
}

// ---- The end ----------------------------------------------------------------------------------

Log::Head Log::head() const {
  MutexLock lock(mu_);
  const ChainBand* band = chain_.find(chain_.head_slot());
  if (band == nullptr) return {};
  const PartAddress& last = last_part_.address;
  return {.next = {band->band, chain_.head_rba()},
          .is_open = band->slot == last.slot && chain_.head_rba() == last.rba + last_part_.blocks};
}

std::optional<CleanChoice> Log::choose_rescue() const {
  MutexLock lock(mu_);
  std::optional<CleanChoice> best;
  std::uint64_t fewest = ~std::uint64_t{0};
  const auto consider = [&](std::uint64_t slot, BandId band, bool is_oldest_hot) REQUIRES(mu_) {
    const std::uint64_t live = map_.live_in(band);
    if (live >= fewest || left_out_.contains(slot)) return;
    fewest = live;
    best = CleanChoice{.slot = slot, .is_oldest_hot = is_oldest_hot};
  };
  const auto& chain = chain_.bands();
  if (chain.size() > 1) consider(chain.front().slot, chain.front().band, true);
  for (const auto& [slot, cold] : cold_.bands()) {
    const bool is_adopted = chain_.find(slot) != nullptr;
    if (!is_adopted && !cold_.is_filling(slot)) consider(slot, cold.band, false);
  }
  return best;
}

bool Log::may_rescue(std::uint64_t slot, std::uint64_t images, std::uint64_t annotations) const {
  MutexLock lock(mu_);
  if (!chain_.is_oldest(slot) && !cold_.contains(slot)) return false;
  return !lay_out(images, annotations, chain_.rooms(pool_.free())).empty();
}

// ---- Cold bands -----------------------------------------------------------------------------

void Log::resume() {
  if (has_rescue_band_) return;  // it is not known where the cold bands end
  std::vector<std::pair<std::uint64_t, BandId>> bands;
  std::uint64_t head = 0;
  std::vector<BandId> written;
  {
    MutexLock lock(mu_);
    head = chain_.head_slot();
    written = chain_.bands_before(head);
    for (const auto& [slot, cold] : cold_.bands()) bands.push_back({slot, cold.band});
  }
  std::optional<ColdRoom> best;
  for (const auto& [slot, band] : bands) {
    const auto pointer = device_.write_pointer(band);
    if (!pointer || *pointer == 0 || *pointer >= blocks_of(band)) continue;
    const std::uint32_t room = blocks_of(band) - *pointer;
    if (!best || room > best->blocks) best = ColdRoom{band, slot, *pointer, room};
  }
  seal_all(device_, written);
  for (const auto& [slot, band] : bands) {
    if (slot != head && (!best || slot != best->slot)) device_.seal(band);
  }
  MutexLock lock(mu_);
  if (best) cold_.resume(*best);
}

std::optional<ColdRoom> Log::plan_cold(std::size_t wanted, std::uint64_t keep) {
  MutexLock lock(mu_);
  if (cold_.room_blocks() == 0) {
    if (ordinary_bands_locked().empty()) return std::nullopt;
    const std::uint32_t room = blocks_of(pool_.free().front()) - 1;
    if (space_locked().available < keep + room) return std::nullopt;
    cold_.begin(pool_.take_nearest(), chain_.take_slot());
  }
  return cold_.take_room(wanted);
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

std::vector<DescriptorEntry> Log::index_for_adoption(std::uint64_t slot) const {
  std::vector<DescriptorEntry> entries;
  std::size_t parts = 0;
  {
    MutexLock lock(mu_);
    if (!chain_.is_oldest(slot)) return entries;
    entries.push_back(ColdBands::index_of(slot, chain_.bands().front().band));
    parts = map_.parts().size();
  }
  // Only the committing thread, which is the caller, changes parts and map.
  for (std::size_t i = 0; i < parts;) {
    MutexLock lock(mu_);
    for (const std::size_t stop = std::min(parts, i + kPartsPerLock); i < stop; ++i) {
      const Part& part = map_.parts()[i];
      if (part.address.slot != slot) return entries;
      if (!part.live.empty()) ColdBands::append_index(part, entries);
    }
  }
  return entries;
}

std::vector<DescriptorEntry> Log::index_again(std::uint64_t slot, std::size_t max) const {
  MutexLock lock(mu_);
  if (!chain_.is_oldest(slot)) return {};
  return cold_.index_again(slot, max);
}

bool Log::has_dead_cold_bands() const {
  MutexLock lock(mu_);
  return !cold_.dead_bands().empty();
}

void Log::release_cold() {
  {
    MutexLock lock(mu_);
    const std::vector<BandId> dead = cold_.dead_bands();
    cold_.forget(dead);
    pool_.retire(dead);
    std::erase_if(left_out_, [&dead](const auto& entry) {
      return std::ranges::find(dead, entry.second) != dead.end();
    });
  }
  reset_retired();
}

// ---- Cleaning and size ----------------------------------------------------------------------

bool Log::leave_out(std::uint64_t slot) {
  MutexLock lock(mu_);
  const ChainBand* hot = chain_.find(slot);
  const auto cold = cold_.bands().find(slot);
  if (hot == nullptr && cold == cold_.bands().end()) return false;
  const BandId band = hot != nullptr ? hot->band : cold->second.band;
  if (left_out_.size() == kMaxLeftOut) left_out_.clear();
  if (!left_out_.try_emplace(slot, band).second) return false;
  log::error("log band {}: a metadata node in it cannot be read: cleaning leaves it out",
             band.value);
  return true;
}

std::optional<CleanChoice> Log::choose_victim(bool may_adopt, bool has_cold) const {
  MutexLock lock(mu_);
  std::vector<BandLive> bands;
  const auto& chain = chain_.bands();
  for (std::size_t i = 0; i + 1 < chain.size(); ++i) {
    const BandId band = chain[i].band;
    bands.push_back(facts_of(map_, chain[i].slot, band, blocks_of(band) - 1, false));
  }
  for (const auto& [slot, cold] : cold_.bands()) {
    if (cold_.is_filling(slot) || left_out_.contains(slot)) continue;
    bands.push_back(facts_of(map_, slot, cold.band, blocks_of(cold.band) - 1, true));
  }
  auto choice = meta::choose_victim(bands, may_adopt);
  const bool cannot_be_read =
      choice && choice->is_oldest_hot && left_out_.contains(choice->slot);
  if (cannot_be_read && !has_cold) return std::nullopt;  // it can be neither emptied nor adopted
  if (cannot_be_read) choice->kind = CleanChoice::Kind::kAdopt;
  return choice;
}

Result<std::optional<CleanChoice>> Log::choose_to_empty(std::span<const BandId> bands,
                                                        std::uint64_t keep) {
  std::optional<BandId> filled;
  {
    MutexLock lock(mu_);
    const std::uint64_t available = space_locked().available;
    if (cold_.filling() && is_among(bands, cold_.filling()->band)) {
      filled = cold_.filling()->band;
    }
    const ChainBand* head = chain_.find(chain_.head_slot());
    const bool fills_head = head != nullptr && is_among(bands, head->band);
    const std::uint32_t rest = fills_head ? blocks_of(head->band) - chain_.head_rba() : 0;
    if ((filled || rest > 0) && available < keep + rest) return fail(Errc::kLogFull);
    if (filled) cold_.stop_filling(*filled);
    if (rest > 0) chain_.close(*head, false);
  }
  if (filled) device_.seal(*filled);  // write() seals the head
  MutexLock lock(mu_);
  for (const auto& [slot, cold] : cold_.bands()) {
    if (left_out_.contains(slot) || !is_among(bands, cold.band)) continue;
    return CleanChoice{.slot = slot};
  }
  const auto& chain = chain_.bands();
  const bool has_one = std::ranges::any_of(
      chain, [bands](const ChainBand& band) { return is_among(bands, band.band); });
  if (!has_one || left_out_.contains(chain.front().slot)) return std::nullopt;
  return CleanChoice{.slot = chain.front().slot, .is_oldest_hot = true};
}

void Log::add_band(BandId band) {
  MutexLock lock(mu_);
  map_.set_band_count(device_.geometry().band_count());  // the device may have grown
  pool_.add_free(std::span(&band, 1));
}

std::optional<BandId> Log::remove_free_band() {
  MutexLock lock(mu_);
  return ordinary_bands_locked().empty() ? std::nullopt : pool_.remove_farthest();
}

// ---- Figures --------------------------------------------------------------------------------

// The bands nearest to the middle are begun first, so the farthest one is the rescue band. Bands of
// such a device are of one size.
std::span<const BandId> Log::ordinary_bands_locked() const {
  const auto free = pool_.free();
  return has_rescue_band_ && !free.empty() ? free.first(free.size() - 1) : free;
}

LogSpace Log::space_locked() const {
  LogSpace space{.available = chain_.available(), .cold_room = cold_.room_blocks()};
  for (const BandId band : ordinary_bands_locked()) space.available += blocks_of(band) - 1;
  return space;
}

Log::Figures Log::figures() const {
  MutexLock lock(mu_);
  Figures figures{.live = map_.size(),
                  .jmap_bytes = map_.bytes(),
                  .space = space_locked(),
                  .parts = map_.parts().size(),
                  .free_bands = ordinary_bands_locked().size(),
                  .has_rescue_band = has_rescue_band_ && !pool_.free().empty(),
                  .cold_bands = cold_.bands().size(),
                  .blocks_written = blocks_written_,
                  .after_checkpoint = after_checkpoint_,
                  .recovered_parts = recovered_parts_};
  const auto& chain = chain_.bands();
  figures.is_tail_left_out = chain.size() > 1 && left_out_.contains(chain.front().slot);
  std::size_t cold_parts = 0;
  for (const auto& [slot, band] : cold_.bands()) {
    figures.cold_live += map_.live_in(band.band);
    cold_parts += band.parts.size();
  }
  const std::size_t parts = std::min(map_.parts().size(), map_.size() + cold_.indexes());
  figures.checkpoint_pieces = checkpoint_pieces(chain_.bands().size(), parts,
                                                std::min(cold_parts, map_.size()), map_.size());
  const std::vector<BandId> bands = bands_locked();
  figures.bands = bands.size();
  for (const BandId band : bands) figures.total_blocks += blocks_of(band);
  return figures;
}

std::vector<BandId> Log::bands_locked() const {
  std::vector<BandId> all(pool_.free().begin(), pool_.free().end());
  all.insert(all.end(), pool_.retired().begin(), pool_.retired().end());
  for (const auto& [slot, cold] : cold_.bands()) all.push_back(cold.band);
  for (const ChainBand& band : chain_.bands()) {
    const bool is_adopted = cold_.contains(band.slot);  // and is in `all` already
    if (!is_adopted) all.push_back(band.band);
  }
  std::ranges::sort(all);
  return all;
}

std::vector<BandId> Log::bands() const {
  MutexLock lock(mu_);
  return bands_locked();
}

bool Log::counts_locked(BandId band) const {
  const bool is_retired = std::ranges::find(pool_.retired(), band) != pool_.retired().end();
  if (is_retired || pool_.has_failed(band)) return false;
  const bool is_left_out =
      std::ranges::any_of(left_out_, [band](const auto& entry) { return entry.second == band; });
  return !is_left_out || map_.live_in(band) == 0;  // without live nodes it can be reset
}

std::vector<std::uint32_t> Log::band_sizes() const {
  MutexLock lock(mu_);
  std::vector<std::uint32_t> sizes;
  for (const BandId band : bands_locked()) {
    if (counts_locked(band)) sizes.push_back(blocks_of(band));
  }
  return sizes;
}

}  // namespace lazyfs::meta
