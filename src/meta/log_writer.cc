#include "meta/log_writer.h"

#include <algorithm>
#include <array>

#include "base/crc32c.h"
#include "base/endian.h"

namespace lazyfs::meta {
namespace {

constexpr std::size_t kPiecesPerAppend = 1000;  // 4 MiB, and below what one vectored write may hold

}  // namespace

Result<> LogWriter::write(const TransactionBytes& transaction) {
  for (std::size_t i = 0; i < transaction.plan.parts.size(); ++i) {
    const PartPlan& part = transaction.plan.parts[i];
    const auto images = transaction.images.subspan(images_done_, part.images);
    encode_part(transaction, i);
    TRY(append_part(part, images));
  }
  return ok();
}

// Fills own_: the header if the band is fresh, the descriptors, the commit record if the part is
// the last.
void LogWriter::encode_part(const TransactionBytes& t, std::size_t index) {
  const PartPlan& part = t.plan.parts[index];
  const Room& room = part.room;
  own_ = AlignedBuffer(std::size_t{part.descriptor_blocks + 2} * kBlockBytes);
  own_used_ = 0;
  stamp_.slot = room.slot;
  if (room.rba == 1) {
    stamp_.rba = 0;
    encode(BandHeader{stamp_, room.band, device_.geometry().blocks_of(room.band)}, next_block());
  }
  std::vector<DescriptorEntry> entries;
  entries.reserve(part.images + part.freed);
  for (std::uint32_t i = 0; i < part.images; ++i) {
    const LogImage& image = t.images[images_done_++];
    entries.push_back({image.node, image.crc, false});
  }
  for (std::uint32_t i = 0; i < part.freed; ++i) {
    entries.push_back({t.freed[freed_done_++], 0, true});
  }
  PartAddress previous = t.previous;
  if (index > 0) {
    const Room& before = t.plan.parts[index - 1].room;
    previous = {before.slot, before.rba, t.plan.seq};
  }
  for (std::uint32_t block = 0; block < part.descriptor_blocks; ++block) {
    stamp_.rba = room.rba + block;
    const std::size_t from = std::size_t{block} * kEntriesPerDescriptor;
    const std::size_t count = std::min(kEntriesPerDescriptor, entries.size() - from);
    const BlockBytes to = next_block();
    const auto first = entries.begin() + static_cast<std::ptrdiff_t>(from);
    encode(Descriptor{.stamp = stamp_,
                      .seq = t.plan.seq,
                      .next_node = t.next_node,
                      .previous = previous,
                      .tail = t.tail,
                      .part = static_cast<std::uint32_t>(index),
                      .descriptor_blocks = part.descriptor_blocks,
                      .block = block,
                      .images = part.images,
                      .entries = {first, first + static_cast<std::ptrdiff_t>(count)}},
           to);
    std::array<std::byte, 4> crc;
    store_le(crc, stored_crc(to));
    descriptors_crc_ = crc32c(crc, descriptors_crc_);
  }
  if (part.is_last) {
    stamp_.rba = room.rba + room.blocks - 1;
    encode(CommitRecord{stamp_, t.plan.seq, room.rba,
                        static_cast<std::uint32_t>(t.plan.parts.size()), descriptors_crc_},
           next_block());
  }
}

Result<> LogWriter::append_part(const PartPlan& part, std::span<const LogImage> images) {
  const std::size_t front = own_used_ - (part.is_last ? 1 : 0);
  at_ = {part.room.band, part.room.rba == 1 ? 0 : part.room.rba};
  pieces_.assign(1, own_.span().first(front * kBlockBytes));
  for (const LogImage& image : images) {
    pieces_.push_back({image.bytes, kBlockBytes});
    if (pieces_.size() == kPiecesPerAppend) TRY(append_pieces());
  }
  if (part.is_last) pieces_.push_back(own_.span().subspan(front * kBlockBytes, kBlockBytes));
  return append_pieces();
}

Result<> LogWriter::append_pieces() {
  const auto blocks = static_cast<std::uint32_t>(device::bytes_of(pieces_) / kBlockBytes);
  if (blocks > 0) TRY(device_.append(at_, pieces_));
  at_.rba += blocks;
  blocks_written_ += blocks;
  pieces_.clear();
  return ok();
}

}  // namespace lazyfs::meta
