#include "fs/space/collector.h"

#include <algorithm>
#include <ranges>

#include "base/buffer.h"
#include "base/log.h"
#include "gc/victim.h"

namespace lazyfs::fs {
namespace {

constexpr std::size_t kMaxUnitBlocks = 2048;  // moved at a time: 8 MiB
constexpr std::size_t kUnitsABand = 16;
// Bands that writers shall be able to begin or go on with; with twice as many they need not help.
constexpr double kBandsKept = 2;
constexpr std::size_t kRecordsAScan = 64;
constexpr std::size_t kErasedABatch = 1024;

}  // namespace

// A live run of a victim, its contents, and after appending where they lie now.
struct Collector::Copy {
  InodeNo inode;
  MappedExtent from;
  AlignedBuffer bytes;
  BandAddress to;
};

Collector::Collector(const Core& core)
    : core_(core),
      unit_blocks_(std::clamp<std::size_t>(core.bands.largest_band_blocks() / kUnitsABand, 1,
                                           kMaxUnitBlocks)) {}

Result<> erase_band_logs(meta::Store& store, BandId band) {
  for (std::size_t at_most = kErasedABatch;;) {
    ASSIGN_OR_RETURN(const auto items,
                     store.scan(meta::Key{band_owner(band), 0, 0},
                                meta::Key{band_owner(band), 0xFF, meta::kMaxOffset}, at_most + 1));
    const bool last = items.size() <= at_most;
    meta::Batch batch;
    for (const meta::Item& item : items | std::views::take(at_most)) batch.erase(item.key);
    if (last) batch.erase(key_of(kVolumeOwner, Kind::kBandSummary, band.value));
    const auto erased = store.apply(batch, meta::Reserve::kDelete);
    if (erased && last) return ok();
    if (erased) continue;
    if (erased.error() != Errc::kBatchTooLarge || at_most == 1) return fail(erased.error());
    at_most /= 2;  // a small log
  }
}

// ---- Resetting ----------------------------------------------------------------------------------

Result<std::size_t> Collector::reset_locked() {
  const std::vector<BandId> empty = core_.bands.empty_bands();
  if (empty.empty()) return 0;
  TRY(core_.store.commit());
  std::size_t count = 0;
  for (const BandId band : empty) {
    if (!core_.bands.begin_reset(band)) continue;
    if (job_ && job_->band == band) job_.reset();
    ignore_error(reset_band(band), "logged, and the band is set aside");
    ++count;
  }
  return count;
}

// Of a band that is kResetting.
Result<> Collector::reset_band(BandId band) {
  const bool conventional =
      core_.device.geometry().band_kinds[band.value] == device::BandKind::kConventional;
  const Result<> reset = conventional ? ok() : core_.device.reset(band);
  const Result<> erased = reset ? erase_band_logs(core_.store, band) : reset;
  if (!erased) log::error("band {}: cannot be reset: {}", band.value, describe(erased.error()));
  core_.bands.finish_reset(band, erased.has_value());
  unmovable_.erase(band);
  ++core_.counters.bands_reset;
  return erased;
}

Result<std::size_t> Collector::reset_empty_bands() {
  MutexLock lock(work_mu_);
  return reset_locked();
}

// ---- Moving -------------------------------------------------------------------------------------

std::optional<gc::BandUse> Collector::pick(bool even_open) const {
  const auto views = core_.bands.all();
  std::uint64_t newest = 0;
  for (const data::BandView& view : views) newest = std::max(newest, view.last_append);
  std::vector<gc::BandUse> full, open;
  for (const data::BandView& view : views) {
    if (unmovable_.contains(view.band)) continue;
    const gc::BandUse use{view.band, view.counters.appended, view.counters.live,
                          newest - view.last_append};
    if (view.state == data::BandState::kFull) full.push_back(use);
    if (view.state == data::BandState::kOpen) open.push_back(use);
  }
  const auto use_of = [](const std::vector<gc::BandUse>& uses, std::optional<BandId> band) {
    const auto at = std::ranges::find_if(uses, [&](const auto& use) { return use.band == band; });
    return at == uses.end() ? std::nullopt : std::optional(*at);
  };
  const auto victim = use_of(full, gc::pick_cost_benefit(full));
  if (victim || !even_open) return victim;
  return use_of(open, gc::pick_greedy(open));  // partly written bands only when all else is live
}

// The parts of what an append record brought that are still in use.
Result<std::vector<MappedExtent>> Collector::live_of(BandId band, const meta::Item& append_item,
                                                     InodeNo* inode) const {
  ASSIGN_OR_RETURN(const AppendRecord record, decode_append_record(append_item.value));
  *inode = record.inode;
  std::vector<MappedExtent> live;
  if (record.inode.value == 0) return live;
  // Reading takes several steps: a map that changed between them would look damaged.
  const auto owner = core_.inodes.get(record.inode);
  std::optional<ReaderLock> lock;
  if (owner) lock.emplace((*owner)->mu);
  ASSIGN_OR_RETURN(auto extents,
                   read_extents(core_.store, record.inode, record.file_block, record.blocks));
  for (MappedExtent& extent : extents) {
    const bool here =
        extent.extent.at.band == band && extent.extent.append_record == append_item.key.offset;
    if (here) live.push_back(std::move(extent));
  }
  return live;
}

// Moves a unit of what is live in the band, from job.next_rba on. True when that was all.
Result<bool> Collector::evacuate_unit(Job& job) {
  const data::BandPin pin = core_.bands.pin(job.band);
  const std::uint32_t last_rba = core_.bands.view(job.band).blocks - 1;
  std::vector<Copy> copies;
  std::size_t blocks = 0;
  bool done = false;
  while (!done && blocks < unit_blocks_) {
    ASSIGN_OR_RETURN(
        const auto records,
        core_.store.scan(key_of(job.band, Kind::kAppendRecord, job.next_rba),
                         key_of(job.band, Kind::kAppendRecord, last_rba), kRecordsAScan));
    done = records.size() < kRecordsAScan;
    for (const meta::Item& item : records) {
      if (blocks >= unit_blocks_) {
        done = false;
        break;
      }
      InodeNo inode;
      ASSIGN_OR_RETURN(auto live, live_of(job.band, item, &inode));
      for (MappedExtent& extent : live) {
        blocks += extent.extent.blocks();
        read_copies(inode, extent, copies);
      }
      job.next_rba = static_cast<std::uint32_t>(item.key.offset) + 1;
    }
  }
  if (!copies.empty()) TRY(move(copies));
  return done;
}

Result<> Collector::evacuate(BandId band, std::uint32_t from_rba) {
  Job job{band, from_rba, 0};
  for (;;) {  // each unit moves on in the band
    ASSIGN_OR_RETURN(const bool moved_all, evacuate_unit(job));
    if (moved_all) return ok();
  }
}

// What can be read of the extent, if need be block by block; the rest stays where it is, and so
// does its band.
void Collector::read_copies(InodeNo inode, const MappedExtent& extent, std::vector<Copy>& copies) {
  const auto read = [&](const MappedExtent& run) -> Result<> {
    AlignedBuffer bytes(std::size_t{run.extent.blocks()} * kBlockBytes);
    TRY(data::read_verified(core_.device, run.extent.at, run.extent.crcs, bytes.span()));
    copies.push_back({inode, run, std::move(bytes), {}});
    return ok();
  };
  if (read(extent)) return;
  const BandId band = extent.extent.at.band;
  std::uint32_t left = 0;
  Result<> why = ok();
  for (std::uint32_t block = 0; block < extent.extent.blocks(); ++block) {
    const auto done = read(part_of(extent, block, 1));
    if (done) continue;
    ++left;
    why = done;
  }
  if (left == 0) return;
  unmovable_.insert(band);
  log::error("inode {}: {} blocks from {} on cannot be moved out of band {}: {}", inode.value, left,
             extent.file_block, band.value, describe(why.error()));
}

// Appends the copies to the collector's bands and points the map to them.
Result<> Collector::move(std::vector<Copy>& copies) {
  std::size_t at = 0;
  while (at < copies.size()) {
    const BandId from = copies[at].from.extent.at.band;
    ASSIGN_OR_RETURN(data::Lease lease,
                     core_.appender.lease(core_.bands.stream_for_moved(from), unit_blocks_));
    // Copies stay whole: a band's last blocks may stay unused by the collector, to be used by
    // others.
    std::size_t end = at, blocks = 0;
    std::vector<device::Piece> pages;
    while (end < copies.size() && blocks + copies[end].from.extent.blocks() <= lease.room()) {
      blocks += copies[end].from.extent.blocks();
      const std::span<const std::byte> bytes = copies[end].bytes.span();
      for (std::size_t i = 0; i < bytes.size(); i += kBlockBytes) {
        pages.push_back(bytes.subspan(i, kBlockBytes));
      }
      ++end;
    }
    if (end == at) {  // the rest of the band is too small for the next copy: cut that in two
      const std::uint32_t room = lease.room();
      if (room == 0) continue;
      Copy& whole = copies[at];
      const std::uint32_t rest = whole.from.extent.blocks() - room;
      Copy tail{whole.inode,
                part_of(whole.from, room, rest),
                AlignedBuffer(std::size_t{rest} * kBlockBytes),
                {}};
      std::ranges::copy(whole.bytes.span().subspan(std::size_t{room} * kBlockBytes),
                        tail.bytes.data());
      Copy head{whole.inode,
                part_of(whole.from, 0, room),
                AlignedBuffer(std::size_t{room} * kBlockBytes),
                {}};
      std::ranges::copy(whole.bytes.span().first(std::size_t{room} * kBlockBytes),
                        head.bytes.data());
      copies[at] = std::move(head);
      copies.insert(copies.begin() + static_cast<std::ptrdiff_t>(at) + 1, std::move(tail));
      continue;
    }
    ASSIGN_OR_RETURN(const data::Placed placed, lease.append(pages));
    core_.counters.collector_blocks += placed.blocks();
    std::uint32_t rba = placed.at.rba;
    for (std::size_t i = at; i < end; ++i) {
      copies[i].to = {placed.at.band, rba};
      rba += copies[i].from.extent.blocks();
    }
    const auto in_map = record(std::span(copies).subspan(at, end - at), lease);
    if (!in_map) lose_unrecorded(core_.store, core_.bands, lease);
    TRY(in_map);
    at = end;
  }
  return ok();
}

// One batch for each copy: the parts of the map that still point to the old place get the new one.
Result<> Collector::record(std::span<Copy> copies, data::Lease& lease) {
  for (Copy& copy : copies) {
    const std::uint32_t blocks = copy.from.extent.blocks();
    MapChange change(core_.store, copy.inode, nullptr);  // only extents are replaced
    meta::Batch batch;
    const std::int64_t moved[] = {0, 0, blocks};
    batch.add(key_of(kVolumeOwner, Kind::kCounters), moved);

    auto inode = core_.inodes.get(copy.inode);
    if (!inode && inode.error() != Errc::kStale) return fail(inode.error());
    std::optional<WriterLock> lock;
    if (inode) lock.emplace((*inode)->mu);
    const bool there = inode && !(*inode)->gone;
    std::uint32_t done = 0;
    if (there) {
      ASSIGN_OR_RETURN(const auto now,
                       read_extents(core_.store, copy.inode, copy.from.file_block, blocks));
      for (const MappedExtent& extent : now) {
        const auto skip = static_cast<std::uint32_t>(extent.file_block - copy.from.file_block);
        const BandAddress was{copy.from.extent.at.band, copy.from.extent.at.rba + skip};
        if (extent.extent.at != was) continue;  // overwritten meanwhile
        if (skip > done) change.lost({copy.to.band, copy.to.rba + done}, skip - done);
        ExtentRecord moved_extent = extent.extent;
        moved_extent.at = {copy.to.band, copy.to.rba + skip};
        moved_extent.append_record = moved_extent.at.rba;
        TRY(change.map(extent.file_block, moved_extent));
        done = skip + moved_extent.blocks();
      }
    }
    if (done < blocks) change.lost({copy.to.band, copy.to.rba + done}, blocks - done);
    change.put_into(batch);
    TRY(core_.store.apply(batch, meta::Reserve::kDelete));
    change.account(core_.bands);
    core_.bands.account_move(copy.from.extent.at.band, copy.to.band, blocks);
    if (there) ++(*inode)->map_version;
    lease.recorded(blocks);
  }
  return ok();
}

// ---- Cleaning -----------------------------------------------------------------------------------

// Chooses what to clean, unless a band is being cleaned. kMoved: job_ is set.
Result<Collector::Progress> Collector::begin_locked(bool even_open) {
  if (job_) return Progress::kMoved;
  const auto victim = pick(even_open);
  ASSIGN_OR_RETURN(const auto tail, pick_tail(victim));
  if (tail) {
    ASSIGN_OR_RETURN(const bool cut, clean_tail(*tail));
    if (cut) return Progress::kFreed;
  }
  if (!victim || !core_.bands.seal(victim->band)) return Progress::kNothing;
  const auto live = static_cast<double>(victim->live_blocks);
  const auto dead = static_cast<double>(victim->written_blocks - victim->live_blocks);
  job_ = Job{victim->band, 0, live / dead};
  writers_share_ = 0;
  return Progress::kMoved;
}

Result<Collector::Progress> Collector::work_locked(bool even_open) {
  ASSIGN_OR_RETURN(const Progress begun, begin_locked(even_open));
  if (begun != Progress::kMoved) return begun;
  const auto moved_all = evacuate_unit(*job_);
  if (moved_all && !*moved_all) return Progress::kMoved;
  const BandId cleaned = job_->band;
  job_.reset();
  if (!moved_all) return fail(moved_all.error());
  set_aside_if_unreadable(cleaned);
  ++core_.counters.bands_cleaned;
  TRY(reset_locked());
  return Progress::kFreed;
}

Result<Collector::Progress> Collector::work(bool even_open) {
  MutexLock lock(work_mu_);
  return work_locked(even_open);
}

Result<bool> Collector::clean_unit(bool even_open) {
  ASSIGN_OR_RETURN(const Progress progress, work(even_open));
  return progress != Progress::kNothing;
}

Result<bool> Collector::clean_one(bool even_open) {
  for (;;) {  // each unit moves on in a band, to its end
    ASSIGN_OR_RETURN(const Progress progress, work(even_open));
    if (progress != Progress::kMoved) return progress == Progress::kFreed;
  }
}

bool Collector::is_cleaning() {
  MutexLock lock(work_mu_);
  return job_.has_value();
}

bool Collector::make_room() {
  {
    MutexLock lock(work_mu_);
    const auto reset = reset_locked();
    if (!reset) return false;
    if (*reset > 0) return true;
    const auto revived = begin_second_lives();
    if (revived && *revived > 0) return true;
  }
  const auto cleaned = clean_one(true);
  if (!cleaned || !*cleaned) return false;
  ++bands_waited_for_;
  return true;
}

// 0: writers have room enough; 1: just so; 2: none.
double Collector::want_of_room() const {
  const double kept = kBandsKept * core_.bands.largest_band_blocks();
  return 2 - static_cast<double>(core_.bands.user_room().blocks) / kept;
}

void Collector::keep_up(std::uint64_t blocks) {
  bool more = true;
  for (bool first = true; more; first = false) {
    if (want_of_room() <= 0) return;
    const auto owed = do_share(first ? blocks : 0);
    more = owed && *owed;  // who finds no room for an error's sake is told so by make_room()
  }
}

// A unit, if writers owe one when they have appended so many blocks more. True: one more is owed.
Result<bool> Collector::do_share(std::uint64_t blocks) {
  MutexLock lock(work_mu_);
  ASSIGN_OR_RETURN(const Progress begun, begin_locked(false));
  if (begun != Progress::kMoved) return false;
  writers_share_ += static_cast<double>(blocks) * job_->moved_for_each_gained * want_of_room();
  if (writers_share_ <= 0) return false;
  const std::uint64_t before = core_.counters.collector_blocks;
  ASSIGN_OR_RETURN(const Progress progress, work_locked(false));
  if (progress != Progress::kMoved) return false;
  writers_share_ -= static_cast<double>(core_.counters.collector_blocks - before);
  return writers_share_ > 0;
}

}  // namespace lazyfs::fs
