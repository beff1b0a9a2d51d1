#include "meta/log/log_end.h"

#include <algorithm>
#include <utility>

#include "meta/log/log_format.h"
#include "meta/log/log_layout.h"
#include "meta/log/superblock_format.h"

namespace lazyfs::meta {
namespace {

constexpr std::uint32_t kSmallStep = 32;  // blocks that cost less to read than another read does
constexpr std::uint32_t kFewBlocks = 4;

}  // namespace

LogEnd::LogEnd(device::Device& device, const Superblock& superblock, const LogReader& log)
    : superblock_(superblock),
      log_(log),
      keeps_write_pointers_(device.capabilities().keeps_write_pointers),
      blocks_(device),
      read_ahead_(BackwardReader::kWindowBlocks) {}

std::uint64_t LogEnd::durable_end() const {
  return std::uint64_t{superblock_.head_rba} + superblock_.head_blocks;
}

bool LogEnd::log_is_newer() {
  if (keeps_write_pointers_) return false;  // the search finds the blocks of such a session
  const auto& bands = log_.bands();
  if (!bands.empty() && bands.front().slot >= first_slot_of(superblock_.session + 1)) return true;
  const FoundBand* head = log_.band_of(superblock_.head_slot);
  if (head == nullptr || durable_end() >= head->write_pointer) return false;
  const auto next = static_cast<std::uint32_t>(durable_end());
  const auto d = blocks_.decode_twice({head->band, next}, 1, [](ConstBlockBytes block) {
    return decode_descriptor(DescriptorRole::kFront, block);
  });
  return d && d->stamp.uuid == superblock_.uuid && d->stamp.slot == head->slot &&
         d->stamp.rba == next && d->stamp.session > superblock_.session;
}

bool LogEnd::may_hold_newest(const FoundBand& band) const {
  if (keeps_write_pointers_ || superblock_.head_slot == 0) return true;
  if (band.slot == superblock_.head_slot) return true;
  // A session takes slots from its own range. The session that the superblock names began after the
  // named transaction was durable, or wrote that transaction itself.
  return !superblock_.ended_cleanly() && band.slot >= first_slot_of(superblock_.session);
}

std::uint32_t LogEnd::search_end(const FoundBand& band) {
  unread_.reset();
  if (keeps_write_pointers_) return band.write_pointer;
  const bool is_head = band.slot == superblock_.head_slot;
  const std::uint64_t from = is_head ? durable_end() : 1;
  const auto begin = static_cast<std::uint32_t>(std::min<std::uint64_t>(from, band.write_pointer));
  if (is_head && superblock_.ended_cleanly()) return begin;
  // Blocks that were read wrong could seem to be the end. So another walk must find the same end.
  std::uint32_t end = walk(band, begin), known = begin;
  do {
    blocks_.forget(band.band);
    known = std::exchange(end, walk(band, end));
  } while (end > known);
  return end;
}

std::uint32_t LogEnd::append_place(const FoundBand& band, const PartPlace& newest) const {
  if (keeps_write_pointers_ || !superblock_.head_is_open()) return band.write_pointer;
  const PartPlace named{{superblock_.head_slot, superblock_.head_rba, Seq{superblock_.durable_seq}},
                        superblock_.head_blocks};
  if (newest != named || durable_end() > band.write_pointer) return band.write_pointer;
  return static_cast<std::uint32_t>(durable_end());
}

std::uint32_t LogEnd::walk(const FoundBand& band, std::uint32_t from) {
  std::uint32_t end = from;
  read_ahead_ = BackwardReader::kWindowBlocks;
  for (std::uint32_t rba = from; rba < band.write_pointer && rba - end < kLookAheadBlocks;) {
    const std::uint64_t blocks = written_at(band, rba);
    if (blocks > 0) {
      end = static_cast<std::uint32_t>(std::min<std::uint64_t>(rba + blocks, band.write_pointer));
    }
    read_ahead_ = blocks > kSmallStep ? kFewBlocks : BackwardReader::kWindowBlocks;
    rba = std::max(rba + 1, end);
  }
  return end;
}

// The number of blocks written since the band's reset that begin here: a part, or one block. 0:
// none.
std::uint64_t LogEnd::written_at(const FoundBand& band, std::uint32_t rba) {
  const auto block =
      blocks_.block({band.band, rba}, std::min(read_ahead_, band.write_pointer - rba));
  if (!block) {
    unread_ = BandAddress{band.band, rba};
    return 0;
  }
  for (const auto role : {DescriptorRole::kFront, DescriptorRole::kCopy, DescriptorRole::kCommit}) {
    const auto d = decode_descriptor(role, *block);
    if (!d) continue;
    const bool counts = d->stamp.slot == band.slot && d->stamp.rba == rba &&
                        log_.is_believable(d->stamp, d->seq);
    if (!counts) return 0;
    return role == DescriptorRole::kFront && d->block == 0 ? d->part_blocks() : 1;
  }
  const auto seq = seq_of_image(*block, fs_tag_of(superblock_.uuid));
  return seq && seq->value > superblock_.durable_seq ? 1 : 0;
}

}  // namespace lazyfs::meta
