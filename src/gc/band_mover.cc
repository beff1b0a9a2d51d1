#include "gc/band_mover.h"

#include <algorithm>
#include <limits>

#include "base/large_pages.h"
#include "base/log.h"
#include "data/verified_read.h"
#include "gc/damage.h"

namespace lazyfs::gc {
namespace {

constexpr std::size_t kMaxUnitBlocks = 2048;  // 8 MiB
constexpr std::size_t kUnitsABand = 16;

LiveRun part_of(const LiveRun& run, std::uint32_t skip, std::uint32_t blocks) {
  const auto first = run.crcs.begin() + skip;
  return {run.owner, run.file_block + skip, {run.at.band, run.at.rba + skip},
          {first, first + blocks}};
}

}  // namespace

struct BandMover::Copy {
  LiveRun from;
  std::span<const std::byte> bytes;
  BandAddress to;
};

struct BandMover::Unit {
  LargePages memory;  // of the copies' contents
  std::vector<Copy> copies;
};

BandMover::BandMover(Port& port, device::Device& device, data::BandTable& bands,
                     data::Appender& appender, Counters& counters)
    : port_(port),
      device_(device),
      bands_(bands),
      appender_(appender),
      counters_(counters),
      unit_blocks_(
          std::clamp<std::size_t>(bands.largest_band_blocks() / kUnitsABand, 1, kMaxUnitBlocks)) {}

bool BandMover::seal(BandId band) {
  if (!bands_.seal(band)) return false;
  device_.seal(band);
  return true;
}

Result<std::optional<std::uint32_t>> BandMover::move_unit(BandId band, std::uint32_t from_rba,
                                                          bool may_begin_last) {
  const data::BandPin pin = bands_.pin(band);
  const Port::Visit found = visit(band, from_rba, unit_blocks_);
  Unit unit = read(found.runs);
  ASSIGN_OR_RETURN(const Appended appended, append(unit.copies, may_begin_last));
  if (appended == Appended::kPart) return from_rba;
  const bool is_last = found.is_end || appended == Appended::kDamaged;
  return is_last ? std::nullopt : std::optional(found.next_rba);
}

bool BandMover::would_begin_last_band() const {
  if (device_.capabilities().keeps_write_pointers || bands_.space().free_bands != 1) return false;
  return std::ranges::none_of(bands_.all(), [](const data::BandView& view) {
    return view.state == data::BandState::kOpen && data::is_collectors(view.stream) &&
           !view.is_leased && data::room_in(view) > 0;
  });
}

bool BandMover::has_begun_last_band(const data::Lease& lease) const {
  return !device_.capabilities().keeps_write_pointers && lease.is_at_start() &&
         bands_.space().free_bands == 0;
}

Result<bool> BandMover::move_whole(BandId band, std::uint64_t live_blocks) {
  const data::BandPin pin = bands_.pin(band);
  ASSIGN_OR_RETURN(data::Lease lease, appender_.lease(data::Stream::kCollector, live_blocks));
  if (lease.room() < live_blocks) return false;
  std::vector<Copy> moved;  // without contents
  Result<> done = ok();
  for (std::uint32_t rba = 0; done;) {  // each visit begins at a higher RBA
    const Port::Visit found = visit(band, rba, unit_blocks_);
    Unit unit = read(found.runs);
    if (!unit.copies.empty()) done = place(lease, unit.copies);
    for (Copy& copy : unit.copies) moved.push_back({std::move(copy.from), {}, copy.to});
    if (found.is_end) break;
    rba = found.next_rba;
  }
  if (done) {
    TRY(remap(moved, lease));
  } else {
    port_.record_lost(lease);
  }
  TRY(done);
  return true;
}

Result<bool> BandMover::move_all(BandId band, std::uint32_t from_rba) {
  while (!would_begin_last_band()) {  // each unit moves something, or begins at a higher RBA
    ASSIGN_OR_RETURN(const auto next_rba, move_unit(band, from_rba));
    if (!next_rba) return true;
    from_rba = *next_rba;
  }
  return false;
}

Port::Visit BandMover::visit(BandId band, std::uint32_t from_rba, std::size_t at_least) {
  Port::Visit found = port_.visit_live(band, from_rba, at_least);
  if (found.is_damaged) note_damage(band);
  return found;
}

void BandMover::note_damage(BandId band) {
  unreadable_.insert(band);
  damaged_.insert(band);
}

bool BandMover::examine(BandId band) {
  const data::BandPin pin = bands_.pin(band);
  return visit(band, 0, std::numeric_limits<std::size_t>::max()).is_damaged;
}

bool BandMover::can_read(BandId band) {
  const data::BandPin pin = bands_.pin(band);
  for (std::uint32_t rba = 0; !has_unreadable(band);) {  // each visit begins at a higher RBA
    const Port::Visit found = visit(band, rba, unit_blocks_);
    read(found.runs);
    if (found.is_end) break;
    rba = found.next_rba;
  }
  return !has_unreadable(band);
}

BandMover::Unit BandMover::read(std::span<const LiveRun> runs) {
  std::size_t bytes = 0;
  for (const LiveRun& run : runs) bytes += std::size_t{run.blocks()} * kBlockBytes;
  if (bytes == 0) return {};
  Unit unit{LargePages::holding(bytes), {}};
  std::span<std::byte> room = unit.memory.span();
  for (const LiveRun& run : runs) {
    const std::size_t run_bytes = std::size_t{run.blocks()} * kBlockBytes;
    read_run(run, room.first(run_bytes), unit.copies);
    room = room.subspan(run_bytes);
  }
  return unit;
}

// Reads what can be read of the run, if need be block by block. Blocks that cannot be read stay
// where they are, and so does their band.
void BandMover::read_run(const LiveRun& whole, std::span<std::byte> to,
                         std::vector<Copy>& copies) {
  const auto read_one = [&](const LiveRun& run) -> Result<> {
    const std::size_t skip = (run.file_block - whole.file_block) * kBlockBytes;
    const auto bytes = to.subspan(skip, std::size_t{run.blocks()} * kBlockBytes);
    TRY(data::read_verified(device_, run.at, run.crcs, bytes));
    copies.push_back({run, bytes, {}});
    return ok();
  };
  if (read_one(whole)) return;
  std::uint32_t unreadable = 0;
  Result<> why = ok();
  for (std::uint32_t block = 0; block < whole.blocks(); ++block) {
    const auto done = read_one(part_of(whole, block, 1));
    if (done) continue;
    ++unreadable;
    why = done;
  }
  if (unreadable == 0) return;
  unreadable_.insert(whole.at.band);
  log::error("inode {}: {} blocks from {} on cannot be moved out of band {}: {}",
             whole.owner.value, unreadable, whole.file_block, whole.at.band.value,
             describe(why.error()));
}

// Appends the copies to the collector's bands and remaps their owners. Copies stay whole: the
// collector may leave a band's last blocks to others. Only a copy that is larger than all the room
// of the band is cut in two. When a band fails, another one is tried. kPart: the rest would begin
// the last free band, which is left. kDamaged: as remap().
Result<BandMover::Appended> BandMover::append(std::vector<Copy>& copies, bool may_begin_last) {
  int failures = 0;
  for (std::size_t at = 0; at < copies.size();) {
    const data::Stream stream = bands_.stream_for_moved(copies[at].from.at.band);
    ASSIGN_OR_RETURN(data::Lease lease, appender_.lease(stream, unit_blocks_));
    if (!may_begin_last && has_begun_last_band(lease)) return Appended::kPart;
    std::size_t end = at, blocks = 0;
    while (end < copies.size() && blocks + copies[end].from.blocks() <= lease.room()) {
      blocks += copies[end++].from.blocks();
    }
    if (end == at) {
      const std::uint32_t room = lease.room();
      const Copy whole = std::move(copies[at]);
      const std::size_t cut = std::size_t{room} * kBlockBytes;
      Copy rest{part_of(whole.from, room, whole.from.blocks() - room), whole.bytes.subspan(cut),
                {}};
      copies[at] = {part_of(whole.from, 0, room), whole.bytes.first(cut), {}};
      end = at + 1;
      copies.insert(copies.begin() + static_cast<std::ptrdiff_t>(end), std::move(rest));
    }
    const auto placeable = std::span(copies).subspan(at, end - at);
    if (const auto placed = place(lease, placeable); !placed) {
      if (++failures == data::kMaxFailedBands || port_.has_failed()) return fail(placed.error());
      continue;
    }
    ASSIGN_OR_RETURN(const bool is_moved, remap(placeable, lease));
    if (!is_moved) return Appended::kDamaged;
    at = end;
  }
  return Appended::kAll;
}

// Appends the copies' contents.
Result<> BandMover::place(data::Lease& lease, std::span<Copy> copies) {
  std::vector<device::Piece> pages;
  for (const Copy& copy : copies) {
    for (std::size_t i = 0; i < copy.bytes.size(); i += kBlockBytes) {
      pages.push_back(copy.bytes.subspan(i, kBlockBytes));
    }
  }
  ASSIGN_OR_RETURN(const data::Placed placed, lease.append(pages));
  counters_.blocks_moved += placed.blocks();
  std::uint32_t rba = placed.at.rba;
  for (Copy& copy : copies) {
    copy.to = {placed.at.band, rba};
    rba += copy.from.blocks();
  }
  return ok();
}

// False when metadata that a move changes is damaged. The copies that remain are lost then, as they
// are after an error.
Result<bool> BandMover::remap(std::span<Copy> copies, data::Lease& lease) {
  for (const Copy& copy : copies) {
    const BandId band = copy.from.at.band;
    if (const auto done = port_.remap_if_unchanged(copy.from, copy.to); !done) {
      port_.record_lost(lease);
      if (!is_damage(done.error()) || port_.has_failed()) return fail(done.error());
      note_damage(band);
      log::error("inode {}: blocks from {} on cannot be moved out of band {}: {}",
                 copy.from.owner.value, copy.from.file_block, band.value, describe(done.error()));
      return false;
    }
    bands_.account_move(band, copy.to.band, copy.from.blocks());
    lease.recorded(copy.from.blocks());
  }
  return true;
}

bool BandMover::leave_to_failed_bands(BandId band) {
  if (!forget_unreadable(band)) return false;
  bands_.note_unreadable(band);
  return true;
}

bool BandMover::set_aside_if_unreadable(BandId band) {
  if (!has_unreadable(band)) return false;
  const std::uint64_t left = bands_.view(band).counters.live;
  if (left == 0) return false;
  log::error("band {}: set aside with {} live blocks: some, or their metadata, cannot be read",
             band.value, left);
  bands_.set_bad(band, false);
  return true;
}

}  // namespace lazyfs::gc
