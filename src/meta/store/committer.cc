#include "meta/store/committer.h"

#include <algorithm>
#include <unordered_set>

#include "base/log.h"
#include "meta/log/checkpoint_format.h"

namespace lazyfs::meta {
namespace {

// Whether a write to another band may succeed. Of a device without space another band may have its
// blocks.
bool concerns_one_band(Errc e) {
  return e == Errc::kDeviceWrite || e == Errc::kDeviceNoSpace || e == Errc::kBandFailed ||
         e == Errc::kBandReadOnly || e == Errc::kBandOffline || e == Errc::kNotAtWritePointer ||
         e == Errc::kTooManyOpenBands;
}

}  // namespace

Result<> Committer::fail_permanently(Errc cause, const char* what) {
  failure_.set(cause, what, durable_seq());
  return fail(Errc::kLogFailed);
}

Result<> Committer::stop_without_memory() {
  {
    ReaderLock lock(tree_.mu);
    if (tree_.cache.sealed().seq.value == 0) return fail(Errc::kNoMemory);
  }
  return fail_permanently(Errc::kNoMemory, "a commit");
}

Result<> Committer::commit(Additions additions) {
  const std::size_t bands = log_.band_sizes().size();
  while (lacks_room() && sizer_.grow()) continue;  // at most kMaxLogBands
  auto plan = seal(additions);
  if (!plan && failure_.has_failed()) return fail(Errc::kLogFailed);
  if (!plan) return fail_permanently(plan.error(), "planning a transaction that was admitted");
  std::vector<LogImage> images;
  if (*plan) {
    cycles_.note_sealed((*plan)->seq);
    images = stamp_images();
    for (const DamagedNode& damaged : additions.damaged) images.push_back(damaged.image);
    if (auto cold = write_cold(images, additions, **plan); !cold) {
      return fail_permanently(cold.error(), "moving cold nodes");
    }
  }
  const bool adopts = additions.adopts();
  // Data that the transaction refers to and does not name must be durable before it is written.
  const bool flushes_first = !*plan || additions.flushes_first || (*plan)->flushes_first;
  if (auto flushed = flushes_first ? device_.flush() : ok(); !flushed) {
    return fail_permanently(flushed.error(), "the flush before a commit");
  }
  if (!*plan) return ok();
  if (auto written = write_sealed(**plan, std::move(images), additions); !written) {
    return fail_permanently(written.error(), "a commit");
  }
  finish_sealed();
  if (adopts) bands_adopted_.fetch_add(1, std::memory_order_relaxed);
  release_passed(additions.pieces() > 0);
  if (log_.band_sizes().size() != bands) sizer_.note_less_space();
  return ok();
}

// Whether bands have failed since the changes of the running transaction were admitted. What the
// cleaner adds is left out where it has no room.
bool Committer::lacks_room() {
  ReaderLock lock(tree_.mu);
  const Changes& running = tree_.cache.running();
  if (running.empty()) return false;
  return tree_.limits.cost(running.dirty.size(), running.freed.size()) > log_.space().available;
}

// Takes a place for the transaction of `plan`, which failed because of `why`; and bands from the
// volume until the place has room. A full device has no space in those bands either.
std::optional<LogPlan> Committer::plan_again(const LogPlan& plan, Errc why, std::size_t images,
                                             std::size_t annotations, bool is_rescue) {
  auto again = log_.plan(plan.seq, images, annotations, is_rescue);
  while (!again && why != Errc::kDeviceNoSpace && sizer_.grow()) {  // at most kMaxLogBands
    again = log_.plan(plan.seq, images, annotations, is_rescue);
  }
  return again;
}

// Seals the running transaction and takes space for it in the log. nullopt: there is nothing to
// write. Leaves out additions that have no room or are not needed any more. Error: kLogFailed when
// the store has failed, perhaps since this commit began: then half of a batch may be in the tree.
Result<std::optional<LogPlan>> Committer::seal(Additions& additions) {
  WriterLock lock(tree_.mu);
  if (failure_.has_failed()) return fail(Errc::kLogFailed);
  Changes& running = tree_.cache.running();
  leave_out_changed(additions);
  if (additions.is_rescue && !add_rescued(additions)) additions = Additions{};
  if (!additions.is_rescue) add_moved(additions);
  const std::uint64_t cold = additions.cold ? additions.cold->blocks : 0;
  const std::uint64_t nodes = running.dirty.size() + additions.damaged.size() - cold;
  const std::uint64_t annotations =
      name_data(additions, nodes,
                running.freed.size() + additions.cold_index.size() + (cold > 0 ? cold + 2 : 0));
  if (running.empty() && nodes + annotations + additions.pieces() == 0) return std::nullopt;
  auto plan =
      log_.plan(running.seq, nodes + additions.pieces(), annotations, additions.is_rescue);
  if (!plan) return fail(Errc::kLogFull);
  tree_.cache.seal();
  tree_.brought = BroughtData();
  return plan;
}

// The cleaner reads before its turn. Meanwhile a commit may have changed a node, or deleted it and
// reset its band, and another cycle of the cleaner may have moved it.
void Committer::leave_out_changed(Additions& additions) {
  std::erase_if(additions.damaged, [this](const DamagedNode& damaged) REQUIRES(tree_.mu) {
    const NodeNo node = damaged.image.node();
    return tree_.cache.find(node) != nullptr || tree_.cache.is_freed(node) ||
           log_.find(node) != damaged.place;
  });
  // Moving a node that has left the victim would use up the reserve and empty nothing.
  std::erase_if(additions.nodes, [&](const NodePin& pin) REQUIRES(tree_.mu) {
    return (*pin).dead || (*pin).dirty_seq == tree_.cache.running().seq ||
           !log_.is_live_in(additions.victim->slot, (*pin).number);
  });
}

// Decides whether a transaction of `images` and `annotations` names the data that it brings, and
// carries the checkpoint that was added. Returns the number of all its annotations.
std::uint64_t Committer::name_data(Additions& additions, std::uint64_t images,
                                   std::uint64_t annotations) {
  const LogLimits limits = tree_.limits;
  // Cold nodes lie in no band of the transaction. A flush makes them and the data durable before
  // it.
  additions.flushes_first = additions.cold.has_value() || !tree_.brought.can_be_named();
  if (!additions.flushes_first) additions.data = tree_.brought.entries();
  const auto fits = [&] {
    const std::uint64_t cost =
        limits.cost(images + additions.pieces(), annotations + additions.data.size());
    return limits.admits(cost, log_.space());
  };
  if (!fits()) additions.checkpoint = AlignedBuffer();
  if (!additions.data.empty() && !fits()) {
    additions.data.clear();
    additions.flushes_first = true;
  }
  return annotations + additions.data.size();
}

// Adds the nodes that the cleaner has gathered to the running transaction, damaged ones first, the
// others as if they had been changed: as many as have room in a cold band, and their index in the
// hot log; without a cold band, as many as the hot log has room for. The rest stays where it is for
// the cleaner's next step.
void Committer::add_moved(Additions& additions) {
  const LogLimits limits = tree_.limits;
  Changes& running = tree_.cache.running();
  const std::uint64_t images = running.dirty.size(), freed = running.freed.size();
  std::size_t moved = additions.damaged.size() + additions.nodes.size();
  const std::uint64_t available = log_.space().available;
  // Of a transaction that moves so many nodes to a cold band.
  const auto cold_cost = [&](std::size_t cooled) {
    return limits.cost(images, freed + cooled + 2 + additions.cold_index.size());
  };
  if (cold_cost(moved) > available) additions.cold_index.clear();
  std::size_t cooled = limits.has_cold ? moved : 0;
  while (cooled > 0 && cold_cost(cooled) > available) --cooled;
  if (cooled > 0) additions.cold = log_.plan_cold(cooled, cold_cost(cooled) + limits.frames);
  const auto fits = [&] {
    return limits.cost(images + moved, freed + additions.cold_index.size()) <= available;
  };
  if (additions.cold) moved = additions.cold->blocks;
  while (!additions.cold && moved > 0 && !fits()) --moved;
  additions.damaged.resize(std::min(moved, additions.damaged.size()));
  moved -= additions.damaged.size();
  for (std::size_t i = 0; i < moved; ++i) tree_.cache.make_dirty(*additions.nodes[i]);
  running.cleaned += moved;
}

// Adds all nodes that are live in the band that a rescue empties. Returns false, and adds none, if
// the gathered nodes are no longer all of them, or do not fit.
bool Committer::add_rescued(const Additions& additions) {
  Changes& running = tree_.cache.running();
  const std::uint64_t slot = additions.victim->slot;
  std::unordered_set<NodeNo> gathered;
  std::vector<Node*> moved;
  for (const DamagedNode& damaged : additions.damaged) gathered.insert(damaged.image.node());
  for (const NodePin& pin : additions.nodes) {
    gathered.insert((*pin).number);
    moved.push_back(&*pin);
  }
  for (const NodeNo node : log_.live_of(slot, SIZE_MAX)) {
    const Node* cached = tree_.cache.find(node);
    const bool is_dirty = cached != nullptr && cached->dirty_seq == running.seq;
    if (!gathered.contains(node) && !is_dirty && !tree_.cache.is_freed(node)) return false;
  }
  const std::uint64_t images = running.dirty.size() + moved.size() + additions.damaged.size();
  const std::uint64_t annotations = running.freed.size() + additions.cold_index.size();
  if (!log_.may_rescue(slot, images, annotations)) return false;
  for (Node* node : moved) tree_.cache.make_dirty(*node);
  running.cleaned += moved.size();
  return true;
}

// Writes those of the images that seal() assigned to the cold band. If that fails, they get places
// in the hot log like the other images. If the hot log has no room, they keep their old places,
// because they have not changed.
Result<> Committer::write_cold(std::vector<LogImage>& images, Additions& additions,
                               LogPlan& plan) {
  if (!additions.cold) return ok();
  const ColdRoom& room = *additions.cold;
  const auto cold = std::span(images).last(room.blocks);
  if (auto written = log_.write_cold(room, cold); !written) {
    if (!concerns_one_band(written.error())) return written;
    log_.take_back(plan);
    const std::size_t annotations = sealed_frees().size() + additions.cold_index.size();
    const std::size_t pieces = additions.pieces();
    auto other = log_.plan(plan.seq, images.size() + pieces, annotations);
    if (!other) {
      images.resize(images.size() - room.blocks);
      other = plan_again(plan, written.error(), images.size() + pieces, annotations);
    }
    if (!other) return written;
    plan = std::move(*other);
    sizer_.note_less_space();
    return ok();
  }
  const auto index = ColdBands::index_of(room, plan.seq, cold);
  additions.cold_index.insert(additions.cold_index.end(), index.begin(), index.end());
  nodes_cooled_.fetch_add(room.blocks, std::memory_order_relaxed);
  images.resize(images.size() - room.blocks);
  return ok();
}

Result<> Committer::write_sealed(const LogPlan& plan, std::vector<LogImage> images,
                                 Additions& additions) {
  for (std::size_t i = 0; i < additions.pieces(); ++i) {
    const auto piece = additions.checkpoint.span().subspan(i * kBlockBytes).first<kBlockBytes>();
    images.push_back({i, piece.data(), stamp_piece(piece, plan.seq), EntryKind::kCheckpoint});
  }
  std::vector<DescriptorEntry> annotations = std::move(additions.cold_index);
  for (const NodeNo freed : sealed_frees()) {
    annotations.push_back({freed.value, 0, EntryKind::kFreed});
  }
  annotations.insert(annotations.end(), additions.data.begin(), additions.data.end());
  NodeNo next_node;
  {
    ReaderLock lock(tree_.mu);
    next_node = tree_.cache.sealed().next_node;
  }
  TRY(write_somewhere(plan, images, annotations, next_node, additions.is_rescue));
  TRY(device_.flush());
  if (additions.pieces() > 0) checkpoints_.fetch_add(1, std::memory_order_relaxed);
  return ok();
}

// If a band fails, writes the transaction to the next ones, while some exist: free bands, or else
// ones that the volume gives.
Result<> Committer::write_somewhere(const LogPlan& plan, std::span<const LogImage> images,
                                    std::span<const DescriptorEntry> annotations,
                                    NodeNo next_node, bool is_rescue) {
  constexpr int kMaxFailures = 16;
  Result<> written = log_.write(plan, images, annotations, next_node);
  for (int failures = 1; !written && concerns_one_band(written.error()) && failures < kMaxFailures;
       ++failures) {
    const auto other =
        plan_again(plan, written.error(), images.size(), annotations.size(), is_rescue);
    if (!other) {
      log::error("metadata log: no band is left to write to");
      break;
    }
    if (other->flushes_first) TRY(device_.flush());
    written = log_.write(*other, images, annotations, next_node);
    sizer_.note_less_space();
  }
  return written;
}

// Frees the bands that the newest durable transaction does not need.
void Committer::release_passed(bool has_checkpoint) {
  if (!is_record_due(has_checkpoint)) return log_.release();
  if (!needs_rescue_band(device_.capabilities())) log_.release();
  if (auto written = superblock_.write(); !written) {
    log::error("metadata log: a superblock cannot be written: {}", describe(written.error()));
    return;
  }
  log_.release();
  log_.release_cold();
}

// Whether the superblock has to name the newest transaction. An older transaction may need dead
// cold bands, so recovery must not go back to one (L3). On a device that keeps no write pointers
// the same holds for all bands (L7), and recovery searches for the end of the log from the place
// that the superblock names.
bool Committer::is_record_due(bool has_checkpoint) const {
  if (log_.has_dead_cold_bands()) return true;
  return needs_rescue_band(device_.capabilities()) && (has_checkpoint || log_.has_passed_bands());
}

// ---- The sealed transaction: only the committing thread changes it ------------------------------

// The numbers of nodes that the sealed transaction has freed, ascending.
std::vector<NodeNo> Committer::sealed_frees() {
  std::vector<NodeNo> freed;
  std::optional<std::unordered_set<NodeNo>::const_iterator> at;
  for (bool done = false; !done;) {
    ReaderLock lock(tree_.mu);
    const auto& from = tree_.cache.sealed().freed;
    if (!at) at = from.begin();
    for (std::size_t n = 0; n < SharedTree::kNodesPerLock && *at != from.end(); ++n) {
      freed.push_back(*(*at)++);
    }
    done = *at == from.end();
  }
  std::ranges::sort(freed);
  return freed;
}

// Stamps seq and checksum into the sealed images, and returns them. Meanwhile readers use the
// images, but not the bytes that are stamped.
std::vector<LogImage> Committer::stamp_images() {
  std::vector<LogImage> images;
  std::vector<std::byte*> bytes;
  Seq seq;
  for (std::size_t total = 1; bytes.size() < total;) {
    ReaderLock lock(tree_.mu);
    const Changes& sealed = tree_.cache.sealed();
    seq = sealed.seq;
    total = sealed.dirty.size();
    const std::size_t stop = std::min(total, bytes.size() + SharedTree::kNodesPerLock);
    for (std::size_t i = bytes.size(); i < stop; ++i) {
      bytes.push_back(NodeCache::sealed_image_of(*sealed.dirty[i]));
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

void Committer::finish_sealed() {
  std::size_t total = 0, cleaned = 0;
  {
    ReaderLock lock(tree_.mu);
    total = tree_.cache.sealed().dirty.size();
    cleaned = tree_.cache.sealed().cleaned;
    durable_seq_.store(tree_.cache.sealed().seq.value, std::memory_order_release);
  }
  for (std::size_t done = 0; done < total;) {
    WriterLock lock(tree_.mu);
    const std::size_t stop = std::min(total, done + SharedTree::kNodesPerLock);
    tree_.cache.mark_durable(done, stop);
    done = stop;
  }
  Changes finished;  // destroyed without the lock
  {
    WriterLock lock(tree_.mu);
    finished = tree_.cache.end_sealed();
  }
  transactions_.fetch_add(1, std::memory_order_relaxed);
  nodes_written_.fetch_add(total, std::memory_order_relaxed);
  nodes_cleaned_.fetch_add(cleaned, std::memory_order_relaxed);
}

Committer::Figures Committer::figures() const {
  return {.transactions = transactions_.load(std::memory_order_relaxed),
          .checkpoints = checkpoints_.load(std::memory_order_relaxed),
          .nodes_written = nodes_written_.load(std::memory_order_relaxed),
          .nodes_cleaned = nodes_cleaned_.load(std::memory_order_relaxed),
          .nodes_cooled = nodes_cooled_.load(std::memory_order_relaxed),
          .bands_adopted = bands_adopted_.load(std::memory_order_relaxed)};
}

}  // namespace lazyfs::meta
