#include "meta/log/log_reader.h"

#include <array>
#include <functional>

#include "base/crc32c.h"
#include "base/log.h"
#include "base/test_hook.h"
#include "meta/log/second_read.h"

namespace lazyfs::meta {

// ---- Blocks ------------------------------------------------------------------------------------

Result<ConstBlockBytes> BackwardReader::block(BandAddress at, std::uint32_t blocks) {
  const bool inside = at.band == band_ && at.rba >= begin_ && at.rba < end_;
  if (!inside) {
    BandAddress first = at;
    std::uint32_t count = std::clamp(blocks, 1u, kWindowBlocks);
    const bool near = at.band == band_ && at.rba < begin_ && begin_ - at.rba <= kNearBlocks;
    if (near) {
      const std::uint32_t end = std::min(begin_, at.rba + count);
      first.rba = end - std::min(end, kWindowBlocks);
      count = end - first.rba;
    }
    if (auto filled = fill(first, count); !filled) {
      if (count == 1) return fail(filled.error());
      TRY(fill(at, 1));  // the unreadable block may be one that is not needed
    }
  }
  const std::size_t offset = std::size_t{at.rba - begin_} * kBlockBytes;
  return ConstBlockBytes(window_.data() + offset, kBlockBytes);
}

Result<> BackwardReader::fill(BandAddress first, std::uint32_t blocks) {
  band_ = first.band;
  begin_ = end_ = 0;
  const auto to = window_.span().first(std::size_t{blocks} * kBlockBytes);
  TRY(blocks == 1 ? read_twice(device_, first, to) : device_.read(first, to));
  begin_ = first.rba;
  end_ = begin_ + blocks;
  return ok();
}

// ---- Bands -------------------------------------------------------------------------------------

Result<> LogReader::find_bands(std::uint32_t search_blocks) {
  for (const BandId band : superblock_.log_bands) {
    ASSIGN_OR_RETURN(const std::uint32_t write_pointer, device_.write_pointer(band));
    const std::uint32_t end = std::min(write_pointer, std::max(search_blocks, 2u));
    if (write_pointer == 0) continue;
    const auto slot = slot_of(band, end);
    if (!slot) unknown_.push_back({band, 0, write_pointer});
    if (slot && *slot != 0) bands_.push_back({band, *slot, write_pointer});
  }
  std::ranges::sort(bands_, std::greater{}, &FoundBand::slot);
  return ok();
}

// The band's slot according to its header. If the header is damaged: according to a part with a
// descriptor before block `end`. 0: a cold band, whose slot the cold index gives. nullopt: no block
// gives the slot.
std::optional<std::uint64_t> LogReader::slot_of(BandId band, std::uint32_t end) {
  // The second block costs next to nothing.
  const auto header = blocks_.decode_twice({band, 0}, 2, decode_band_header);
  if (header && header->stamp.uuid == superblock_.uuid && header->band == band) {
    return header->is_cold ? 0 : header->stamp.slot;
  }
  bool is_unread = false;
  for (std::uint32_t rba = 0; rba < end; ++rba) {
    const auto slot = slot_at({band, rba}, end - rba);
    if (!slot) {
      is_unread |= slot.error() != Errc::kLogDescriptorBad;
      continue;
    }
    log::warn("log band {}: header is damaged, its place is known by block {}", band.value, rba);
    return *slot;
  }
  if (is_unread) unread_.push_back(band);
  return std::nullopt;
}

// The slot that a descriptor, or a copy of one, gives. Errors: kLogDescriptorBad when the block is
// neither; those of the device.
Result<std::uint64_t> LogReader::slot_at(BandAddress at, std::uint32_t blocks_ahead) {
  ASSIGN_OR_RETURN(const auto block, blocks_.block(at, blocks_ahead));
  for (const auto role : {DescriptorRole::kFront, DescriptorRole::kCopy, DescriptorRole::kCommit}) {
    const auto d = decode_descriptor(role, block);
    if (d && d->stamp.uuid == superblock_.uuid && d->stamp.rba == at.rba) return d->stamp.slot;
  }
  return fail(Errc::kLogDescriptorBad);
}

const FoundBand* LogReader::band_of(std::uint64_t slot) const {
  const auto found = std::ranges::find(bands_, slot, &FoundBand::slot);
  return found == bands_.end() ? nullptr : &*found;
}

void LogReader::believe(const ChainBand& band) {
  const auto found = std::ranges::find(unknown_, band.band, &FoundBand::band);
  if (found == unknown_.end() || band_of(band.slot) != nullptr) return;
  log::warn("log band {}: nothing in it can be read, its place is known by a checkpoint",
            band.band.value);
  bands_.push_back({band.band, band.slot, found->write_pointer});
  unknown_.erase(found);
  std::ranges::sort(bands_, std::greater{}, &FoundBand::slot);
}

// ---- Parts -------------------------------------------------------------------------------------

namespace {

// How many images the entries of a part describe; nullopt when they are not in order.
std::optional<std::size_t> images_of(std::span<const DescriptorEntry> entries) {
  const auto annotations = std::ranges::find_if_not(entries, has_block, &DescriptorEntry::kind);
  const bool in_order = std::none_of(annotations, entries.end(),
                                     [](const DescriptorEntry& e) { return has_block(e.kind); });
  if (!in_order) return std::nullopt;
  return static_cast<std::size_t>(annotations - entries.begin());
}

}  // namespace

bool LogReader::is_believable(const BlockStamp& stamp, Seq seq) const {
  if (stamp.uuid != superblock_.uuid || stamp.session > superblock_.session) return false;
  if (rule_is_disabled(Rule::kDetectStaleSession)) return true;
  const bool before = seq.value <= superblock_.session_start_seq;
  return before == (stamp.session < superblock_.session);
}

bool LogReader::fits(const Descriptor& d, const FoundBand& band, const PartPlace& place,
                     std::uint32_t rba) {
  return d.stamp.slot == band.slot && d.stamp.rba == rba && d.seq == place.address.seq &&
         d.part_blocks() == place.blocks && is_believable(d.stamp, d.seq);
}

Result<Descriptor> LogReader::front(const FoundBand& band, const PartPlace& place,
                                    std::uint32_t block) {
  const std::uint32_t rba = place.address.rba + block;
  const std::uint32_t all = place.blocks / (kEntriesPerDescriptor + 2) + 1;  // or more: annotations
  const std::uint32_t ahead = std::min(all > block ? all - block : 1, place.blocks - block);
  const auto decode = [&](ConstBlockBytes bytes) -> Result<Descriptor> {
    ASSIGN_OR_RETURN(Descriptor d, decode_descriptor(DescriptorRole::kFront, bytes));
    if (!fits(d, band, place, rba) || d.block != block) return fail(Errc::kLogDescriptorBad);
    return d;
  };
  return blocks_.decode_twice({band.band, rba}, ahead, decode);
}

// The copy that lies `from_end` blocks before the part's last block.
Result<Descriptor> LogReader::read_copy(const FoundBand& band, const PartPlace& place,
                                        std::uint32_t from_end) {
  const std::uint32_t rba = place.address.rba + place.blocks - 1 - from_end;
  const auto decode = [&](ConstBlockBytes bytes) -> Result<Descriptor> {
    auto d = decode_descriptor(DescriptorRole::kCopy, bytes);
    if (!d && from_end == 0) d = decode_descriptor(DescriptorRole::kCommit, bytes);
    if (!d || !fits(*d, band, place, rba) || d->descriptors - d->block != from_end + 1) {
      return fail(Errc::kLogDescriptorBad);
    }
    return d;
  };
  return blocks_.decode_twice({band.band, rba}, 1, decode);
}

// The same in the place of a damaged descriptor.
Result<Descriptor> LogReader::copy(const FoundBand& band, const PartPlace& place,
                                   std::uint32_t from_end) {
  auto d = read_copy(band, place, from_end);
  if (!d) return d;
  log::warn("log band {} block {}: a descriptor of transaction {} is damaged; its copy is used",
            band.band.value, place.address.rba + d->block, place.address.seq.value);
  return d;
}

// After a power cut the front of a part may hold a lost part of an earlier session with the same
// seq. Once a later session has begun, only the end of the part distinguishes the two: the
// descriptor of the younger session counts.
bool LogReader::is_outdated(const FoundBand& band, const PartPlace& place,
                            const Descriptor& front) {
  const auto last = read_copy(band, place, 0);
  return last && last->stamp.session > front.stamp.session;
}

Result<Descriptor> LogReader::first_descriptor(const FoundBand& band, const FoundPart& part) {
  const PartPlace& place = part.part.place;
  if (auto d = front(band, place, 0); d && !is_outdated(band, place, *d)) return d;
  ASSIGN_OR_RETURN(Descriptor last, copy(band, place, 0));
  if (last.block == 0) return last;
  auto first = copy(band, place, last.block);
  // A copy may be outdated, like a front descriptor.
  if (first && first->stamp.session != last.stamp.session) return fail(Errc::kLogDescriptorBad);
  return first;
}

// Reads descriptor `block` of the part, which is not the first.
Result<Descriptor> LogReader::descriptor(const FoundBand& band, const FoundPart& part,
                                         std::uint32_t block) {
  const PartPlace& place = part.part.place;
  auto d = front(band, place, block);
  if (!d || d->stamp.session != part.session) {
    d = copy(band, place, part.part.descriptors - 1 - block);
  }
  if (!d) return d;
  const bool same = d->descriptors == part.part.descriptors && d->part == part.index &&
                    d->images == part.images && d->stamp.session == part.session &&
                    d->stamp.version == part.version && d->previous == part.previous &&
                    d->tail == part.tail && d->next_node == part.next_node;
  if (!same) return fail(Errc::kLogDescriptorBad);
  return d;
}

Result<FoundPart> LogReader::part(const PartPlace& place) {
  const FoundBand* band = band_of(place.address.slot);
  if (band == nullptr || place.address.rba == 0 || place.blocks < 2 ||
      std::uint64_t{place.address.rba} + place.blocks > band->write_pointer) {
    return fail(Errc::kLogTailLost);
  }
  FoundPart found;
  found.part.place = place;
  found.part.band = band->band;
  ASSIGN_OR_RETURN(Descriptor first, first_descriptor(*band, found));
  found.part.descriptors = first.descriptors;
  found.session = first.stamp.session;
  found.version = first.stamp.version;
  found.previous = first.previous;
  found.tail = first.tail;
  found.next_node = first.next_node;
  found.index = first.part;
  found.images = first.images;
  auto& entries = found.part.entries;
  entries = std::move(first.entries);
  for (std::uint32_t block = 1; block < first.descriptors; ++block) {
    ASSIGN_OR_RETURN(const Descriptor d, descriptor(*band, found, block));
    entries.insert(entries.end(), d.entries.begin(), d.entries.end());
  }
  const auto history = std::ranges::find(entries, EntryKind::kEarlier, &DescriptorEntry::kind);
  found.history.assign(history, entries.end());
  entries.erase(history, entries.end());
  if (images_of(entries) != found.images) return fail(Errc::kLogDescriptorBad);
  return found;
}

// Checks a transaction of the history as if it had been read: it must lie directly before the next
// newer one, in the same band.
std::vector<FoundPart> LogReader::earlier(const FoundPart& part) const {
  std::vector<FoundPart> all;
  for (std::span<const DescriptorEntry> rest(part.history); !rest.empty();) {
    const FoundPart& newer = all.empty() ? part : all.back();
    const DescriptorEntry& head = rest.front();
    const auto end = std::ranges::find(rest.begin() + 1, rest.end(), EntryKind::kEarlier,
                                       &DescriptorEntry::kind);
    const std::span<const DescriptorEntry> entries(rest.begin() + 1, end);
    const PartPlace place = newer.previous;
    const std::uint64_t slot = part.address().slot;
    const auto images = images_of(entries);
    const auto before = static_cast<std::uint32_t>(head.number);
    const bool makes_sense =
        newer.index == 0 && place.address.slot == slot && place.address.rba == head.crc &&
        place.address.seq.value + 1 == newer.seq().value && images &&
        place.blocks == *images + 2 && head.crc < newer.address().rba && before < head.crc &&
        std::ranges::find(entries, EntryKind::kCheckpoint, &DescriptorEntry::kind) == entries.end();
    if (!makes_sense || place.address.seq.value <= 1) return {};
    FoundPart one;
    one.part = {place, part.part.band, 1, {entries.begin(), entries.end()}};
    one.session = part.session;
    one.version = part.version;
    one.previous = {{slot, before, Seq{place.address.seq.value - 1}},
                    static_cast<std::uint32_t>(head.number >> 32)};
    one.tail = part.tail;
    one.next_node = part.next_node;
    one.images = static_cast<std::uint32_t>(*images);
    all.push_back(std::move(one));
    rest = {end, rest.end()};
  }
  return all;
}

Result<> LogReader::images(const FoundPart& part, std::uint32_t first, std::span<std::byte> to) {
  const std::uint32_t rba = part.address().rba + part.part.descriptors + first;
  return read_twice(device_, {part.part.band, rba}, to);
}

std::uint32_t LogReader::descriptors_crc(const FoundPart& part, std::uint32_t crc) const {
  const PartAddress& address = part.address();
  std::vector<DescriptorEntry> all = part.part.entries;
  all.insert(all.end(), part.history.begin(), part.history.end());
  for (std::uint32_t block = 0; block < part.part.descriptors; ++block) {
    const auto entries = entries_of(all, block);
    const Descriptor d{
        .stamp = {superblock_.uuid, part.session, address.slot, address.rba + block, part.version},
        .seq = address.seq,
        .next_node = part.next_node,
        .previous = part.previous,
        .tail = part.tail,
        .part = part.index,
        .descriptors = part.part.descriptors,
        .block = block,
        .images = part.images,
        .entries = {entries.begin(), entries.end()}};
    std::array<std::byte, kBlockBytes> encoded;
    encode(d, DescriptorRole::kFront, encoded);
    crc = crc32c(std::span(encoded).subspan(4, 4), crc);
  }
  return crc;
}

Result<> LogReader::verify_nodes(const FoundPart& part) {
  constexpr std::uint32_t kWindow = BackwardReader::kWindowBlocks;
  AlignedBuffer buffer(std::size_t{kWindow} * kBlockBytes);
  const auto is_node = [&](std::uint32_t index) {
    return index < part.images && part.part.entries[index].kind == EntryKind::kImage;
  };
  for (std::uint32_t first = 0; first < part.images;) {
    std::uint32_t count = 0;
    while (count < kWindow && is_node(first + count)) ++count;
    if (count == 0) {
      ++first;
      continue;
    }
    TRY(images(part, first, buffer.span().first(std::size_t{count} * kBlockBytes)));
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto image = buffer.span().subspan(std::size_t{i} * kBlockBytes, kBlockBytes);
      TRY(verify_node(part, first + i, image));
    }
    first += count;
  }
  return ok();
}

