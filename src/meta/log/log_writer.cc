#include "meta/log/log_writer.h"

namespace lazyfs::meta {
namespace {

constexpr std::size_t kPiecesPerAppend = 1000;  // 4 MiB, and below what one vectored write may hold

}  // namespace

Result<> LogWriter::write(const TransactionBytes& transaction) {
  for (std::size_t i = 0; i < transaction.plan.parts.size(); ++i) {
    const PartPlan& part = transaction.plan.parts[i];
    if (i > 0) device_.seal(transaction.plan.parts[i - 1].room.band);
    const auto images = transaction.images.subspan(images_done_, part.images);
    encode_part(transaction, i);
    TRY(append_part(part, images));
  }
  return ok();
}

// Fills own_: the header if the band is fresh, the descriptors, their copies.
void LogWriter::encode_part(const TransactionBytes& t, std::size_t index) {
  const PartPlan& part = t.plan.parts[index];
  const Room& room = part.room;
  own_ = AlignedBuffer(std::size_t{2 * part.descriptors + 1} * kBlockBytes);
  own_used_ = 0;
  stamp_.slot = room.slot;
  if (room.rba == 1) {
    stamp_.rba = 0;
    encode(BandHeader{stamp_, room.band, device_.geometry().blocks_of(room.band)}, next_block());
  }
  std::vector<Descriptor> descriptors = describe_part(t, index);
  for (Descriptor& d : descriptors) {
    d.stamp = stamp_;
    d.stamp.rba = room.rba + d.block;
    const BlockBytes to = next_block();
    encode(d, DescriptorRole::kFront, to);
    descriptors_crc_ = add_block_crc(descriptors_crc_, stored_crc(to));
  }
  for (Descriptor& d : descriptors) {
    const bool is_commit = part.is_last && d.block + 1 == part.descriptors;
    d.stamp.rba += part.descriptors + part.images;
    d.descriptors_crc = descriptors_crc_;
    encode(d, is_commit ? DescriptorRole::kCommit : DescriptorRole::kCopy, next_block());
  }
}

// The part's descriptors without their stamps.
std::vector<Descriptor> LogWriter::describe_part(const TransactionBytes& t, std::size_t index) {
  const PartPlan& part = t.plan.parts[index];
  std::vector<DescriptorEntry> entries;
  entries.reserve(part.images + part.annotations);
  for (std::uint32_t i = 0; i < part.images; ++i) {
    const LogImage& image = t.images[images_done_++];
    entries.push_back({image.number, image.crc, image.kind});
  }
  for (std::uint32_t i = 0; i < part.annotations; ++i) {
    entries.push_back(t.annotations[annotations_done_++]);
  }
  PartPlace previous = t.previous;
  if (index > 0) {
    const Room& before = t.plan.parts[index - 1].room;
    previous = {{before.slot, before.rba, t.plan.seq}, before.blocks};
  }
  if (index == 0) {
    const std::size_t room = part.descriptors * kEntriesPerDescriptor - entries.size();
    const auto earlier = t.history.before(t.plan.seq, part.room.slot, room);
    entries.insert(entries.end(), earlier.begin(), earlier.end());
  }
  std::vector<Descriptor> descriptors;
  for (std::uint32_t block = 0; block < part.descriptors; ++block) {
    const auto own = entries_of(entries, block);
    descriptors.push_back({.stamp = {},
                           .seq = t.plan.seq,
                           .next_node = t.next_node,
                           .previous = previous,
                           .tail = t.tail,
                           .part = static_cast<std::uint32_t>(index),
                           .descriptors = part.descriptors,
                           .block = block,
                           .images = part.images,
                           .entries = {own.begin(), own.end()}});
  }
  return descriptors;
}

Result<> LogWriter::write_cold(const ColdRoom& room, std::span<const LogImage> images) {
  own_ = AlignedBuffer(kBlockBytes);
  at_ = {room.band, room.is_fresh ? 0 : room.rba};
  pieces_.clear();
  if (room.is_fresh) {
    stamp_.slot = room.slot;
    stamp_.rba = 0;
    encode(BandHeader{stamp_, room.band, device_.geometry().blocks_of(room.band), true},
           own_.span().first<kBlockBytes>());
    pieces_.push_back(own_.span());
  }
  for (const LogImage& image : images) {
    pieces_.push_back({image.bytes, kBlockBytes});
    if (pieces_.size() == kPiecesPerAppend) TRY(append_pieces());
  }
  return append_pieces();
}

Result<> LogWriter::append_part(const PartPlan& part, std::span<const LogImage> images) {
  const std::size_t copies = std::size_t{part.descriptors} * kBlockBytes;
  const std::size_t front = own_used_ * kBlockBytes - copies;
  at_ = {part.room.band, part.room.rba == 1 ? 0 : part.room.rba};
  pieces_.assign(1, own_.span().first(front));
  for (const LogImage& image : images) {
    pieces_.push_back({image.bytes, kBlockBytes});
    if (pieces_.size() == kPiecesPerAppend) TRY(append_pieces());
  }
  pieces_.push_back(own_.span().subspan(front, copies));
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
