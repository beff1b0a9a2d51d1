#include "meta/store/store.h"

#include <algorithm>
#include <map>

#include "base/log.h"
#include "meta/log/recovery.h"
#include "meta/store/store_impl.h"
#include "meta/log/superblock_format.h"

namespace lazyfs::meta {
namespace {

constexpr std::size_t kMinCachedNodes = 16;
// A filesystem made anew under the same UUID begins as the one before did, at the same places. So
// sessions are not counted from 1: those of the one before, one a second at most, are other ones.
constexpr std::uint64_t kFirstSessions = std::uint64_t{1} << 28;  // slots keep within 62 bits

// The first transaction: an empty root. Returns where it lies.
Result<PartPlace> write_first_transaction(device::Device& device, const Superblock& superblock) {
  RecoveredLog nothing;
  nothing.spare = superblock.log_bands;
  Log log(device, {superblock.uuid, superblock.session}, nothing);
  log.reset_spares();
  AlignedBuffer image(kBlockBytes);
  NodePage page(image.data());
  page.format(Tree::kRoot, 0, fs_tag_of(superblock.uuid));
  const LogImage root{Tree::kRoot.value, image.data(), page.stamp(Seq{1})};
  const auto plan = log.plan(Seq{1}, 1, 0);
  if (!plan) return fail(Errc::kBadGeometry);
  TRY(log.write(*plan, std::span(&root, 1), {}, NodeNo{2}));
  TRY(device.flush());
  return log.newest();
}

void note_durable(Superblock& superblock, const PartPlace& newest) {
  superblock.durable_seq = newest.address.seq.value;
  superblock.head_slot = newest.address.slot;
  superblock.head_rba = newest.address.rba;
  superblock.head_blocks = newest.blocks;
}

Result<> check_format(const device::Device& device, const Superblock& s) {
  const auto& geometry = device.geometry();
  if (geometry.block_bytes != kBlockBytes || s.log_bands.size() < kMinLogBands ||
      s.log_bands.size() > kMaxLogBands || s.super_bands[0] == s.super_bands[1]) {
    return fail(Errc::kBadGeometry);
  }
  std::vector<BandId> bands = s.log_bands;
  bands.insert(bands.end(), s.super_bands.begin(), s.super_bands.end());
  std::ranges::sort(bands);
  if (std::ranges::adjacent_find(bands) != bands.end()) return fail(Errc::kBadGeometry);
  for (const BandId band : bands) {
    if (!geometry.has(band)) return fail(Errc::kBadBand);
    if (geometry.band_kinds[band.value] != device::BandKind::kShingled) {
      return fail(Errc::kUnsupported);
    }
  }
  for (const BandId band : s.log_bands) {
    if (geometry.blocks_of(band) < kMinLogBandBlocks) return fail(Errc::kBadGeometry);
  }
  return ok();
}

}  // namespace

Result<> Store::format(device::Device& device, const Superblock& superblock) {
  if (superblock.label.size() > kMaxLabelBytes) return fail(Errc::kInvalid);
  TRY(check_format(device, superblock));
  Superblock first = superblock;
  first.sequence = 1;
  first.band_count = device.geometry().band_count();
  first.min_log_bands = static_cast<std::uint32_t>(first.log_bands.size());
  first.session = 1 + superblock.created_seconds % kFirstSessions;
  first.session_start_seq = 0;
  for (const BandId band : first.super_bands) TRY(device.reset(band));
  for (const BandId band : first.log_bands) TRY(device.reset(band));
  TRY(device.flush());
  ASSIGN_OR_RETURN(const PartPlace newest, write_first_transaction(device, first));
  note_durable(first, newest);
  return SuperblockLog::format(device, first);
}

Result<std::unique_ptr<Store>> Store::open(device::Device& device, const StoreOptions& options) {
  ASSIGN_OR_RETURN(auto store, StoreImpl::open(device, options, false));
  return store;
}

Result<std::unique_ptr<StoreImpl>> StoreImpl::open(device::Device& device,
                                                   const StoreOptions& options, bool repair) {
  ASSIGN_OR_RETURN(Superblock superblock, read_superblock(device));
  ASSIGN_OR_RETURN(const RecoveredLog found, recover_log(device, superblock));
  if (!options.read_only && device.capabilities().read_only) return fail(Errc::kDeviceReadOnly);
  if (!options.read_only) {
    ++superblock.session;
    superblock.session_start_seq = found.seq.value;
    note_durable(superblock, found.parts.back().place);
  }
  auto store = std::make_unique<StoreImpl>(device, options, std::move(superblock), found);
  TRY(store->start(repair));
  return store;
}

StoreImpl::StoreImpl(device::Device& device, const StoreOptions& options, Superblock superblock,
                     const RecoveredLog& found)
    : device_(device),
      options_(options),
      log_(device, {superblock.uuid, superblock.session}, found),
      cache_(std::max(kMinCachedNodes, options.cache_bytes / kBlockBytes),
             fs_tag_of(superblock.uuid), Seq{found.seq.value + 1}, found.next_node,
             log_.figures().live),
      tree_(cache_),
      loader_(device, log_, tree_mu_, cache_),
      superblock_(std::move(superblock)),
      durable_seq_(found.seq.value) {}

Result<> StoreImpl::start(bool repair) {
  if (!log_.is_sound()) return fail(Errc::kLogTailLost);
  update_limits();
  if (!options_.read_only) {
    // A daemon that was killed may have left its last transaction unflushed: it must not be lost
    // after the superblock has said that it is durable.
    TRY(device_.flush());
    // From here on nothing that an earlier session wrote behind it can come back.
    superblock_log_.emplace(device_, superblock());
    TRY(write_superblock(superblock()));
    log_.reset_spares();
    log_.resume_cold();
  }
  auto root = loader_.load(Tree::kRoot);
  if (!root && !repair) return fail(root.error());
  root_pin_ = root ? std::move(*root) : replace_root();
  if (options_.background) loader_.start();
  if (options_.background && !options_.read_only) {
    background_ = std::thread([this] { run_background(); });
  }
  return ok();
}

NodePin StoreImpl::replace_root() {
  WriterLock lock(tree_mu_);
  std::byte* image = cache_.take_image();
  NodePage(image).format(Tree::kRoot, 0, cache_.fs_tag());
  Node& root = cache_.insert_clean(Tree::kRoot, image);
  cache_.make_dirty(root);
  root_was_lost_ = true;
  return NodePin(root);
}

StoreImpl::~StoreImpl() { stop_background(); }

void StoreImpl::stop_background() {
  if (!background_.joinable()) return;
  {
    MutexLock lock(background_mu_);
    stopping_ = true;
  }
  background_wake_.notify_all();
  background_.join();
}

Result<> StoreImpl::close() {
  loader_.stop();
  Result<> result = ok();
  if (!options_.read_only && !failed()) result = commit();
  stop_background();
  if (options_.read_only || failed() || !result) return result;
  if (log_.figures().behind_snapshot > 0) TRY(run_cycle(Work::kSnapshot));
  // The next opening need not verify the last transaction, and a bit that flips in it meanwhile is
  // the trouble of one node.
  return write_superblock(superblock());
}

void StoreImpl::abandon() {
  {
    MutexLock lock(commit_mu_);
    abandoned_ = true;
    cycle_moved_.notify_all();
    while (busy_) cycle_moved_.wait(commit_mu_);
  }
  stop_background();
  loader_.stop();
}

// Names the newest durable transaction in it. The committing thread calls it.
Result<> StoreImpl::write_superblock(Superblock next) {
  if (failed()) return fail(Errc::kLogFailed);  // nobody knows whether the newest is durable
  note_durable(next, log_.newest());
  if (auto written = superblock_log_->write(std::move(next)); !written) {
    if (superblock_log_->is_in_doubt()) fail_for_ever(written.error(), "the superblock");
    return written;
  }
  MutexLock lock(commit_mu_);
  superblock_ = superblock_log_->current();
  return ok();
}

void StoreImpl::set_band_source(BandSource source) { source_ = std::move(source); }

std::vector<BandId> StoreImpl::log_bands() const { return log_.bands(); }

std::vector<Store::LogBandUse> StoreImpl::log_band_use() const {
  std::map<BandId, std::uint64_t> live;
  for (const BandId band : log_.bands()) live[band] = 0;
  for (const auto& [node, place] : log_.all_live()) live[place.address.band] += 1;
  std::vector<LogBandUse> use;
  use.reserve(live.size());
  for (const auto& [band, blocks] : live) use.push_back({band, blocks});
  return use;
}

Superblock StoreImpl::superblock() const {
  MutexLock lock(commit_mu_);
  return superblock_;
}

StoreStats StoreImpl::stats() const {
  const Log::Figures log = log_.figures();
  StoreStats stats;
  stats.transactions = transactions_.load(std::memory_order_relaxed);
  stats.log_blocks_written = log.blocks_written;
  stats.nodes_written = nodes_written_.load(std::memory_order_relaxed);
  stats.nodes_cleaned = nodes_cleaned_.load(std::memory_order_relaxed);
  stats.nodes_cooled = nodes_cooled_.load(std::memory_order_relaxed);
  stats.bands_adopted = bands_adopted_.load(std::memory_order_relaxed);
  stats.log_cold_bands = log.cold_bands;
  stats.log_cold_live_blocks = log.cold_live;
  stats.log_live_blocks = log.live;
  stats.log_total_blocks = log.total_blocks;
  stats.log_bands = log.bands;
  stats.log_free_bands = log.free_bands;
  stats.jmap_entries = log.live;
  stats.jmap_bytes = log.jmap_bytes;
  stats.snapshots = snapshots_.load(std::memory_order_relaxed);
  stats.log_blocks_behind_snapshot = log.behind_snapshot;
  stats.recovered_parts = log.recovered_parts;
  stats.node_reads = loader_.reads();
  {
    ReaderLock lock(tree_mu_);
    stats.nodes_cached = cache_.cached();
    stats.nodes_dirty = cache_.running().dirty.size() + cache_.flight().dirty.size();
    stats.tree_height = tree_.height();
  }
  MutexLock lock(commit_mu_);
  stats.commits_waiting = commits_waiting_;
  stats.commit_ns_max = commit_ns_max_;
  return stats;
}

// Asks until all the nodes that the answer needs are in memory.
template <class T, class Ask>
Result<T> StoreImpl::ask_tree(Ask ask) {
  std::vector<NodePin> pins;
  NodeNo missing{};
  for (;;) {
    Miss miss;
    {
      ReaderLock lock(tree_mu_);
      auto answer = ask();
      if (answer) return std::move(*answer);
      miss = answer.error();
    }
    TRY(load_missing(miss, missing, pins));
  }
}

// `missing_before` is the node that was last found to be in no map. Once that may be because
// somebody freed it just then; if the tree still names it, it is lost.
Result<> StoreImpl::load_missing(const Miss& miss, NodeNo& missing_before,
                                 std::vector<NodePin>& pins) {
  if (miss.node.value == 0) return fail(miss.error);
  auto pin = loader_.load(miss.node);
  if (pin) {
    pins.push_back(std::move(*pin));
    return ok();
  }
  const bool again = pin.error() == Errc::kNodeMissing && miss.node != missing_before;
  missing_before = miss.node;
  return again ? ok() : fail(pin.error());
}

Result<std::optional<Value>> StoreImpl::get(Key key) {
  return ask_tree<std::optional<Value>>([&] { return tree_.get(key); });
}

Result<std::optional<Item>> StoreImpl::last_in(Key first, Key last) {
  return ask_tree<std::optional<Item>>([&] { return tree_.last_in(first, last); });
}

Result<std::vector<Item>> StoreImpl::scan(Key first, Key last, std::size_t max_items) {
  std::vector<Item> items;
  items.reserve(std::min<std::size_t>(max_items, 32));
  std::optional<Key> next = first;
  while (next && *next <= last && items.size() < max_items) {
    const Key from = *next;
    ASSIGN_OR_RETURN(next, ask_tree<std::optional<Key>>(
                               [&] { return tree_.scan_leaf(from, last, max_items, items); }));
  }
  return items;
}

std::optional<Key> StoreImpl::end_of_part(Key key) {
  std::vector<NodePin> pins;
  NodeNo missing{};
  for (;;) {
    Tree::Part part;
    {
      ReaderLock lock(tree_mu_);
      part = tree_.part_of(key);
    }
    if (!part.missing) return part.end;
    if (!load_missing(Miss{.node = *part.missing}, missing, pins)) return part.end;
  }
}

}  // namespace lazyfs::meta
