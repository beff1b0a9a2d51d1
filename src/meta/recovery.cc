#include "meta/recovery.h"

#include <algorithm>
#include <array>

#include "base/buffer.h"
#include "base/crc32c.h"
#include "base/endian.h"
#include "base/log.h"

namespace lazyfs::meta {
namespace {

constexpr std::uint32_t kWindowBlocks = 256;
constexpr std::uint32_t kFirstSearchBlocks = 16;

// Reads blocks for somebody who goes backwards: a read close to the one before takes what lies in
// front of it along.
class BackwardReader {
 public:
  explicit BackwardReader(device::Device& device)
      : device_(device), window_(std::size_t{kWindowBlocks} * kBlockBytes) {}

  // The block; valid until the next call.
  Result<ConstBlockBytes> block(BandAddress at) {
    const bool inside = at.band == band_ && at.rba >= begin_ && at.rba < end_;
    if (!inside) {
      const bool near = at.band == band_ && at.rba < end_ && end_ - at.rba < 2 * kWindowBlocks;
      const std::uint32_t blocks = near ? std::min(kWindowBlocks, at.rba + 1) : 1;
      band_ = at.band;
      begin_ = end_ = 0;
      TRY(device_.read({at.band, at.rba + 1 - blocks},
                       window_.span().first(std::size_t{blocks} * kBlockBytes)));
      end_ = at.rba + 1;
      begin_ = end_ - blocks;
    }
    const std::size_t offset = std::size_t{at.rba - begin_} * kBlockBytes;
    return ConstBlockBytes(window_.data() + offset, kBlockBytes);
  }

 private:
  device::Device& device_;
  AlignedBuffer window_;
  BandId band_{};
  std::uint32_t begin_ = 0, end_ = 0;  // of what window_ holds
};

struct FoundBand {
  BandId band;
  std::uint64_t slot = 0;
  std::uint32_t write_pointer = 0;
};

struct FoundPart {
  RecoveredPart part;
  PartAddress previous, tail;
  NodeNo next_node;
  std::uint32_t index = 0;
  std::uint32_t images = 0;
  std::vector<std::uint32_t> crcs;  // of the descriptor blocks
};

class Recovery {
 public:
  Recovery(device::Device& device, const Superblock& superblock)
      : device_(device), superblock_(superblock), reader_(device) {}

  Result<RecoveredLog> run();

 private:
  Result<> find_bands();
  std::uint64_t slot_of(BandId band);
  bool is_believable(const BlockStamp& stamp, Seq seq) const;
  // A session's superblock is durable before the session writes to the log. So the superblock is
  // not the newest that there was, and what it says of sessions and bands must not be believed.
  bool is_from_the_future(const BlockStamp& stamp) const {
    return stamp.uuid == superblock_.uuid && stamp.session > superblock_.session;
  }
  Result<std::vector<FoundPart>> find_newest();
  void read_what_can_be_read(BandAddress at, AlignedBuffer& to);
  Result<std::vector<FoundPart>> search_band(const FoundBand& band);
  Result<std::vector<FoundPart>> read_transaction(const FoundBand& band,
                                                  const CommitRecord& record);
  Result<FoundPart> read_part(PartAddress at);
  Result<> read_descriptor(const FoundBand& band, std::uint32_t block, FoundPart& part,
                           std::uint32_t& blocks);
  Result<> verify_images(const FoundPart& part);
  Result<> walk_to_tail(std::vector<FoundPart>& parts);
  RecoveredLog assemble(std::vector<FoundPart> parts);
  const FoundBand* band_of(std::uint64_t slot) const {
    const auto found = std::ranges::find(bands_, slot, &FoundBand::slot);
    return found == bands_.end() ? nullptr : &*found;
  }

