// Committing: one cycle at a time, shared by all who wait for it (meta/store/store_impl.h).
#include <algorithm>

#include "base/clock.h"
#include "base/log.h"
#include "meta/store/store_impl.h"

namespace lazyfs::meta {
namespace {

constexpr std::size_t kNodesPerLock = 256;  // so that nobody waits long for the tree

// Another band may do.
bool is_bands_fault(Errc e) {
  return e == Errc::kDeviceWrite || e == Errc::kDeviceNoSpace || e == Errc::kBandFailed ||
         e == Errc::kBandReadOnly || e == Errc::kBandOffline || e == Errc::kNotAtWritePointer;
}

}  // namespace

Result<> StoreImpl::commit() {
  if (options_.read_only) return ok();
  return run_cycle(Work::kCommit);
}

// Runs a cycle, or shares one: a commit that starts after the call serves it. Who wants cleaning or
// growth while another cycle runs just waits for that one, and looks again.
Result<> StoreImpl::run_cycle(Work work) {
  // Nobody waits for the cleaner's reading. Whatever becomes of the nodes meanwhile, seal() sees
  // it.
  Additions to_clean;
  if (work == Work::kClean) to_clean = gather();
  {
    MutexLock lock(commit_mu_);
    const std::uint64_t ticket = commits_started_ + 1;
    const bool waited = busy_;
    if (work == Work::kCommit) ++commits_waiting_;
    const std::uint64_t cycles = cycles_;
    // A change of the log's size is not shared: the thread that waits for it checks what is left.
    const bool is_shared = work != Work::kResize && work != Work::kShrinkFully;
    while (busy_ && !abandoned_ &&
           (work == Work::kCommit ? commits_ended_ < ticket : !is_shared || cycles_ == cycles)) {
      cycle_moved_.wait(commit_mu_);
    }
    if (work == Work::kCommit) --commits_waiting_;
    if (failed()) return fail(Errc::kLogFailed);
    if (abandoned_) return fail(Errc::kShutDown);
    if (work == Work::kCommit ? commits_ended_ >= ticket : waited && is_shared) return ok();
    busy_ = true;
    const bool commits =
        work == Work::kCommit || work == Work::kClean || work == Work::kSnapshot;
    if (commits) ++commits_started_;
  }
  const auto begin = system_clock().monotonic();
  const Result<> result = do_work(work, std::move(to_clean));
  end_cycle(static_cast<std::uint64_t>((system_clock().monotonic() - begin).count()));
  return result;
}

void StoreImpl::begin_cycle() {
  MutexLock lock(commit_mu_);
  while (busy_) cycle_moved_.wait(commit_mu_);
  busy_ = true;
}

void StoreImpl::end_cycle(std::uint64_t took_ns) {
  {
    MutexLock lock(commit_mu_);
    busy_ = false;
    ++cycles_;
    commits_ended_ = commits_started_;
    commit_ns_max_ = std::max(commit_ns_max_, took_ns);
  }
  cycle_moved_.notify_all();
}

Result<> StoreImpl::do_work(Work work, Additions to_clean) {
  switch (work) {
    case Work::kClean: return write_transaction(with_listings(std::move(to_clean)));
    case Work::kSnapshot: return write_transaction(take_snapshot());
    case Work::kGrow: return grow();
    case Work::kResize: return resize(SpaceDemand::kOrdinary), ok();
    case Work::kShrinkFully: return resize(SpaceDemand::kShortage), ok();
    case Work::kCommit: break;
  }
  TRY(write_transaction(Additions{}));
  if (options_.background) {
    if (cleaning_is_due() || size_is_due() || snapshot_is_due()) wake_background();
    return ok();
  }
  clean_while_due();
  if (!failed() && snapshot_is_due()) TRY(write_transaction(take_snapshot()));
  resize(SpaceDemand::kOrdinary);
  return failed() ? fail(Errc::kLogFailed) : ok();
}

// For a change that the running transaction has no room for: there is another one as soon as the
// commit in progress has ended and the next one has begun.
Result<> StoreImpl::wait_for_next_transaction(Seq running) {
  if (!options_.background) return run_cycle(Work::kCommit);
  wake_background(true);
  MutexLock lock(commit_mu_);
  while (sealed_seq_ < running && !failed() && !abandoned_) cycle_moved_.wait(commit_mu_);
  if (abandoned_) return fail(Errc::kShutDown);
  return failed() ? fail(Errc::kLogFailed) : ok();
}

// Commits the running transaction, with the additions.
Result<> StoreImpl::write_transaction(Additions additions) {
  auto plan = seal(additions);
  if (plan && *plan) {
    MutexLock lock(commit_mu_);
    sealed_seq_ = (*plan)->seq;
  }
  cycle_moved_.notify_all();
  if (!plan) {
    fail_for_ever(plan.error(), "no room for a transaction that was admitted");
    return fail(Errc::kLogFailed);
  }
  std::vector<LogImage> images;
  if (*plan) {
    images = stamp_images();
    if (auto cold = write_cold(images, additions, **plan); !cold) {
      fail_for_ever(cold.error(), "moving cold nodes");
      return fail(Errc::kLogFailed);
    }
  }
  // Data first: everything that the sealed changes refer to was appended before they were made. And
  // cold nodes: the transaction says where they are.
  if (auto flushed = device_.flush(); !flushed) {
    fail_for_ever(flushed.error(), "flush before the commit");
    return fail(Errc::kLogFailed);
  }
  if (!*plan) return ok();
  if (auto written = write_sealed(**plan, std::move(images), additions); !written) {
    fail_for_ever(written.error(), "commit");
    return fail(Errc::kLogFailed);
  }
  land_sealed();
  release_passed();
  return ok();
}

// Freezes the running transaction and takes its place in the log. nullopt: there is nothing to
// write. What of the additions has no room, or is not needed any more, is left out.
Result<std::optional<LogPlan>> StoreImpl::seal(Additions& additions) {
  WriterLock lock(tree_mu_);
  Changes& running = cache_.running();
  std::erase_if(additions.damaged, [&](const LogImage& image) {
    return cache_.find(image.node()) != nullptr || cache_.is_freed(image.node());
  });
  const std::size_t damaged = additions.damaged.size();
  add_moved(additions, damaged);
  const std::uint64_t cold = additions.cold ? additions.cold->blocks : 0;
  const std::uint64_t nodes = running.dirty.size() - cold + damaged;
  const std::uint64_t notes =
      running.freed.size() + additions.listings.size() + (cold > 0 ? cold + 2 : 0);
  const std::uint64_t cost = limits_.cost(nodes + additions.pieces(), notes);
  if (!limits_.admits(cost, log_.space())) additions.snapshot = AlignedBuffer();
  if (running.empty() && nodes + notes + additions.pieces() == 0) return std::nullopt;
  auto plan = log_.plan(running.seq, nodes + additions.pieces(), notes);
  if (!plan) return fail(Errc::kLogFull);
  cache_.seal();
  return plan;
}

// Adds what the cleaner has gathered to the running transaction, as if it had been changed: to a
// cold band as many as have room there, or else, to the hot log, as many as that has room for.
void StoreImpl::add_moved(Additions& additions, std::uint64_t damaged) {
  Changes& running = cache_.running();
  std::vector<Node*> moved;
  for (const NodePin& pin : additions.nodes) {
    if (!(*pin).dead && (*pin).dirty_seq != running.seq) moved.push_back(&*pin);
  }
  const std::uint64_t images = running.dirty.size() + damaged;
  const std::uint64_t notes = running.freed.size() + moved.size() + 2;
  if (limits_.cost(images, notes + additions.listings.size()) > log_.available()) {
    additions.listings.clear();
  }
  if (!moved.empty() && limits_.has_cold) {
    const std::uint64_t cost = limits_.cost(images, notes + additions.listings.size());
    additions.cold = log_.plan_cold(moved.size(), cost + limits_.frames);
    if (additions.cold) moved.resize(additions.cold->blocks);
  }
  const std::uint64_t available = log_.available();
  const std::uint64_t freed = running.freed.size() + additions.listings.size();
  for (Node* node : moved) {
    const std::uint64_t so_far = running.dirty.size() + 1 + damaged;
    if (!additions.cold && limits_.cost(so_far, freed) > available) break;
    cache_.make_dirty(*node);
    ++running.cleaned;
  }
}

// Those of the images that seal() has given a place in a cold band go there.
// If that fails, they stay among the others, and all of these get another place; or, where there is
// no room for them, they stay where they are, for they have not changed.
Result<> StoreImpl::write_cold(std::vector<LogImage>& images, Additions& additions, LogPlan& plan) {
  if (!additions.cold) return ok();
  const ColdRoom& room = *additions.cold;
  const auto cold = std::span(images).last(room.blocks);
  if (auto written = log_.write_cold(room, cold); !written) {
    if (!is_bands_fault(written.error())) return written;
    log_.take_back(plan);
    const std::size_t notes = freed_in_flight().size() + additions.listings.size();
    const std::size_t others = additions.damaged.size() + additions.pieces();
    auto anew = log_.plan(plan.seq, images.size() + others, notes);
    if (!anew) {
      images.resize(images.size() - room.blocks);
      anew = log_.plan(plan.seq, images.size() + others, notes);
    }
    if (!anew) return written;
    plan = std::move(*anew);
    note_failed_bands();
    return ok();
  }
  Seq seq;
  {
    ReaderLock lock(tree_mu_);
    seq = cache_.flight().seq;
  }
  const auto notes = Log::listing_of(room, seq, cold);
  additions.listings.insert(additions.listings.end(), notes.begin(), notes.end());
  nodes_cooled_.fetch_add(room.blocks, std::memory_order_relaxed);
  images.resize(images.size() - room.blocks);
  return ok();
}

// What the transaction that is durable now needs no more becomes free.
void StoreImpl::release_passed() {
  log_.release();
  if (!log_.has_dead_cold_bands()) return;
  // An older transaction may need them, so nobody must go back to one.
  if (auto written = write_superblock(superblock()); !written) {
    log::error("metadata log: a superblock cannot be written: {}", describe(written.error()));
    return;
  }
  log_.release_cold();
}

Result<> StoreImpl::write_sealed(const LogPlan& plan, std::vector<LogImage> images,
                                 Additions& additions) {
  images.insert(images.end(), additions.damaged.begin(), additions.damaged.end());
  for (std::size_t i = 0; i < additions.pieces(); ++i) {
    const auto piece = additions.snapshot.span().subspan(i * kBlockBytes).first<kBlockBytes>();
    images.push_back({i, piece.data(), stamp_piece(piece, plan.seq), EntryKind::kSnapshot});
  }
  std::vector<DescriptorEntry> notes = std::move(additions.listings);
  for (const NodeNo freed : freed_in_flight()) {
    notes.push_back({freed.value, 0, EntryKind::kFreed});
  }
  NodeNo next_node;
  {
    ReaderLock lock(tree_mu_);
    next_node = cache_.flight().next_node;
  }
  TRY(write_somewhere(plan, images, notes, next_node));
  TRY(device_.flush());
  if (additions.pieces() > 0) snapshots_.fetch_add(1, std::memory_order_relaxed);
  return ok();
}

// A band that fails is left for the next one, as long as there is one: from the free ones, or else
// from where bands come from.
Result<> StoreImpl::write_somewhere(const LogPlan& plan, std::span<const LogImage> images,
                                    std::span<const DescriptorEntry> notes, NodeNo next_node) {
  constexpr int kMaxFailures = 4;
  Result<> written = log_.write(plan, images, notes, next_node);
  for (int failures = 1; !written && is_bands_fault(written.error()) && failures < kMaxFailures;
       ++failures) {
    auto anew = log_.plan(plan.seq, images.size(), notes.size());
    if (!anew && grow()) anew = log_.plan(plan.seq, images.size(), notes.size());
    if (!anew) {
      log::error("metadata log: no band is left to turn to");
      break;
    }
    written = log_.write(*anew, images, notes, next_node);
    note_failed_bands();
  }
  return written;
}

// There is less room than before, until another band takes the place of one that failed.
void StoreImpl::note_failed_bands() {
  update_limits();
  if (options_.background) wake_background();
}

// Ascending. Nobody changes the flight meanwhile.
std::vector<NodeNo> StoreImpl::freed_in_flight() {
  std::vector<NodeNo> freed;
  std::optional<std::unordered_set<NodeNo>::const_iterator> at;
  for (bool done = false; !done;) {
    ReaderLock lock(tree_mu_);
    const auto& from = cache_.flight().freed;
    if (!at) at = from.begin();
    for (std::size_t n = 0; n < kNodesPerLock && *at != from.end(); ++n) freed.push_back(*(*at)++);
    done = *at == from.end();
  }
  std::ranges::sort(freed);
  return freed;
}

// The images of the flight, each with its seq and checksum. Readers look at them meanwhile, but not
// at the bytes that are stamped.
std::vector<LogImage> StoreImpl::stamp_images() {
  std::vector<LogImage> images;
  std::vector<std::byte*> bytes;
  Seq seq;
  for (std::size_t total = 1; bytes.size() < total;) {
    ReaderLock lock(tree_mu_);
    const Changes& flight = cache_.flight();
    seq = flight.seq;
    total = flight.dirty.size();
    const std::size_t stop = std::min(total, bytes.size() + kNodesPerLock);
    for (std::size_t i = bytes.size(); i < stop; ++i) {
      bytes.push_back(NodeCache::flight_image(*flight.dirty[i]));
    }
    if (total == 0) break;
  }
  images.reserve(bytes.size());
  for (std::byte* image : bytes) {
    NodePage page(image);
    const std::uint32_t crc = page.stamp(seq);
    images.push_back({page.node().value, image, crc});
  }
  return images;
}

void StoreImpl::land_sealed() {
  std::size_t total = 0, cleaned = 0;
  {
    ReaderLock lock(tree_mu_);
    total = cache_.flight().dirty.size();
    cleaned = cache_.flight().cleaned;
    durable_seq_.store(cache_.flight().seq.value, std::memory_order_release);
  }
  for (std::size_t done = 0; done < total;) {
    WriterLock lock(tree_mu_);
    const std::size_t stop = std::min(total, done + kNodesPerLock);
    cache_.land(done, stop);
    done = stop;
  }
  Changes landed;
  {
    WriterLock lock(tree_mu_);
    landed = cache_.end_flight();
  }
  transactions_.fetch_add(1, std::memory_order_relaxed);
  nodes_written_.fetch_add(total, std::memory_order_relaxed);
  nodes_cleaned_.fetch_add(cleaned, std::memory_order_relaxed);
}

void StoreImpl::fail_for_ever(Errc cause, const char* what) {
  log::error("metadata log: {} of transaction behind {} failed: {}; the volume is read-only now",
             what, durable_seq().value, describe(cause));
  failed_.store(true, std::memory_order_release);
}

void StoreImpl::wake_background(bool to_commit) {
  MutexLock lock(background_mu_);
  background_wanted_ = true;
  commit_wanted_ |= to_commit;
  background_wake_.notify_one();
}

void StoreImpl::run_background() {
  for (;;) {
    bool commit = false;
    {
      MutexLock lock(background_mu_);
      while (!background_wanted_ && !stopping_) background_wake_.wait(background_mu_);
      if (stopping_) return;
      background_wanted_ = false;
      commit = std::exchange(commit_wanted_, false);
    }
    if ((commit || is_large()) && !run_cycle(Work::kCommit)) return;
    // Once bands were given back, cleaning may make more of them free.
    for (bool more = true; more;) {
      if (!clean_in_background()) return;
      if (snapshot_is_due() && !run_cycle(Work::kSnapshot)) return;
      const std::uint64_t bands = log_.figures().bands;
      if (size_is_due() && !run_cycle(Work::kResize)) return;
      more = log_.figures().bands < bands;
    }
  }
}

// False: the thread is to end.
bool StoreImpl::clean_in_background() {
  for (auto cycles = clean_cycles_at_most(); cycles > 0 && cleaning_is_due(); --cycles) {
    if (!run_cycle(Work::kClean)) return false;
    MutexLock lock(background_mu_);
    if (stopping_) return false;
  }
  return true;
}

}  // namespace lazyfs::meta