// `image`: image `index` of the part, as it was read: that of a node.
Result<> LogReader::verify_node(const FoundPart& part, std::uint32_t index,
                                std::span<std::byte> image) {
  const DescriptorEntry& entry = part.part.entries[index];
  const auto is_right = [&] { return crc32c(image.subspan(8)) == entry.crc; };
  if (is_right()) return ok();
  const std::uint32_t rba = part.address().rba + part.part.descriptors + index;
  TRY(read_again(device_, {part.part.band, rba}, image));
  return is_right() ? ok() : fail(Errc::kLogTorn);
}

Result<> LogReader::verify_data(std::span<const FoundPart> transaction) {
  std::vector<DescriptorEntry> runs;
  std::uint64_t blocks = 0;
  for (const FoundPart& part : transaction) {
    for (const DescriptorEntry& entry : part.part.entries) {
      if (entry.kind != EntryKind::kData) continue;
      runs.push_back(entry);
      blocks += entry.blocks;
    }
  }
  if (runs.size() > kMaxUnprovenRuns || blocks > kMaxUnprovenBlocks) return fail(Errc::kLogTorn);
  if (runs.empty()) return ok();
  AlignedBuffer buffer(std::size_t{BackwardReader::kWindowBlocks} * kBlockBytes);
  for (const DescriptorEntry& run : runs) TRY(verify_run(run, buffer.span()));
  return ok();
}

