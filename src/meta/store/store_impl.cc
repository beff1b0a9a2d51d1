#include "meta/store/store_impl.h"

#include <algorithm>
#include <map>
#include <new>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "meta/log/features.h"
#include "meta/log/recovery.h"
#include "meta/log/superblock_format.h"
#include "meta/store/tree_check.h"
#include "meta/store/tree_repair.h"

namespace lazyfs::meta {
namespace {

// After which the store's thread tries again when memory has lacked.
constexpr auto kMemoryPause = std::chrono::milliseconds(100);
constexpr std::size_t kMinCachedNodes = 16;
constexpr std::uint64_t kRoundsBesideCleaning = 16;  // of a change that waits for room

std::size_t cached_nodes(std::size_t cache_bytes) {
  return std::max(kMinCachedNodes, cache_bytes / kBlockBytes);
}

void begin_session(Superblock& superblock, const StoreOptions& options) {
  ++superblock.session;
  if (!superblock.ended_cleanly()) superblock.set_data_ends_known(false);
  superblock.set_clean_end(false);
  if (options.label) superblock.label = *options.label;
  if (options.new_uuid) superblock.new_uuid = *options.new_uuid;
  if (options.check_seconds > 0) superblock.last_check_seconds = options.check_seconds;
  if (options.mount_seconds == 0) return;
  superblock.last_mount_seconds = options.mount_seconds;
  ++superblock.mounts;
}

}  // namespace

// ---- Beginning and ending -----------------------------------------------------------------------

Result<std::unique_ptr<StoreImpl>> StoreImpl::open(device::Device& device,
                                                   const StoreOptions& options, bool repair) {
  ASSIGN_OR_RETURN(Superblock superblock, read_superblock(device));
  TRY(check_features(superblock.features, options.read_only));
  ASSIGN_OR_RETURN(const RecoveredLog found, recover_log(device, superblock));
  if (!options.read_only && device.capabilities().read_only) return fail(Errc::kDeviceReadOnly);
  const bool was_clean = superblock.ended_cleanly();
  if (!options.read_only) {
    begin_session(superblock, options);
    superblock.band_count = device.geometry().band_count();
    superblock.session_start_seq = found.seq.value;
    set_durable(superblock, found.parts.back().place);
  }
  auto store =
      std::make_unique<StoreImpl>(device, options, std::move(superblock), found, was_clean);
  if (store->log_.is_sound()) store->report_loss(found.loss);
  TRY(store->start(repair));
  return store;
}

StoreImpl::StoreImpl(device::Device& device, const StoreOptions& options, Superblock superblock,
                     const RecoveredLog& found, bool was_clean)
    : device_(device),
      options_(options),
      was_clean_(was_clean),
      log_(device, {superblock.uuid, superblock.session}, found),
      tree_(cached_nodes(options.cache_bytes),
            fs_tag_of(superblock.uuid), Seq{found.seq.value + 1}, found.next_node,
            log_.figures().live),
      loader_(device, log_, tree_),
      superblock_(device, log_, failure_, std::move(superblock)),
      cycles_(failure_),
      sizer_(device, options_, log_, tree_, superblock_,
             [this] {
               if (options_.background) wake_background();
             }),
      cleaner_(device, options_, log_, tree_, loader_, sizer_),
      committer_(device, log_, tree_, sizer_, superblock_, cycles_, failure_, found.seq),
      reader_(tree_, loader_),
      applier_(
          log_, tree_, loader_, failure_,
          [this](Applier::Obstacle obstacle, Seq running) { return get_past(obstacle, running); },
          [this] {
            if (options_.background) wake_background();
          }) {}

Result<> StoreImpl::start(bool repair) {
  if (!log_.is_sound()) return fail(Errc::kLogTailLost);
  sizer_.update_limits();
  if (!options_.read_only) {
    // A daemon that was killed may have left its last transaction unflushed. It must be durable
    // before the superblock says so.
    TRY(device_.flush());
    // After this record no lost write of an earlier session can reappear.
    superblock_.open_for_writing();
    TRY(superblock_.write());
    TRY(state_log_end());
    log_.reset_retired();
    log_.resume();
    sizer_.update_limits();  // the bands that have been reset count, the others do not
  }
  auto root = loader_.load_twice(Tree::kRoot);
  if (!root && !repair) return fail(root.error());
  root_pin_ = root ? std::move(*root) : replace_root();
  if (options_.background) TRY(loader_.start());
  if (options_.background && !options_.read_only) {
    ASSIGN_OR_RETURN(background_, start_thread([this] { run_background(); }));
  }
  return ok();
}

// Cold bands hold no transactions, and the map knows which bands with live nodes are cold.
void StoreImpl::report_loss(LogLoss loss) {
  if (!loss.bands.empty()) {
    for (const auto& [band, live_blocks] : log_band_use()) {
      if (live_blocks > 0) std::erase(loss.bands, band);
    }
  }
  log_losses_ = describe_loss(loss);
  for (const std::string& text : log_losses_) log::error("metadata log: {}", text);
}

// Tells a device that keeps no write pointers where the log continues.
Result<> StoreImpl::state_log_end() {
  if (device_.capabilities().keeps_write_pointers) return ok();
  const BandAddress next = log_.head().next;
  if (next.rba == device_.geometry().blocks_of(next.band)) return ok();  // the band takes no more
  ASSIGN_OR_RETURN(const std::uint32_t known, device_.write_pointer(next.band));
  return known == next.rba ? ok() : device_.set_write_pointer(next.band, next.rba);
}

NodePin StoreImpl::replace_root() {
  WriterLock lock(tree_.mu);
  std::byte* image = tree_.cache.take_image();
  NodePage(image).format(Tree::kRoot, 0, tree_.fs_tag);
  Node& root = tree_.cache.insert_clean(Tree::kRoot, image);
  tree_.cache.make_dirty(root);
  root_was_lost_ = true;
  return NodePin(root);
}

Result<> StoreImpl::make_room_for_repair(const FreeBandFinder& find_free) {
  if (sizer_.lacks_bands() && find_free) {
    ASSIGN_OR_RETURN(std::vector<BandId> bands, find_free(*this));
    sizer_.set_source({.take = [&bands]() -> Result<BandId> {
                         if (bands.empty()) return fail(Errc::kNoSpace);
                         const BandId band = bands.back();
                         bands.pop_back();
                         return band;
                       },
                       .give_back = [](BandId) {}});
    for (std::uint32_t i = 0; i < kMinLogBands && sizer_.grow(); ++i) continue;
    sizer_.set_source({});
  }
  if (device_.capabilities().keeps_write_pointers) return ok();
  for (auto cycles = cleaner_.cycles_at_most(); cycles > 0 && cleaner_.is_due(); --cycles) {
    TRY(run_cycle(Work::kClean));
  }
  return ok();
}

Result<> StoreImpl::repair_tree(const std::function<void(std::string)>& report,
                                const LostListener& on_lost) {
  return meta::repair_tree({*this, device_, log_, tree_, loader_, *root_pin_, root_was_lost_},
                           report, on_lost);
}

StoreImpl::~StoreImpl() { stop_background(); }

Result<> StoreImpl::close() {
  loader_.stop();
  Result<> result = ok();
  if (!options_.read_only && !failed()) result = commit();
  stop_background();
  if (options_.read_only || failed() || !result) return result;
  if (log_.figures().after_checkpoint > 0) TRY(run_cycle(Work::kCheckpoint));
  // So the next opening need not verify the last transaction, and a bit that flips in it meanwhile
  // damages one node only.
  return superblock_.write_clean_end();
}

void StoreImpl::abandon() {
  cycles_.abandon();
  stop_background();
  loader_.stop();
}

// ---- Changing -----------------------------------------------------------------------------------

Result<Seq> StoreImpl::apply(const Batch& batch, Reserve reserve) {
  return when_room(*this, [&] { return try_apply(batch, reserve); });
}

Result<Seq> StoreImpl::try_apply(const Batch& batch, Reserve reserve) try {
  if (options_.read_only) return fail(Errc::kReadOnly);
  return applier_.try_apply(batch, reserve);
} catch (const std::bad_alloc&) {
  return fail(Errc::kNoMemory);
}

Result<> StoreImpl::make_room() try {
  return applier_.make_room(cleaner_.cycles_at_most() + kRoundsBesideCleaning);
} catch (const std::bad_alloc&) {
  return fail(Errc::kNoMemory);
}

Result<> StoreImpl::get_past(Applier::Obstacle obstacle, Seq running) {
  switch (obstacle) {
    case Applier::Obstacle::kNone: return ok();
    case Applier::Obstacle::kTooLarge: return fail(Errc::kBatchTooLarge);
    case Applier::Obstacle::kMustClean:
      return run_cycle(cleaner_.is_blocked() ? Work::kGrow : Work::kClean);
    case Applier::Obstacle::kMustGrow: return run_cycle(Work::kGrow);
    case Applier::Obstacle::kMustCommit: break;
  }
  if (!options_.background) return run_cycle(Work::kCommit);
  wake_background(true);
  return cycles_.wait_until_sealed(running);
}

// ---- Cycles -------------------------------------------------------------------------------------

Result<> StoreImpl::commit() {
  if (options_.read_only) return ok();
  return run_cycle(Work::kCommit);
}

Result<CommitCycles::Turn> StoreImpl::begin_cycle(Work work) {
  switch (work) {
    case Work::kCommit: return cycles_.begin_commit();
    case Work::kClean:
    case Work::kCheckpoint: return cycles_.begin_or_wait(true);
    case Work::kGrow: return cycles_.begin_or_wait(false);
    case Work::kResize:
    case Work::kShrinkFully:
    case Work::kExtend: break;
  }
  TRY(cycles_.begin_alone());
  return CommitCycles::Turn::kMine;
}

Result<> StoreImpl::run_cycle(Work work, std::optional<CleanChoice> victim) try {
  // The cleaner reads before its turn, so that no commit waits for it. The committer leaves out the
  // nodes that have changed or died meanwhile.
  Additions to_clean;
  if (work == Work::kClean) to_clean = cleaner_.gather(victim);
  ASSIGN_OR_RETURN(const CommitCycles::Turn turn, begin_cycle(work));
  if (turn == CommitCycles::Turn::kShared) return ok();
  const auto begin = system_clock().monotonic();
  const Result<> result = do_or_stop(work, std::move(to_clean));
  cycles_.end(static_cast<std::uint64_t>((system_clock().monotonic() - begin).count()));
  return result;
} catch (const std::bad_alloc&) {
  return fail(Errc::kNoMemory);
}

Result<> StoreImpl::do_or_stop(Work work, Additions to_clean) try {
  return do_work(work, std::move(to_clean));
} catch (const std::bad_alloc&) {
  return committer_.stop_without_memory();
}

Result<> StoreImpl::do_work(Work work, Additions to_clean) {
  switch (work) {
    case Work::kClean:
      if (sizer_.lacks_bands()) ignore_error(sizer_.grow(), "cleaning may make room");
      return committer_.commit(cleaner_.add_cold_index(std::move(to_clean)));
    case Work::kCheckpoint: return committer_.commit(cleaner_.take_checkpoint());
    case Work::kGrow: return sizer_.grow();
    case Work::kResize: return sizer_.resize(SpaceDemand::kOrdinary), ok();
    case Work::kShrinkFully: return sizer_.resize(SpaceDemand::kShortage), ok();
    case Work::kExtend: return superblock_.write_band_count();
    case Work::kCommit: break;
  }
  return commit_in_cycle();
}

Result<> StoreImpl::commit_in_cycle() {
  TRY(committer_.commit(Additions{}));
  if (log_.figures().blocks_written == 0) return ok();  // cleaning can wait for the first change
  if (options_.background) {
    const bool has_work =
        cleaner_.is_due() || sizer_.is_due() || cleaner_.checkpoint_is_due();
    if (has_work) wake_background();
    return ok();
  }
  clean_in_cycle();
  if (!failed() && cleaner_.checkpoint_is_due()) {
    TRY(committer_.commit(cleaner_.take_checkpoint()));
  }
  sizer_.resize(SpaceDemand::kOrdinary);
  return failed() ? fail(Errc::kLogFailed) : ok();
}

// For stores without a thread of their own.
void StoreImpl::clean_in_cycle() {
  for (auto cycles = cleaner_.cycles_at_most(); cycles > 0 && cleaner_.is_due(); --cycles) {
    Additions gathered = cleaner_.add_cold_index(cleaner_.gather());
    if (gathered.is_stuck && gathered.empty()) continue;  // another band may be readable
    if (gathered.empty() || !committer_.commit(std::move(gathered))) return;
  }
}

bool StoreImpl::has_room_to_record(std::uint64_t more_blocks) {
  ReaderLock lock(tree_.mu);
  return tree_.cache.nodes() + tree_.promised_nodes(more_blocks) <= tree_.limits.live_promised;
}

bool StoreImpl::make_room_to_record(std::uint64_t more_blocks) {
  while (!has_room_to_record(more_blocks)) {
    if (options_.read_only || !run_cycle(Work::kGrow)) return false;
  }
  return true;
}

Result<> StoreImpl::give_back_bands() {
  const auto wanted = [this] { return sizer_.wanted(SpaceDemand::kShortage); };
  const auto is_due = [&] {
    const SizeChange change = wanted();
    return change == SizeChange::kShrink || change == SizeChange::kCleanFirst;
  };
  if (options_.read_only || !is_due()) return ok();
  TRY(run_cycle(Work::kCommit));  // what was deleted dies with the commit
  for (auto cycles = cleaner_.cycles_at_most(); cycles > 0 && is_due(); --cycles) {
    const bool can_shrink = wanted() == SizeChange::kShrink;
    TRY(run_cycle(can_shrink ? Work::kShrinkFully : Work::kClean));
  }
  return ok();
}

// If the log lacks room, the cleaner does its ordinary work first.
Result<> StoreImpl::empty_log_bands(std::span<const BandId> bands) {
  if (options_.read_only) return fail(Errc::kReadOnly);
  for (auto cycles = cleaner_.cycles_at_most(); cycles > 0; --cycles) {
    TRY(cycles_.begin_alone());
    const auto victim = log_.choose_to_empty(bands, tree_.blocks_needed());
    cycles_.end(0);
    if (victim && !*victim) break;
    const bool has_room = victim && !cleaner_.is_due();
    TRY(run_cycle(Work::kClean, has_room ? *victim : std::nullopt));
  }
  return ok();
}

Result<> StoreImpl::extend() {
  if (options_.read_only) return fail(Errc::kReadOnly);
  return run_cycle(Work::kExtend);
}

// ---- The store's thread -------------------------------------------------------------------------

void StoreImpl::wake_background(bool to_commit) {
  MutexLock lock(background_mu_);
  background_wanted_ = true;
  commit_wanted_ |= to_commit;
  background_wake_.notify_one();
}

// False: the thread is to end.
bool StoreImpl::wait_for_work(bool& commit) {
  MutexLock lock(background_mu_);
  while (!background_wanted_ && !stopping_) background_wake_.wait(background_mu_);
  background_wanted_ = false;
  commit = std::exchange(commit_wanted_, false);
  return !stopping_;
}

void StoreImpl::run_background() {
  for (bool commit = false; wait_for_work(commit);) {
    const Result<> done = work_in_background(commit);
    if (done) continue;
    if (done.error() != Errc::kNoMemory) return;
    MutexLock lock(background_mu_);  // others may wait for what is to be done
    background_wanted_ = true;
    commit_wanted_ |= commit;
    if (!stopping_) background_wake_.wait_for(background_mu_, kMemoryPause);
  }
}

// After an error other than kNoMemory the thread is to end.
Result<> StoreImpl::work_in_background(bool commit) try {
  if (commit || tree_.commit_is_due()) TRY(run_cycle(Work::kCommit));
  // After bands were given back, cleaning may make more bands free.
  for (bool more = true; more;) {
    TRY(clean_in_background());
    if (cleaner_.checkpoint_is_due()) TRY(run_cycle(Work::kCheckpoint));
    const std::uint64_t bands = log_.figures().bands;
    if (sizer_.is_due()) TRY(run_cycle(Work::kResize));
    more = log_.figures().bands < bands;
  }
  return ok();
} catch (const std::bad_alloc&) {
  return fail(Errc::kNoMemory);
}

Result<> StoreImpl::clean_in_background() {
  for (auto cycles = cleaner_.cycles_at_most(); cycles > 0 && cleaner_.is_due(); --cycles) {
    TRY(run_cycle(Work::kClean));
    MutexLock lock(background_mu_);
    if (stopping_) return fail(Errc::kShutDown);
  }
  return ok();
}

void StoreImpl::stop_background() {
  if (!background_.joinable()) return;
  {
    MutexLock lock(background_mu_);
    stopping_ = true;
  }
  background_wake_.notify_all();
  background_.join();
}

// ---- Looking ------------------------------------------------------------------------------------

std::vector<Store::LogBandUse> StoreImpl::log_band_use() const {
  std::map<BandId, std::uint64_t> live;
  for (const BandId band : log_.bands()) live[band] = 0;
  for (const auto& [node, place] : log_.all_live()) live[place.address.band] += 1;
  std::vector<LogBandUse> use;
  use.reserve(live.size());
  for (const auto& [band, blocks] : live) use.push_back({band, blocks});
  return use;
}

void StoreImpl::set_cache_bytes(std::size_t bytes) {
  tree_.limit_nodes = cached_nodes(bytes);
  {
    WriterLock lock(tree_.mu);
    tree_.cache.set_limit(tree_.limit_nodes);
  }
  sizer_.update_limits();
}

StoreStats StoreImpl::stats() const {
  const Log::Figures log = log_.figures();
  const Committer::Figures committed = committer_.figures();
  const CommitCycles::Figures cycles = cycles_.figures();
  StoreStats stats;
  stats.transactions = committed.transactions;
  stats.log_blocks_written = log.blocks_written;
  stats.nodes_written = committed.nodes_written;
  stats.nodes_cleaned = committed.nodes_cleaned;
  stats.nodes_cooled = committed.nodes_cooled;
  stats.bands_adopted = committed.bands_adopted;
  stats.log_cold_bands = log.cold_bands;
  stats.log_cold_live_blocks = log.cold_live;
  stats.log_live_blocks = log.live;
  stats.log_total_blocks = log.total_blocks;
  stats.log_bands = log.bands;
  stats.log_free_bands = log.free_bands;
  stats.jmap_entries = log.live;
  stats.jmap_bytes = log.jmap_bytes;
  stats.checkpoints = committed.checkpoints;
  stats.log_blocks_after_checkpoint = log.after_checkpoint;
  stats.recovered_parts = log.recovered_parts;
  stats.node_reads = loader_.reads();
  stats.plans_repeated = applier_.plans_repeated();
  stats.commits_waiting = cycles.commits_waiting;
  stats.commit_ns_max = cycles.commit_ns_max;
  ReaderLock lock(tree_.mu);
  stats.nodes_cached = tree_.cache.cached();
  stats.nodes_dirty = tree_.cache.running().dirty.size() + tree_.cache.sealed().dirty.size();
  stats.tree_height = tree_.tree.height();
  return stats;
}

void StoreImpl::check(const CheckListener& listener) {
  const bool has_turn = cycles_.begin_alone().has_value();  // none runs in a store that has failed
  TreeCheck(device_, log_, tree_, loader_, listener).run();
  if (has_turn) cycles_.end(0);
}

}  // namespace lazyfs::meta
