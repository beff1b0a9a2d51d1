#include "meta/store/cleaner.h"

#include <algorithm>

#include "base/crc32c.h"
#include "meta/log/checkpoint_format.h"
#include "meta/log/second_read.h"

namespace lazyfs::meta {
namespace {

constexpr std::uint64_t kAnnotationsOfBlock = 3;  // at most, for each block of an adopted band
// Index entries repeated in one transaction.
constexpr std::size_t kIndexedAtOnce = std::size_t{64} * 247;

}  // namespace

bool Cleaner::is_due() const { return is_wanted() && !is_blocked(); }

bool Cleaner::is_wanted() const {
  if (sizer_.wanted(SpaceDemand::kOrdinary) == SizeChange::kCleanFirst) return true;
  const LogSpace space = log_.space();
  ReaderLock lock(tree_.mu);
  return tree_.limits.is_low(tree_.cache.nodes(), space);
}

bool Cleaner::is_blocked() const {
  if (!log_.figures().is_tail_left_out) return false;
  bool has_cold = false;
  {
    ReaderLock lock(tree_.mu);
    has_cold = tree_.limits.has_cold;
  }
  return !log_.choose_victim(false, has_cold);
}

std::uint64_t Cleaner::cycles_at_most() const {
  const std::uint64_t bands = log_.figures().bands;
  ReaderLock lock(tree_.mu);
  return tree_.limits.capacity / tree_.limits.clean_batch + 4 * bands;
}

Additions Cleaner::gather(std::optional<CleanChoice> victim) {
  std::size_t batch = 0;
  bool may_adopt = false, has_cold = false;
  {
    ReaderLock lock(tree_.mu);
    const LogLimits limits = tree_.limits;
    batch = limits.clean_batch;
    const Changes& running = tree_.cache.running();
    const std::uint64_t annotations = running.freed.size() + kAnnotationsOfBlock * limits.band;
    has_cold = limits.has_cold;
    may_adopt =
        has_cold && limits.admits(limits.cost(running.dirty.size(), annotations), log_.space());
  }
  Additions gathered;
  gathered.victim = victim ? victim : log_.choose_victim(may_adopt, has_cold);
  if (must_rescue(gathered.victim)) {
    batch = SIZE_MAX;
    gathered.victim = log_.choose_rescue();
    gathered.is_rescue = gathered.victim.has_value();
  }
  if (!gathered.victim || gathered.victim->kind == CleanChoice::Kind::kAdopt) return gathered;
  const bool all_read = gather_nodes(batch, gathered);
  gathered.is_stuck =
      !all_read && (gathered.is_rescue || (gathered.nodes.empty() && gathered.damaged.empty()));
  return gathered;
}

// False: some of the nodes cannot be read.
bool Cleaner::gather_nodes(std::size_t max, Additions& to) {
  bool all_read = true;
  for (const NodeNo node : log_.live_of(to.victim->slot, max)) {
    if (auto pin = loader_.load_twice(node); pin) {
      to.nodes.push_back(std::move(*pin));
    } else {
      all_read &= gather_damaged(node, to);
    }
  }
  return all_read;
}

// Whether the next batch of the victim's nodes does not fit. That happens after a crash, on a
// device that keeps no write pointers: the rest of the head band is lost.
bool Cleaner::must_rescue(const std::optional<CleanChoice>& victim) const {
  if (!needs_rescue_band(device_.capabilities())) return false;
  const LogSpace space = log_.space();
  if (!victim) return space.available == 0;
  ReaderLock lock(tree_.mu);
  const LogLimits limits = tree_.limits;
  const Changes& running = tree_.cache.running();
  const bool adopts = victim->kind == CleanChoice::Kind::kAdopt;
  const std::uint64_t batch =
      adopts ? 0 : log_.live_of(victim->slot, limits.clean_batch).size();
  const std::uint64_t dirty = running.dirty.size();
  const std::uint64_t freed =
      running.freed.size() + (adopts ? kAnnotationsOfBlock * limits.band : 0);
  const bool fits = limits.cost(dirty + batch, freed) <= space.available;
  const bool fits_cold =
      space.cold_room > 0 && limits.cost(dirty, freed + batch + 2) <= space.available;
  return !fits && !fits_cold;
}

// A node that fails validation is copied verbatim so that it cannot pin the log tail. The copy
// still fails validation, because the seq in it is not that of its transaction, and repair can
// still read it. False: the device cannot read the block, or two reads give different bytes. A
// later read may be right, so the node stays.
bool Cleaner::gather_damaged(NodeNo node, Additions& to) {
  const auto place = log_.find(node);
  if (!place) return true;
  AlignedBuffer bytes(kBlockBytes), again(kBlockBytes);
  if (!device_.read(place->address, bytes.span())) return false;
  const auto image = bytes.span().first<kBlockBytes>();
  const bool was_read_wrong = validate_node(image, node, place->seq, tree_.fs_tag).has_value();
  if (was_read_wrong) return true;
  if (!read_again(device_, place->address, again.span())) return false;
  if (!std::ranges::equal(bytes.span(), again.span())) return false;
  const LogImage copy{node.value, bytes.data(), crc32c(image.subspan(8))};
  to.damaged.push_back({copy, *place, std::move(bytes)});
  return true;
}

Additions Cleaner::add_cold_index(Additions gathered) {
  if (gathered.is_stuck) {
    if (log_.leave_out(gathered.victim->slot)) sizer_.note_less_space();
    if (gathered.is_rescue) {
      Additions nothing;
      nothing.is_stuck = true;
      return nothing;
    }
  }
  if (!gathered.victim || !gathered.victim->is_oldest_hot) return gathered;
  const std::uint64_t slot = gathered.victim->slot;
  const bool adopts = gathered.victim->kind == CleanChoice::Kind::kAdopt;
  if (adopts) {
    gathered.cold_index = log_.index_for_adoption(slot);
    if (gathered.cold_index.empty()) return gathered;
  }
  const bool is_whole = adopts || gathered.is_rescue;
  const auto again = log_.index_again(slot, is_whole ? SIZE_MAX : kIndexedAtOnce);
  gathered.cold_index.insert(gathered.cold_index.end(), again.begin(), again.end());
  return gathered;
}

bool Cleaner::checkpoint_is_due() const {
  const Log::Figures log = log_.figures();
  const std::uint64_t wanted = options_.checkpoint_bytes / kBlockBytes;
  ReaderLock lock(tree_.mu);
  const LogLimits limits = tree_.limits;
  const Changes& running = tree_.cache.running();
  const std::uint64_t images = running.dirty.size() + log.checkpoint_pieces;
  const bool has_room = limits.admits(limits.cost(images, running.freed.size()), log.space);
  return has_room &&
         log.after_checkpoint >= limits.checkpoint_interval(log.checkpoint_pieces, wanted);
}

Additions Cleaner::take_checkpoint() const {
  Additions additions;
  additions.checkpoint = encode(log_.checkpoint(), tree_.fs_tag);
  return additions;
}

}  // namespace lazyfs::meta
