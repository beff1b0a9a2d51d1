#include "meta/log/recovery.h"

#include <algorithm>
#include <limits>
#include <map>

#include "base/crc32c.h"
#include "base/log.h"
#include "base/test_hook.h"
#include "meta/log/checkpoint_format.h"
#include "meta/log/log_end.h"
#include "meta/log/log_reader.h"
#include "meta/log/second_read.h"
#include "meta/log/superblock_format.h"

namespace lazyfs::meta {
namespace {

constexpr std::uint32_t kFirstPieceBlocks = 16, kLaterPieceBlocks = 256;
// Of transactions, or of nodes. No honest log reaches it, and counting up from it cannot overflow.
constexpr std::uint64_t kMostEver = std::uint64_t{1} << 62;

class Recovery {
 public:
  // `search_blocks`: see LogReader::find_bands(). `believes_checkpoint`: takes from it the slots of
  // bands in which nothing can be read.
  Recovery(device::Device& device, const Superblock& superblock, std::uint32_t search_blocks,
           bool believes_checkpoint = false)
      : device_(device),
        superblock_(superblock),
        search_blocks_(search_blocks),
        believes_checkpoint_(believes_checkpoint),
        log_(device, superblock),
        end_(device, superblock, log_) {}

  Result<RecoveredLog> run();

 private:
  using Parts = std::vector<FoundPart>;  // newest first

  // A session's superblock is durable before the session writes to the log. So a newer superblock
  // is lost, and the sessions and bands that this one names must not be trusted.
  bool is_from_the_future(const BlockStamp& stamp) const {
    return stamp.uuid == superblock_.uuid && stamp.session > superblock_.session;
  }
  bool may_be_newest(const Descriptor& commit) const;
  bool is_known_durable(Seq seq) const;
  Result<Parts> find_newest();
  std::optional<BandAddress> read_what_can_be_read(BandAddress at, AlignedBuffer& to);
  void note_unread(const FoundBand& band, const std::optional<BandAddress>& at);
  LogLoss loss_of(const RecoveredLog& found) const;
  Result<Parts> search_band(const FoundBand& band);
  Result<Parts> search_twice(const FoundBand& band, std::uint32_t begin, std::uint32_t end);
  Result<Parts> search_piece(const FoundBand& band, std::uint32_t begin,
                             std::span<const std::byte> blocks);
  Result<Parts> read_committed(const FoundBand& band, const Descriptor& commit);
  Result<Parts> read_transaction(const PartPlace& last);
  void suspect(const FoundBand& band, const Descriptor& d, std::uint64_t rba);
  Result<> walk_back(Parts& parts);
  std::optional<MapCheckpoint> checkpoint_of(const Parts& parts);
  Result<MapCheckpoint> read_checkpoint(std::span<const FoundPart> transaction);
  bool fit(MapCheckpoint& checkpoint, const PartAddress& tail, const FoundPart& carrier);
  RecoveredLog assemble(Parts parts);

