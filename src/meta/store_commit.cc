// Committing: one cycle at a time, shared by all who wait for it (meta/store_impl.h).
#include <algorithm>

#include "base/clock.h"
#include "base/log.h"
#include "meta/store_impl.h"

namespace lazyfs::meta {
namespace {

constexpr std::size_t kNodesPerLock = 256;  // so that nobody waits long for the tree

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
    while (busy_ && (work == Work::kCommit ? commits_ended_ < ticket : cycles_ == cycles)) {
      cycle_moved_.wait(commit_mu_);
    }
    if (work == Work::kCommit) --commits_waiting_;
    if (failed()) return fail(Errc::kLogFailed);
    if (work == Work::kCommit ? commits_ended_ >= ticket : waited) return ok();
    busy_ = true;
    const bool commits = work != Work::kGrow && work != Work::kAdapt;
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
    case Work::kClean: return write_transaction(std::move(to_clean));
    case Work::kSnapshot: return write_transaction(take_snapshot());
    case Work::kGrow: return grow();
    case Work::kAdapt: return adapt_size(), ok();
    case Work::kCommit: break;
  }
  TRY(write_transaction(Additions{}));
  if (options_.background) {
    if (cleaning_is_due() || snapshot_is_due()) wake_background();
    return ok();
  }
  clean_while_due();
  if (!failed() && snapshot_is_due()) TRY(write_transaction(take_snapshot()));
  adapt_size();
  return failed() ? fail(Errc::kLogFailed) : ok();
}

// For a change that the running transaction has no room for: there is another one as soon as the
// commit in progress has ended and the next one has begun.
Result<> StoreImpl::wait_for_next_transaction(Seq running) {
  if (!options_.background) return run_cycle(Work::kCommit);
  wake_background(true);
  MutexLock lock(commit_mu_);
  while (sealed_seq_ < running && !failed()) cycle_moved_.wait(commit_mu_);
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
  // Data first: everything that the sealed changes refer to was appended before they were made.
  if (auto flushed = device_.flush(); !flushed) {
    fail_for_ever(flushed.error(), "flush before the commit");
    return fail(Errc::kLogFailed);
  }
  if (!*plan) return ok();
  if (auto written = write_sealed(**plan, additions); !written) {
    fail_for_ever(written.error(), "commit");
    return fail(Errc::kLogFailed);
  }
  land_sealed();
  log_.release();
  if (listener_) listener_(durable_seq());
  return ok();
}

// Freezes the running transaction and takes its place in the log. nullopt: there is nothing to
// write. What of the additions has no room, or is not needed any more, is left out.
Result<std::optional<LogPlan>> StoreImpl::seal(Additions& additions) {
  WriterLock lock(tree_mu_);
  Changes& running = cache_.running();
  const std::uint64_t available = log_.available();
  std::erase_if(additions.damaged, [&](const LogImage& image) {
    return cache_.find(image.node()) != nullptr || cache_.is_freed(image.node());
  });
  const std::size_t damaged = additions.damaged.size();
  for (const NodePin& pin : additions.nodes) {
    Node& node = *pin;
    if (node.dead || node.dirty_seq == running.seq) continue;
    const std::uint64_t images = running.dirty.size() + 1 + damaged;
    if (limits_.cost(images, running.freed.size()) > available) break;
    cache_.make_dirty(node);
    ++running.cleaned;
  }
  const std::uint64_t nodes = running.dirty.size() + damaged;
  const std::uint64_t cost = limits_.cost(nodes + additions.pieces(), running.freed.size());
  if (cost + limits_.reserve > available) additions.snapshot = AlignedBuffer();
  if (running.empty() && damaged == 0 && additions.pieces() == 0) return std::nullopt;
  auto plan = log_.plan(running.seq, nodes + additions.pieces(), running.freed.size());
  if (!plan) return fail(Errc::kLogFull);
  cache_.seal();
  return plan;
}

Result<> StoreImpl::write_sealed(const LogPlan& plan, Additions& additions) {
  std::vector<LogImage> images = stamp_images();
  images.insert(images.end(), additions.damaged.begin(), additions.damaged.end());
  for (std::size_t i = 0; i < additions.pieces(); ++i) {
    const auto piece = additions.snapshot.span().subspan(i * kBlockBytes).first<kBlockBytes>();
    images.push_back({i, piece.data(), stamp_piece(piece, plan.seq), EntryKind::kSnapshot});
  }
  const std::vector<NodeNo> freed = freed_in_flight();
  NodeNo next_node;
  {
    ReaderLock lock(tree_mu_);
    next_node = cache_.flight().next_node;
  }
  TRY(log_.write(plan, images, freed, next_node));
  TRY(device_.flush());
  if (additions.pieces() > 0) snapshots_.fetch_add(1, std::memory_order_relaxed);
  return ok();
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
    for (auto cycles = clean_cycles_at_most(); cycles > 0 && cleaning_is_due(); --cycles) {
      if (!run_cycle(Work::kClean)) return;
      MutexLock lock(background_mu_);
      if (stopping_) return;
    }
    if (snapshot_is_due() && !run_cycle(Work::kSnapshot)) return;
    ignore_error(run_cycle(Work::kAdapt), "the log keeps its size then");
  }
}

}  // namespace lazyfs::meta
