#include "meta/log/map_rebuild.h"

#include <algorithm>

#include "base/check.h"

namespace lazyfs::meta {
namespace {

constexpr std::uint64_t kMaxSlot = std::uint64_t{1} << 62;  // more sessions than can ever be

}  // namespace

RebuiltMap MapRebuilder::run(const RecoveredLog& found) {
  RebuiltMap rebuilt;
  if (found.checkpoint) read_checkpoint(*found.checkpoint);
  const auto seq_of = [](const RecoveredPart& part) { return part.place.address.seq; };
  for (std::span<const RecoveredPart> rest(found.parts); !rest.empty();) {
    const auto end = std::ranges::find_if(
        rest, [&](const RecoveredPart& part) { return seq_of(part) != seq_of(rest.front()); });
    const auto transaction = rest.first(static_cast<std::size_t>(end - rest.begin()));
    read_transaction(transaction);
    const bool carries_it =
        found.checkpoint && seq_of(rest.front()) == seq_of(found.parts.front());
    for (const RecoveredPart& part : transaction) {
      if (!carries_it) rebuilt.after_checkpoint += part.place.blocks;
    }
    rest = rest.subspan(transaction.size());
  }
  rebuilt.is_sound = finish();
  return rebuilt;
}

void MapRebuilder::read_checkpoint(const MapCheckpoint& checkpoint) {
  auto live = checkpoint.nodes.begin();
  for (const MapCheckpoint::Part& from : checkpoint.parts) {
    const ChainBand* band = chain_.find(from.place.address.slot);
    CHECK(band != nullptr);
    Part& part = map_.add_part(from.place.address, band->band, from.place.blocks);
    for (std::uint32_t i = 0; i < from.nodes; ++i, ++live) {
      map_.assign(live->node, {band->band, live->rba}, part);
    }
  }
  for (const MapCheckpoint::ColdPart& from : checkpoint.cold) {
    ColdIndexCursor cursor;
    const PartAddress& address = from.place.address;
    const LogPlace at = from.indexed_at;
    cold_.read_index({address.slot, from.band.value, EntryKind::kColdBand}, at, cursor);
    cold_.read_index({address.seq.value, address.rba, EntryKind::kColdPart}, at, cursor);
    for (std::uint32_t i = 0; i < from.nodes; ++i, ++live) {
      cold_.read_index({live->node.value, live->rba, EntryKind::kColdNode}, at, cursor);
    }
  }
}

// An index describes the map as it was before its transaction, so it is read first.
void MapRebuilder::read_transaction(std::span<const RecoveredPart> transaction) {
  ColdIndexCursor cursor;
  const LogPlace at = place_of(transaction.front().place.address);
  for (const RecoveredPart& part : transaction) {
    for (const DescriptorEntry& entry : part.entries) cold_.read_index(entry, at, cursor);
  }
  for (const RecoveredPart& part : transaction) read_part(part);
}

void MapRebuilder::read_part(const RecoveredPart& from) {
  Part& part = map_.add_part(from.place.address, from.band, from.place.blocks);
  std::uint32_t rba = from.place.address.rba + from.descriptors;
  for (const DescriptorEntry& entry : from.entries) {
    switch (entry.kind) {
      case EntryKind::kImage: map_.assign(entry.node(), {from.band, rba++}, part); break;
      case EntryKind::kFreed: map_.erase(entry.node()); break;
      case EntryKind::kCheckpoint: ++rba; break;
      case EntryKind::kColdBand:
      case EntryKind::kColdPart:
      case EntryKind::kColdNode:
      case EntryKind::kEarlier:
      case EntryKind::kData: break;
    }
  }
}

// Checks rules that only a hostile log breaks: no cold bands outside of the log, no overlapping
// parts, no parts where the next part will begin.
bool MapRebuilder::finish() {
  cold_.finish_recovery();
  bool is_sound = cold_.is_sound() && !cold_.has_overlaps();
  for (const auto& [slot, cold] : cold_.bands()) {
    map_.make_oldest(cold.band);
    is_sound &= pool_.take_retired(cold.band);  // L2
  }
  const auto& parts = map_.parts();
  for (std::size_t i = 1; i < parts.size(); ++i) is_sound &= is_past(parts[i], parts[i - 1]);
  std::uint64_t highest = cold_.bands().empty() ? 0 : cold_.bands().rbegin()->first;
  if (!chain_.bands().empty()) highest = std::max(highest, chain_.bands().back().slot);
  chain_.raise_next_slot(highest + 1);
  return is_sound && highest < kMaxSlot;
}

}  // namespace lazyfs::meta
