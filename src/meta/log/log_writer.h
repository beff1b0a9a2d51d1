// Appends one transaction to the log's bands: headers of fresh bands, descriptors, images, and
// copies of the descriptors. The last copy is the commit record.
#pragma once

#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"
#include "device/device.h"
#include "meta/log/history.h"
#include "meta/log/log_format.h"
#include "meta/log/transaction.h"

namespace lazyfs::meta {

struct TransactionBytes {
  const LogPlan& plan;
  std::span<const LogImage> images;
  std::span<const DescriptorEntry> annotations;  // entries without a block
  NodeNo next_node;
  PartPlace previous;  // the part before the first one
  PartAddress tail;
  const History& history;
};

// Not thread-safe; one object writes one transaction.
class LogWriter {
 public:
  // Uses only the uuid and session of `stamp`.
  LogWriter(device::Device& device, BlockStamp stamp) : device_(device), stamp_(stamp) {}

  // Nothing is durable until the caller flushes the device.
  Result<> write(const TransactionBytes& transaction);
  // Appends nodes to a cold band: images only, after the band's header if the band is fresh.
  Result<> write_cold(const ColdRoom& room, std::span<const LogImage> images);
  std::uint64_t blocks_written() const { return blocks_written_; }
  BandId band() const { return at_.band; }  // the one written to last

 private:
  void encode_part(const TransactionBytes& transaction, std::size_t index);
  std::vector<Descriptor> describe_part(const TransactionBytes& transaction, std::size_t index);
  Result<> append_part(const PartPlan& part, std::span<const LogImage> images);
  Result<> append_pieces();
  BlockBytes next_block() {
    return std::span(own_.data() + kBlockBytes * own_used_++, kBlockBytes).first<kBlockBytes>();
  }

  device::Device& device_;
  BlockStamp stamp_;
  std::uint64_t blocks_written_ = 0;
  std::uint32_t descriptors_crc_ = 0;
  // The part being written: its own blocks (header, descriptors, their copies) and what to append.
  AlignedBuffer own_;
  std::size_t own_used_ = 0;
  std::size_t images_done_ = 0, annotations_done_ = 0;
  std::vector<device::Piece> pieces_;
  BandAddress at_;
};

}  // namespace lazyfs::meta