  device::Device& device_;
  const Superblock& superblock_;
  BackwardReader reader_;
  std::vector<FoundBand> bands_;  // highest slot first
};

Result<> Recovery::find_bands() {
  for (const BandId band : superblock_.log_bands) {
    ASSIGN_OR_RETURN(const std::uint32_t write_pointer, device_.write_pointer(band));
    const std::uint64_t slot = write_pointer > 0 ? slot_of(band) : 0;
    if (slot != 0) bands_.push_back({band, slot, write_pointer});
  }
  std::ranges::sort(bands_, std::greater{}, &FoundBand::slot);
  return ok();
}

// The band's place in the log by its header, or, should that be damaged, by the part behind it. 0:
// none.
std::uint64_t Recovery::slot_of(BandId band) {
  if (const auto block = reader_.block({band, 0}); block) {
    const auto header = decode_band_header(*block);
    if (header && header->stamp.uuid == superblock_.uuid && header->band == band) {
      return header->stamp.slot;
    }
  }
  if (const auto block = reader_.block({band, 1}); block) {
    const auto descriptor = decode_descriptor(*block);
    if (descriptor && descriptor->stamp.uuid == superblock_.uuid && descriptor->stamp.rba == 1) {
      log::warn("log band {}: header is damaged, its place is known by its first part", band.value);
      return descriptor->stamp.slot;
    }
  }
  return 0;
}

// Whether the session that wrote the block can have committed `seq`. Whatever the sessions before
// the present one wrote behind the transaction with which it began was given up then.
bool Recovery::is_believable(const BlockStamp& stamp, Seq seq) const {
  if (stamp.uuid != superblock_.uuid || stamp.session > superblock_.session) return false;
  const bool before = seq.value <= superblock_.session_start_seq;
  return before == (stamp.session < superblock_.session);
}

Result<> Recovery::read_descriptor(const FoundBand& band, std::uint32_t block, FoundPart& part,
                                   std::uint32_t& blocks) {
  const std::uint32_t rba = part.part.address.rba + block;
  ASSIGN_OR_RETURN(const ConstBlockBytes bytes, reader_.block({band.band, rba}));
  ASSIGN_OR_RETURN(const Descriptor d, decode_descriptor(bytes));
  const bool right = d.stamp.slot == band.slot && d.stamp.rba == rba &&
                     d.seq == part.part.address.seq && d.block == block &&
                     is_believable(d.stamp, d.seq);
  if (!right) return fail(Errc::kLogDescriptorBad);
  if (block == 0) {
    const std::uint64_t end = std::uint64_t{rba} + d.descriptor_blocks + d.images;
    if (end > band.write_pointer) return fail(Errc::kLogDescriptorBad);
    blocks = d.descriptor_blocks;
    part.previous = d.previous;
    part.tail = d.tail;
    part.next_node = d.next_node;
    part.index = d.part;
    part.images = d.images;
  } else if (d.descriptor_blocks != blocks || d.part != part.index || d.images != part.images ||
             d.previous != part.previous || d.tail != part.tail) {
    return fail(Errc::kLogDescriptorBad);
  }
  part.crcs.push_back(stored_crc(bytes));
  part.part.entries.insert(part.part.entries.end(), d.entries.begin(), d.entries.end());
  return ok();
}

Result<FoundPart> Recovery::read_part(PartAddress at) {
  const FoundBand* band = band_of(at.slot);
  if (band == nullptr || at.rba == 0 || at.rba >= band->write_pointer) {
    return fail(Errc::kLogTailLost);
  }
  FoundPart found;
  found.part.address = at;
  found.part.band = band->band;
  std::uint32_t blocks = 1;
  for (std::uint32_t i = 0; i < blocks; ++i) TRY(read_descriptor(*band, i, found, blocks));
  found.part.descriptor_blocks = blocks;
  found.part.blocks = blocks + found.images;
  const auto& entries = found.part.entries;
  const auto images = std::ranges::count(entries, false, &DescriptorEntry::freed);
  const bool in_order = std::ranges::is_sorted(entries, {}, &DescriptorEntry::freed);
  if (static_cast<std::uint64_t>(images) != found.images || !in_order) {
    return fail(Errc::kLogDescriptorBad);
  }
  return found;
}

Result<> Recovery::verify_images(const FoundPart& part) {
  AlignedBuffer buffer(std::size_t{kWindowBlocks} * kBlockBytes);
  std::uint32_t rba = part.part.address.rba + part.part.descriptor_blocks;
  for (std::uint32_t done = 0; done < part.images;) {
    const std::uint32_t count = std::min(kWindowBlocks, part.images - done);
    TRY(device_.read({part.part.band, rba}, buffer.span().first(std::size_t{count} * kBlockBytes)));
    for (std::uint32_t i = 0; i < count; ++i, ++done, ++rba) {
      const auto image = buffer.span().subspan(std::size_t{i} * kBlockBytes, kBlockBytes);
      if (crc32c(image.subspan(8)) != part.part.entries[done].crc) return fail(Errc::kLogTorn);
    }
  }
  return ok();
}

// The parts of the transaction that ends with `record`, last part first. It is whole: every
// descriptor is there and right, and every image too unless it is known to have been durable (then
// a damaged image is that node's trouble alone).
Result<std::vector<FoundPart>> Recovery::read_transaction(const FoundBand& band,
                                                          const CommitRecord& record) {
  std::vector<FoundPart> parts;
  PartAddress at{band.slot, record.part_rba, record.seq};
  for (std::uint32_t left = record.parts; left > 0; --left) {
    ASSIGN_OR_RETURN(FoundPart part, read_part(at));
    if (part.index != left - 1) return fail(Errc::kLogTorn);
    at = part.previous;
    if (left > 1 && at.seq != record.seq) return fail(Errc::kLogTorn);
    parts.push_back(std::move(part));
  }
  if (record.stamp.rba != parts.front().part.address.rba + parts.front().part.blocks) {
    return fail(Errc::kLogTorn);
  }
  std::uint32_t crc = 0;
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    for (const std::uint32_t block : part->crcs) {
      std::array<std::byte, 4> bytes;
      store_le(bytes, block);
      crc = crc32c(bytes, crc);
    }
  }
  if (crc != record.descriptors_crc) return fail(Errc::kLogTorn);
  if (record.seq.value > superblock_.durable_seq) {
    for (const FoundPart& part : parts) TRY(verify_images(part));
  }
  return parts;
}

// Blocks that the device does not read become zeros.
void Recovery::read_what_can_be_read(BandAddress at, AlignedBuffer& to) {
  if (device_.read(at, to.span())) return;
  for (std::size_t offset = 0; offset < to.size(); offset += kBlockBytes, ++at.rba) {
    const auto block = to.span().subspan(offset, kBlockBytes);
    if (!device_.read(at, block)) std::ranges::fill(block, std::byte{0});
  }
}

// The newest whole transaction of the band; empty when there is none.
Result<std::vector<FoundPart>> Recovery::search_band(const FoundBand& band) {
  std::uint32_t piece = kFirstSearchBlocks;
  for (std::uint32_t end = band.write_pointer; end > 1;) {
    const std::uint32_t begin = end - std::min(end - 1, piece);
    AlignedBuffer buffer(std::size_t{end - begin} * kBlockBytes);
    read_what_can_be_read({band.band, begin}, buffer);
    for (std::uint32_t rba = end; rba > begin; --rba) {
      const ConstBlockBytes block(buffer.data() + std::size_t{rba - 1 - begin} * kBlockBytes,
                                  kBlockBytes);
      const auto record = decode_commit(block);
      if (record && is_from_the_future(record->stamp)) return fail(Errc::kSuperblockBad);
      if (!record || record->stamp.slot != band.slot || record->stamp.rba != rba - 1 ||
          !is_believable(record->stamp, record->seq)) {
        continue;
      }
      auto parts = read_transaction(band, *record);
      if (parts) return parts;
      log::info("log band {} block {}: transaction {} is not whole: {}", band.band.value, rba - 1,
                record->seq.value, describe(parts.error()));
    }
    end = begin;
    piece = kWindowBlocks;
  }
  return std::vector<FoundPart>{};
}

Result<std::vector<FoundPart>> Recovery::find_newest() {
  for (const FoundBand& band : bands_) {
    ASSIGN_OR_RETURN(std::vector<FoundPart> parts, search_band(band));
    if (parts.empty()) continue;
    if (parts.front().part.address.seq.value < superblock_.durable_seq) break;
    return parts;
  }
  return fail(Errc::kLogTailLost);
}

// Adds the parts before parts.back() down to the newest transaction's tail.
Result<> Recovery::walk_to_tail(std::vector<FoundPart>& parts) {
  const PartAddress tail = parts.front().tail;
  if (tail.seq == parts.front().part.address.seq) return ok();
  while (parts.back().part.address != tail) {
    const FoundPart& from = parts.back();
    const PartAddress here = from.part.address, next = from.previous;
    const std::uint64_t seq = here.seq.value - (from.index == 0 ? 1 : 0);
    const bool backwards = std::pair(next.slot, next.rba) < std::pair(here.slot, here.rba);
    if (next.seq.value != seq || seq == 0 || !backwards) return fail(Errc::kLogTailLost);
    ASSIGN_OR_RETURN(FoundPart part, read_part(next));
    parts.push_back(std::move(part));
  }
  return ok();
}

RecoveredLog Recovery::assemble(std::vector<FoundPart> parts) {
  RecoveredLog found;
  found.seq = parts.front().part.address.seq;
  found.next_node = parts.front().next_node;
  std::ranges::reverse(parts);
  for (FoundPart& part : parts) {
    const std::uint64_t slot = part.part.address.slot;
    if (found.chain.empty() || found.chain.back().slot != slot) {
      found.chain.push_back({slot, part.part.band});
    }
    found.parts.push_back(std::move(part.part));
  }
  for (const BandId band : superblock_.log_bands) {
    const bool used = std::ranges::find(found.chain, band, &ChainBand::band) != found.chain.end();
    if (!used) found.spare.push_back(band);
  }
  found.head_rba = band_of(found.chain.back().slot)->write_pointer;
  return found;
}

Result<RecoveredLog> Recovery::run() {
  TRY(find_bands());
  ASSIGN_OR_RETURN(std::vector<FoundPart> parts, find_newest());
  TRY(walk_to_tail(parts));
  return assemble(std::move(parts));
}

}  // namespace

Result<RecoveredLog> recover_log(device::Device& device, const Superblock& superblock) {
  return Recovery(device, superblock).run();
}

}  // namespace lazyfs::meta