  device::Device& device_;
  const Superblock& superblock_;
  const std::uint32_t search_blocks_;
  const bool believes_checkpoint_;
  LogReader log_;
  LogEnd end_;
  Seq begun_;  // newest transaction of which the search found a descriptor
  PartPlace before_begun_;  // the last part of the one before begun_; seq 0: not known
  std::vector<PartPlace> suspects_;      // last parts of transactions that look torn, newest first
  std::optional<MapCheckpoint> checkpoint_;  // when the walk has found one
  std::map<std::uint64_t, BandAddress> unread_;  // by slot: the last block that cannot be read
  Seq unverified_;                               // see LogLoss
};

// Whether a transaction may have been durable although a read of it failed with this error. A power
// cut that tears a transaction leaves other errors: wrong bytes, or a place past the write pointer.
bool was_perhaps_durable(Errc why) {
  return why == Errc::kDeviceRead || why == Errc::kBandOffline;
}

// ---- The newest transaction --------------------------------------------------------------------

// The parts of the transaction whose last part lies at `last`.
Result<Recovery::Parts> Recovery::read_transaction(const PartPlace& last) {
  Parts parts;
  PartPlace at = last;
  for (;;) {
    ASSIGN_OR_RETURN(FoundPart part, log_.part(at));
    const bool follows = parts.empty() || part.index + 1 == parts.back().index;
    if (!follows) return fail(Errc::kLogTorn);
    at = part.previous;
    parts.push_back(std::move(part));
    if (parts.back().index == 0) return parts;
    if (at.address.seq != last.address.seq) return fail(Errc::kLogTorn);
  }
}

// The parts of the transaction that `commit` ends, if the transaction is whole: every descriptor is
// valid, and so are every image and all its data. A transaction that is known to have been durable
// needs valid descriptors only: a damaged block then concerns that node or file alone.
Result<Recovery::Parts> Recovery::read_committed(const FoundBand& band, const Descriptor& commit) {
  const auto blocks = static_cast<std::uint32_t>(commit.part_blocks());
  ASSIGN_OR_RETURN(
      Parts parts,
      read_transaction({{band.slot, commit.stamp.rba + 1 - blocks, commit.seq}, blocks}));
  if (parts.front().index != commit.part) return fail(Errc::kLogTorn);
  std::uint32_t crc = 0;
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    crc = log_.descriptors_crc(*part, crc);
  }
  if (crc != commit.descriptors_crc) return fail(Errc::kLogTorn);
  if (is_known_durable(commit.seq)) return parts;
  if (!rule_is_disabled(Rule::kDetectTornTransaction)) {
    for (const FoundPart& part : parts) TRY(log_.verify_nodes(part));
  }
  if (!rule_is_disabled(Rule::kProveData)) TRY(log_.verify_data(parts));
  return parts;
}

// Nothing of a transaction is written before the one before it is durable.
bool Recovery::is_known_durable(Seq seq) const {
  return seq.value <= superblock_.durable_seq || seq < begun_;
}

// Blocks that the device cannot read become zeros. Returns the last of them.
std::optional<BandAddress> Recovery::read_what_can_be_read(BandAddress at, AlignedBuffer& to) {
  std::optional<BandAddress> unread;
  if (device_.read(at, to.span())) return unread;
  for (std::size_t offset = 0; offset < to.size(); offset += kBlockBytes, ++at.rba) {
    const auto block = to.span().subspan(offset, kBlockBytes);
    if (read_twice(device_, at, block)) continue;
    std::ranges::fill(block, std::byte{0});
    unread = at;
  }
  return unread;
}

void Recovery::note_unread(const FoundBand& band, const std::optional<BandAddress>& at) {
  if (!at) return;
  BandAddress& last = unread_.try_emplace(band.slot, *at).first->second;
  last.rba = std::max(last.rba, at->rba);
}

// Whether the transaction is the one that the superblock says was durable, or a later one. A
// transaction that an earlier session wrote and lost may have the same or a lower seq, and lie
// where nothing was written since.
bool Recovery::may_be_newest(const Descriptor& commit) const {
  const Superblock& s = superblock_;
  if (commit.seq.value != s.durable_seq) return commit.seq.value > s.durable_seq;
  const std::uint64_t end = std::uint64_t{commit.stamp.rba} + 1;
  return commit.stamp.slot == s.head_slot && commit.part_blocks() == s.head_blocks &&
         end == std::uint64_t{s.head_rba} + s.head_blocks;
}

// Remembers what may be the last part of a transaction that was once whole and is damaged now.
void Recovery::suspect(const FoundBand& band, const Descriptor& d, std::uint64_t rba) {
  const PartPlace place{{band.slot, static_cast<std::uint32_t>(rba), d.seq},
                        static_cast<std::uint32_t>(d.part_blocks())};
  if (d.stamp.slot != band.slot || !log_.is_believable(d.stamp, d.seq)) return;
  if (d.seq > begun_) before_begun_ = PartPlace{};
  begun_ = std::max(begun_, d.seq);
  if (d.seq == begun_ && d.part == 0) before_begun_ = d.previous;
  const bool possible = d.seq.value > superblock_.durable_seq &&
                        rba + d.part_blocks() <= band.write_pointer;
  const bool is_known = !suspects_.empty() && suspects_.back() == place;
  if (possible && !is_known) suspects_.push_back(place);
}

// The newest whole transaction of the band; empty when there is none.
Result<Recovery::Parts> Recovery::search_band(const FoundBand& band) {
  std::uint32_t piece = kFirstPieceBlocks;
  std::uint32_t end = end_.search_end(band);
  note_unread(band, end_.unread());
  while (end > 1) {
    const std::uint32_t begin = end - std::min(end - 1, piece);
    ASSIGN_OR_RETURN(Parts parts, search_twice(band, begin, end));
    if (!parts.empty()) return parts;
    end = begin;
    piece = kLaterPieceBlocks;
  }
  return Parts{};
}

// Searches the blocks [begin, end). A block that was read wrong could hide a newer transaction. So
// if the search passes over blocks, it is made again where a second read gives other bytes.
Result<Recovery::Parts> Recovery::search_twice(const FoundBand& band, std::uint32_t begin,
                                               std::uint32_t end) {
  AlignedBuffer first(std::size_t{end - begin} * kBlockBytes), second(first.size());
  read_what_can_be_read({band.band, begin}, first);
  ASSIGN_OR_RETURN(Parts parts, search_piece(band, begin, first.span()));
  const auto end_of = [](const PartPlace& place) { return place.address.rba + place.blocks; };
  if (!parts.empty() && end_of(parts.front().part.place) == end) return parts;
  device_.forget_copies(band.band);
  note_unread(band, read_what_can_be_read({band.band, begin}, second));
  if (std::ranges::equal(first.span(), second.span())) return parts;
  ASSIGN_OR_RETURN(Parts others, search_piece(band, begin, second.span()));
  const bool is_newer =
      !others.empty() && (parts.empty() || others.front().seq() > parts.front().seq());
  return is_newer ? others : parts;
}

// `blocks`: those of the band from block `begin` on.
Result<Recovery::Parts> Recovery::search_piece(const FoundBand& band, std::uint32_t begin,
                                               std::span<const std::byte> blocks) {
  for (std::size_t left = blocks.size() / kBlockBytes; left > 0; --left) {
    const auto block = blocks.subspan((left - 1) * kBlockBytes).first<kBlockBytes>();
    const std::uint32_t rba = begin + static_cast<std::uint32_t>(left) - 1;
    const auto front = decode_descriptor(DescriptorRole::kFront, block);
    if (front && front->stamp.rba == rba && front->block == 0) suspect(band, *front, rba);
    const auto commit = decode_descriptor(DescriptorRole::kCommit, block);
    if (commit && is_from_the_future(commit->stamp)) return fail(Errc::kSuperblockBad);
    if (!commit || commit->stamp.slot != band.slot || commit->stamp.rba != rba ||
        !log_.is_believable(commit->stamp, commit->seq) || !may_be_newest(*commit)) {
      continue;
    }
    auto parts = read_committed(band, *commit);
    if (parts) return parts;
    log::info("log band {} block {}: transaction {} is not whole: {}", band.band.value, rba,
              commit->seq.value, describe(parts.error()));
    if (was_perhaps_durable(parts.error())) unverified_ = std::max(unverified_, commit->seq);
    suspect(band, *commit, std::uint64_t{rba} + 1 - commit->part_blocks());
  }
  return Parts{};
}

// Finds the newest transaction by its commit record. If that is damaged, takes the transaction that
// the superblock says was durable, or the one that a later transaction names, because nothing of
// the later one was written before.
Result<Recovery::Parts> Recovery::find_newest() {
  if (end_.log_is_newer()) return fail(Errc::kSuperblockBad);
  Parts found;
  for (const FoundBand& band : log_.bands()) {
    if (band.slot < superblock_.head_slot) break;
    if (!end_.may_hold_newest(band)) continue;
    ASSIGN_OR_RETURN(found, search_band(band));
    if (!found.empty()) break;
  }
  const Superblock& s = superblock_;
  const PartPlace named{{s.head_slot, s.head_rba, Seq{s.durable_seq}}, s.head_blocks};
  for (const PartPlace& durable : {before_begun_, named}) {
    const Seq seq = durable.address.seq;
    if (found.empty() ? seq < named.address.seq : seq <= found.front().seq()) continue;
    log::warn("metadata log: transaction {} has no commit record any more", seq.value);
    if (auto parts = read_transaction(durable); parts) return parts;
  }
  if (found.empty()) return fail(Errc::kLogTailLost);
  return found;
}

// ---- What lies before it -----------------------------------------------------------------------

// Adds the parts before parts.back(): down to the newest good checkpoint of the map, or to the
// tail. Parts that a history repeats are not read.
Result<> Recovery::walk_back(Parts& parts) {
  const PartAddress tail = parts.front().tail;
  Parts repeated;  // by the history of the part read last; the next one is at the end
  for (;;) {
    const FoundPart& from = parts.back();
    const PartAddress here = from.address(), next = from.previous.address;
    if (from.index == 0) checkpoint_ = checkpoint_of(parts);
    const bool at_tail = here == tail || (from.index == 0 && here.seq == tail.seq);
    if (checkpoint_ || at_tail) return ok();
    const std::uint64_t seq = here.seq.value - (from.index == 0 ? 1 : 0);
    const bool backwards = std::pair(next.slot, next.rba) < std::pair(here.slot, here.rba);
    if (next.seq.value != seq || seq == 0 || !backwards) return fail(Errc::kLogTailLost);
    if (repeated.empty() && from.index == 0) {
      repeated = log_.earlier(from);
      std::ranges::reverse(repeated);
    }
    if (!repeated.empty()) {
      parts.push_back(std::move(repeated.back()));
      repeated.pop_back();
      continue;
    }
    ASSIGN_OR_RETURN(FoundPart part, log_.part(from.previous));
    parts.push_back(std::move(part));
  }
}

// The checkpoint that the last transaction of `parts` carries. nullopt: none, or a damaged one.
std::optional<MapCheckpoint> Recovery::checkpoint_of(const Parts& parts) {
  const Seq seq = parts.back().seq();
  auto begin = parts.end();
  while (begin != parts.begin() && std::prev(begin)->seq() == seq) --begin;
  bool has_one = false;
  for (auto part = begin; part != parts.end(); ++part) {
    has_one |=
        std::ranges::count(part->part.entries, EntryKind::kCheckpoint, &DescriptorEntry::kind) > 0;
  }
  if (!has_one) return std::nullopt;
  auto checkpoint = read_checkpoint(std::span(begin, parts.end()));
  if (!checkpoint) {
    for (auto part = begin; part != parts.end(); ++part) device_.forget_copies(part->part.band);
    checkpoint = read_checkpoint(std::span(begin, parts.end()));
  }
  if (checkpoint && !fit(*checkpoint, parts.front().tail, parts.back())) {
    checkpoint = fail(Errc::kLogCheckpointBad);
  }
  if (checkpoint) return std::move(*checkpoint);
  log::warn("metadata log: the checkpoint of transaction {} cannot be used: {}; reading on",
            seq.value, describe(checkpoint.error()));
  return std::nullopt;
}

// `transaction`: its parts, the last one first.
Result<MapCheckpoint> Recovery::read_checkpoint(std::span<const FoundPart> transaction) {
  std::size_t pieces = 0;
  for (const FoundPart& part : transaction) {
    pieces += static_cast<std::size_t>(
        std::ranges::count(part.part.entries, EntryKind::kCheckpoint, &DescriptorEntry::kind));
  }
  AlignedBuffer bytes(pieces * kBlockBytes);
  std::size_t done = 0;
  for (std::size_t i = transaction.size(); i-- > 0;) {
    const FoundPart& part = transaction[i];
    const auto& entries = part.part.entries;
    const auto first = std::ranges::find(entries, EntryKind::kCheckpoint, &DescriptorEntry::kind);
    const auto before = static_cast<std::uint32_t>(first - entries.begin());
    if (before >= part.images) continue;
    const std::size_t count = part.images - before;
    if (count > pieces - done) return fail(Errc::kLogCheckpointBad);
    const auto to = bytes.span().subspan(done * kBlockBytes, count * kBlockBytes);
    TRY(log_.images(part, before, to));
    // A piece that another transaction of the same seq wrote there, and lost, has another checksum.
    for (std::size_t n = 0; n < count; ++n) {
      const auto piece = to.subspan(n * kBlockBytes, kBlockBytes);
      if (crc32c(piece.subspan(8)) != first[static_cast<std::ptrdiff_t>(n)].crc) {
        return fail(Errc::kLogCheckpointBad);
      }
    }
    done += count;
  }
  if (done != pieces) return fail(Errc::kLogCheckpointBad);
  const Seq seq = transaction.front().seq();
  return decode_checkpoint(bytes.span(), seq, fs_tag_of(superblock_.uuid));
}

// Removes from the checkpoint what the tail has passed since. The rest must agree with the log:
// bands in their slots, and everything before the transaction that carries the checkpoint.
bool Recovery::fit(MapCheckpoint& checkpoint, const PartAddress& tail,
                   const FoundPart& carrier) {
  const auto place = [](const PartAddress& at) { return std::pair(at.slot, at.rba); };
  std::erase_if(checkpoint.chain, [&](const ChainBand& band) { return band.slot < tail.slot; });
  std::size_t parts = 0, nodes = 0;
  while (parts < checkpoint.parts.size() &&
         place(checkpoint.parts[parts].place.address) < place(tail)) {
    nodes += checkpoint.parts[parts++].nodes;
  }
  checkpoint.parts.erase(checkpoint.parts.begin(),
                       checkpoint.parts.begin() + static_cast<std::ptrdiff_t>(parts));
  checkpoint.nodes.erase(checkpoint.nodes.begin(),
                       checkpoint.nodes.begin() + static_cast<std::ptrdiff_t>(nodes));
  if (believes_checkpoint_) {
    for (const ChainBand& band : checkpoint.chain) log_.believe(band);
  }
  const bool bands = std::ranges::all_of(checkpoint.chain, [&](const ChainBand& band) {
    const FoundBand* found = log_.band_of(band.slot);
    return found != nullptr && found->band == band.band && band.slot <= carrier.address().slot;
  });
  const bool in_front = std::ranges::all_of(checkpoint.parts, [&](const MapCheckpoint::Part& part) {
    const FoundBand* band = log_.band_of(part.place.address.slot);
    return band != nullptr && place(part.place.address) < place(carrier.address()) &&
           std::uint64_t{part.place.address.rba} + part.place.blocks <= band->write_pointer;
  });
  const bool known = std::ranges::all_of(checkpoint.nodes, [&](const MapCheckpoint::Live& live) {
    return live.node < carrier.next_node;
  });
  return bands && in_front && known;
}

// ---- Together ----------------------------------------------------------------------------------

// After a clean end the superblock names the newest transaction, so none can be lost unnoticed.
LogLoss Recovery::loss_of(const RecoveredLog& found) const {
  LogLoss loss;
  if (superblock_.ended_cleanly()) return loss;
  loss.newest = found.seq;
  loss.unverified = unverified_;
  loss.begun = begun_;
  const PartPlace& last = found.parts.back().place;
  const std::pair end(last.address.slot, last.address.rba + last.blocks);
  for (const auto& [slot, at] : unread_) {
    if (std::pair(slot, at.rba) >= end) loss.blocks.push_back(at);
  }
  for (const BandId band : log_.unread_bands()) {
    const bool used = std::ranges::find(found.chain, band, &ChainBand::band) != found.chain.end();
    if (!used) loss.bands.push_back(band);
  }
  return loss;
}

RecoveredLog Recovery::assemble(Parts parts) {
  RecoveredLog found;
  found.seq = parts.front().seq();
  // In an honest log the newest part has the highest number.
  for (const FoundPart& part : parts) found.next_node = std::max(found.next_node, part.next_node);
  std::ranges::reverse(parts);
  found.checkpoint = std::move(checkpoint_);
  if (found.checkpoint) found.chain = found.checkpoint->chain;
  for (FoundPart& part : parts) {
    const std::uint64_t slot = part.address().slot;
    if (found.chain.empty() || found.chain.back().slot != slot) {
      found.chain.push_back({slot, part.part.band});
    }
    found.parts.push_back(std::move(part.part));
  }
  for (const BandId band : superblock_.log_bands) {
    const bool used = std::ranges::find(found.chain, band, &ChainBand::band) != found.chain.end();
    if (!used) found.spare.push_back(band);
  }
  const FoundBand& head = *log_.band_of(found.chain.back().slot);
  found.head_rba = end_.append_place(head, found.parts.back().place);
  found.loss = loss_of(found);
  return found;
}

// If the newest transaction is not whole, it was torn, or damaged later. Usually the two cannot be
// distinguished. But if it was durable, bands that its tail had passed may be empty now, and the
// transactions before it cannot be recovered any more. A torn one never has this effect. So if the
// transaction before it is lost, the newest one counts, and only its damaged nodes are lost.
Result<RecoveredLog> Recovery::run() {
  TRY(log_.find_bands(search_blocks_));
  Result<Parts> newest = find_newest();
  if (!newest && newest.error() == Errc::kSuperblockBad) return fail(newest.error());
  Result<> walked = newest ? walk_back(*newest) : fail(newest.error());
  if (walked) return assemble(std::move(*newest));
  for (const PartPlace& place : suspects_) {
    if (newest && place.address.seq <= newest->front().seq()) continue;
    auto parts = read_transaction(place);
    if (!parts || !walk_back(*parts)) continue;
    log::warn("metadata log: transaction {} is damaged, but the one before it is lost: it counts",
              place.address.seq.value);
    return assemble(std::move(*parts));
  }
  return fail(walked.error());
}

// After a crash the log could seem to end before a band whose beginning is damaged, so recovery
// looks for such bands at once. Any part of one descriptor ends within kLookAheadBlocks blocks.
// After a clean end the superblock says where the log ends, so a missed band is noticed.
std::uint32_t search_at_first(const Superblock& superblock) {
  return superblock.ended_cleanly() ? 0 : kLookAheadBlocks;
}

}  // namespace

Result<RecoveredLog> recover_log(device::Device& device, const Superblock& superblock) {
  auto found = Recovery(device, superblock, search_at_first(superblock)).run();
  if (!found && found.error() != Errc::kSuperblockBad) {
    // A device that keeps no write pointers may have many bands without a header, which were never
    // used. They are read whole only if the log cannot be recovered otherwise.
    constexpr std::uint32_t kAll = std::numeric_limits<std::uint32_t>::max();
    found = Recovery(device, superblock, kAll).run();
    // A band in which nothing can be read must cost no more than its nodes. But a band that was
    // reset, and begun again by a torn transaction, looks the same. So this comes last.
    if (!found) found = Recovery(device, superblock, kAll, true).run();
  }
  if (!found) return fail(found.error());
  const bool can_go_on = found->seq.value < kMostEver && found->next_node.value < kMostEver;
  if (!can_go_on) return fail(Errc::kLogTailLost);
  return found;
}

}  // namespace lazyfs::meta
