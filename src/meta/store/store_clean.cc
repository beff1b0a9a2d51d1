// Cleaning the log's tail, and its growing and shrinking (meta/store/store_impl.h).
#include <algorithm>

#include "base/crc32c.h"
#include "base/log.h"
#include "meta/store/store_impl.h"

namespace lazyfs::meta {
namespace {

constexpr std::uint64_t kNotesOfBlock = 3;  // that a block of a band that is adopted may need
// That are listed anew in one transaction.
constexpr std::size_t kNotesAtOnce = std::size_t{64} * 247;

}  // namespace

bool StoreImpl::cleaning_is_due() const {
  if (size_change(SpaceDemand::kOrdinary) == SizeChange::kCleanFirst) return true;
  ReaderLock lock(tree_mu_);
  return limits_.is_low(cache_.nodes(), log_.space());
}

bool StoreImpl::size_is_due() const {
  const SizeChange change = size_change(SpaceDemand::kOrdinary);
  return change == SizeChange::kGrow || change == SizeChange::kShrink;
}

SizeChange StoreImpl::size_change(SpaceDemand demand) const {
  if (!source_.take || !source_.give_back) return SizeChange::kKeep;
  LogSize size{.bands = log_.band_sizes(),
               .bands_min = superblock().min_log_bands,
               .transaction_blocks = 2 * options_.transaction_bytes / kBlockBytes};
  const Log::Figures log = log_.figures();
  size.free_bands = log.free_bands;
  size.available = log.space.available;
  ReaderLock lock(tree_mu_);
  size.live = cache_.nodes();
  return choose_size_change(size, demand);
}

// So many batches go once round the whole log; more of them make no more room.
std::uint64_t StoreImpl::clean_cycles_at_most() const {
  ReaderLock lock(tree_mu_);
  return limits_.capacity / limits_.clean_batch + 4 * log_.figures().bands;
}

bool StoreImpl::is_large() const {
  ReaderLock lock(tree_mu_);
  return cache_.running().dirty.size() > large_nodes_;
}

// Live nodes of the band that is to be emptied, in memory and pinned.
StoreImpl::Additions StoreImpl::gather() {
  std::size_t batch = 0;
  bool may_adopt = false, has_cold = false;
  {
    ReaderLock lock(tree_mu_);
    batch = limits_.clean_batch;
    const Changes& running = cache_.running();
    const std::uint64_t notes = running.freed.size() + kNotesOfBlock * limits_.band;
    has_cold = limits_.has_cold;
    may_adopt = has_cold && limits_.admits(limits_.cost(running.dirty.size(), notes), log_.space());
  }
  Additions gathered;
  gathered.victim = log_.choose_victim(may_adopt, has_cold);
  if (!gathered.victim || gathered.victim->kind == CleanChoice::Kind::kAdopt) return gathered;
  bool all_read = true;
  for (const NodeNo node : log_.live_of(gathered.victim->slot, batch)) {
    if (auto pin = loader_.load(node); pin) {
      gathered.nodes.push_back(std::move(*pin));
    } else {
      all_read &= gather_damaged(node, gathered);
    }
  }
  gathered.is_stuck = !all_read && gathered.nodes.empty() && gathered.damaged.empty();
  return gathered;
}

// The same, with the listings that must not be passed, or that make the band a cold one. The
// committing thread calls it: listings tell of the map as it is.
StoreImpl::Additions StoreImpl::with_listings(Additions gathered) {
  if (gathered.is_stuck) {
    log_.hold(gathered.victim->slot);
    note_failed_bands();
  }
  if (!gathered.victim || !gathered.victim->is_oldest_hot) return gathered;
  const std::uint64_t slot = gathered.victim->slot;
  const bool adopts = gathered.victim->kind == CleanChoice::Kind::kAdopt;
  if (adopts) {
    gathered.listings = log_.list_for_adoption(slot);
    if (gathered.listings.empty()) return gathered;
    bands_adopted_.fetch_add(1, std::memory_order_relaxed);
  }
  const auto anew = log_.list_anew(slot, adopts ? SIZE_MAX : kNotesAtOnce);
  gathered.listings.insert(gathered.listings.end(), anew.begin(), anew.end());
  return gathered;
}

// A node that is no good must not hold the tail for ever: its bytes move as they are. They stay no
// good (the seq in them is not that of the transaction they are in now), and what can be learnt
// from them is still there. False: the device does not read the block. It may tomorrow, so the node
// stays.
bool StoreImpl::gather_damaged(NodeNo node, Additions& to) {
  const auto place = log_.find(node);
  if (!place) return true;
  AlignedBuffer bytes(kBlockBytes);
  if (auto read = device_.read(place->address, bytes.span()); !read) return false;
  const auto image = bytes.span().first<kBlockBytes>();
  if (validate_node(image, node, place->seq, cache_.fs_tag())) return true;  // it was the reading
  to.damaged.push_back({node.value, bytes.data(), crc32c(image.subspan(8))});
  to.bytes.push_back(std::move(bytes));
  return true;
}

// For stores without a thread of their own; the committing thread calls it.
void StoreImpl::clean_while_due() {
  for (auto cycles = clean_cycles_at_most(); cycles > 0 && cleaning_is_due(); --cycles) {
    Additions gathered = with_listings(gather());
    if (gathered.is_stuck && gathered.empty()) continue;  // there may be another band
    if (gathered.empty() || !write_transaction(std::move(gathered))) return;
  }
}

// The bound on what opening has to look through, but for what is written while the snapshot waits
// for its turn, or for room.
bool StoreImpl::snapshot_is_due() const {
  const Log::Figures log = log_.figures();
  const std::uint64_t wanted = options_.snapshot_bytes / kBlockBytes;
  ReaderLock lock(tree_mu_);
  const std::uint64_t images = cache_.running().dirty.size() + log.snapshot_pieces;
  const bool has_room =
      limits_.admits(limits_.cost(images, cache_.running().freed.size()), log.space);
  return has_room && log.behind_snapshot >= limits_.snapshot_interval(log.snapshot_pieces, wanted);
}

// The committing thread calls it.
StoreImpl::Additions StoreImpl::take_snapshot() {
  Additions additions;
  additions.snapshot = encode(log_.snapshot(), cache_.fs_tag());
  return additions;
}

void StoreImpl::update_limits() {
  const auto sizes = log_.band_sizes();
  if (sizes.empty()) return;  // every band has failed: nothing is written any more
  WriterLock lock(tree_mu_);
  limits_ = limits_of(sizes, 2 * options_.transaction_bytes / kBlockBytes);
  crowd_nodes_ = std::max<std::size_t>(64, options_.cache_bytes / kBlockBytes / 2);
  large_nodes_ = std::min(options_.transaction_bytes / kBlockBytes, limits_.transaction / 2);
  large_nodes_ = std::min(large_nodes_, crowd_nodes_ / 2);
}

Result<> StoreImpl::write_log_bands(std::vector<BandId> bands) {
  Superblock next = superblock();
  std::ranges::sort(bands);
  next.log_bands = std::move(bands);
  return write_superblock(std::move(next));
}

// One more band. Errors: kLogFull when there is none to be had.
Result<> StoreImpl::grow() {
  std::vector<BandId> bands = log_.bands();
  if (!source_.take || bands.size() >= kMaxLogBands) return fail(Errc::kLogFull);
  const auto band = source_.take();
  if (!band) return fail(Errc::kLogFull);
  const auto give_back = [&](Errc e) {
    if (source_.give_back) source_.give_back(*band);
    return fail(e);
  };
  if (!device_.geometry().has(*band) || device_.geometry().blocks_of(*band) < kMinLogBandBlocks) {
    return give_back(Errc::kLogFull);
  }
  if (auto reset = device_.reset(*band); !reset) return give_back(Errc::kLogFull);
  bands.push_back(*band);
  if (auto written = write_log_bands(std::move(bands)); !written) return give_back(Errc::kLogFull);
  log_.add_band(*band);
  update_limits();
  log::info("metadata log: band {} added", band->value);
  return ok();
}

// The committing thread calls it.
void StoreImpl::resize(SpaceDemand demand) {
  const SizeChange change = size_change(demand);
  if (change == SizeChange::kGrow) {
    ignore_error(grow(), "ordinary work is refused when the log is full, not before");
  } else if (change == SizeChange::kShrink) {
    shrink(demand);
  }
}

// Gives back every free band that the log can do without, those farthest from the middle first.
// The superblock that does not list them is durable before the volume gets them: a crash finds each
// band either listed and unused by the volume, or not listed.
void StoreImpl::shrink(SpaceDemand demand) {
  std::vector<BandId> removed;
  while (size_change(demand) == SizeChange::kShrink) {
    const auto band = log_.remove_free_band();
    if (!band) break;
    removed.push_back(*band);
  }
  if (removed.empty()) return;
  if (auto written = write_log_bands(log_.bands()); !written) {
    log::error("metadata log: no band given back, for the superblock cannot be written: {}",
               describe(written.error()));
    for (const BandId band : removed) log_.add_band(band);
    return;
  }
  update_limits();
  for (const BandId band : removed) source_.give_back(band);
  log::info("metadata log: {} bands given back", removed.size());
}

Result<> StoreImpl::give_back_bands() {
  const auto change = [&] { return size_change(SpaceDemand::kShortage); };
  if (options_.read_only || change() == SizeChange::kKeep || change() == SizeChange::kGrow) {
    return ok();
  }
  TRY(run_cycle(Work::kCommit));  // what was deleted dies with the commit
  for (auto cycles = clean_cycles_at_most(); cycles > 0; --cycles) {
    switch (change()) {
      case SizeChange::kKeep:
      case SizeChange::kGrow: return ok();
      case SizeChange::kShrink: TRY(run_cycle(Work::kShrinkFully)); break;
      case SizeChange::kCleanFirst: TRY(run_cycle(Work::kClean)); break;
    }
  }
  return ok();
}

}  // namespace lazyfs::meta