Result<> LogReader::verify_run(const DescriptorEntry& run, std::span<std::byte> buffer) {
  const BandAddress at = BandAddress::unpack(run.number);
  const auto& geometry = device_.geometry();
  const bool exists = geometry.has(at.band) && std::uint64_t{at.rba} + run.blocks <=
                                                   geometry.blocks_of(at.band);
  if (!exists) return fail(Errc::kLogTorn);
  if (crc_of_run(at, run.blocks, buffer) == run.crc) return ok();
  device_.forget_copies(at.band);
  ASSIGN_OR_RETURN(const std::uint32_t crc, crc_of_run(at, run.blocks, buffer));
  return crc == run.crc ? ok() : fail(Errc::kLogTorn);
}

Result<std::uint32_t> LogReader::crc_of_run(BandAddress at, std::uint32_t blocks,
                                            std::span<std::byte> buffer) {
  std::uint32_t crc = 0;
  for (std::uint32_t left = blocks; left > 0;) {
    const auto count =
        std::min(left, static_cast<std::uint32_t>(buffer.size() / kBlockBytes));
    const auto bytes = buffer.first(std::size_t{count} * kBlockBytes);
    TRY(device_.read(at, bytes));
    for (std::size_t offset = 0; offset < bytes.size(); offset += kBlockBytes) {
      crc = add_block_crc(crc, crc32c(bytes.subspan(offset, kBlockBytes)));
    }
    at.rba += count;
    left -= count;
  }
  return crc;
}

}  // namespace lazyfs::meta
