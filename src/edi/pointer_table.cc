#include "edi/pointer_table.h"

#include <algorithm>

#include "base/endian.h"
#include "edi/format0.h"
#include "edi/format1.h"

namespace lazyfs::edi {
namespace {

// Format 0: an array after the header. Block i is the i-th 4 KiB of the image, so the first block
// includes the header.
class PlainTable final : public PointerTable {
 public:
  explicit PlainTable(const Header& header) : header_(header), bands_(header.zones.front().count) {}

  Result<std::vector<std::uint32_t>> load(const Backing& backing) override {
    AlignedBuffer bytes(std::size_t{block_count()} * kTableBlockBytes);
    TRY(backing.read(0, bytes.span()));
    std::vector<std::uint32_t> pointers(bands_);
    for (std::uint32_t band = 0; band < bands_; ++band) {
      pointers[band] = load_le_at<std::uint32_t>(bytes.span(), kHeader0Bytes + 4ull * band);
    }
    return pointers;
  }

  std::uint32_t block_of(BandId band) const override {
    return static_cast<std::uint32_t>((kHeader0Bytes + 4ull * band.value) / kTableBlockBytes);
  }
  std::uint32_t block_count() const override { return block_of(BandId{bands_ - 1}) + 1; }
  std::pair<std::uint32_t, std::uint32_t> bands_of(std::uint32_t block) const override {
    return {first_of(block), std::min(first_of(block + 1), bands_)};
  }

  Result<> write(const Backing& backing, std::uint32_t block,
                 std::span<const std::uint32_t> pointers) override {
    auto bytes = AlignedBuffer::zeroed(kTableBlockBytes);
    if (block == 0) encode_header0(header_, bytes.span().first<kHeader0Bytes>());
    std::size_t at = block == 0 ? kHeader0Bytes : 0;
    for (std::uint32_t pointer : pointers) {
      store_le_at<std::uint32_t>(bytes.span(), at, pointer);
      at += 4;
    }
    return backing.write(std::uint64_t{block} * kTableBlockBytes, bytes.span());
  }
  void settle() override {}

 private:
  static std::uint32_t first_of(std::uint32_t block) {
    constexpr std::uint32_t kHeaderSlots = kHeader0Bytes / 4, kPerBlock = kTableBlockBytes / 4;
    return block == 0 ? 0 : block * kPerBlock - kHeaderSlots;
  }

  const Header header_;
  const std::uint32_t bands_;
};

// Format 1: blocks with checksums in two slots. The slot of the newest durable copy is never
// overwritten before the other slot is durable.
class SlottedTable final : public PointerTable {
 public:
  explicit SlottedTable(const Layout& layout)
      : start_(layout.table_start),
        image_(image_id(layout.header.uuid)),
        bands_(layout.geometry.band_count()),
        blocks_(table_blocks(bands_)) {}

  Result<std::vector<std::uint32_t>> load(const Backing& backing) override {
    AlignedBuffer bytes(table_bytes(bands_));
    TRY(backing.read(start_, bytes.span()));
    std::vector<std::uint32_t> pointers(bands_), found(kPointersPerBlock);
    for (std::uint32_t block = 0; block < block_count(); ++block) {
      const auto [first, end] = bands_of(block);
      const auto wanted = std::span(found).first(end - first);
      bool is_found = false;
      for (std::uint32_t slot = 0; slot < kTableSlots; ++slot) {
        const auto from = std::span<const std::byte>(bytes.span())
                              .subspan(place(block, slot) - start_)
                              .first<kTableBlockBytes>();
        const auto sequence = decode_table_block(from, block, image_, wanted);
        if (!sequence) damaged_.push_back(block);
        if (!sequence || (is_found && *sequence < blocks_[block].sequence)) continue;
        is_found = true;
        blocks_[block] = {.sequence = *sequence, .slot = slot};
        std::ranges::copy(wanted, pointers.begin() + first);
      }
      if (!is_found) return fail(Errc::kEdiBadChecksum);
    }
    return pointers;
  }

  std::uint32_t block_of(BandId band) const override { return band.value / kPointersPerBlock; }
  std::uint32_t block_count() const override { return table_blocks(bands_); }
  std::pair<std::uint32_t, std::uint32_t> bands_of(std::uint32_t block) const override {
    return {block * kPointersPerBlock, std::min((block + 1) * kPointersPerBlock, bands_)};
  }

  Result<> write(const Backing& backing, std::uint32_t block,
                 std::span<const std::uint32_t> pointers) override {
    auto& state = blocks_[block];
    AlignedBuffer bytes(kTableBlockBytes);
    encode_table_block({block, ++state.sequence, image_, pointers},
                       bytes.span().first<kTableBlockBytes>());
    state.is_written = true;
    return backing.write(place(block, 1 - state.slot), bytes.span());
  }

  std::vector<std::uint32_t> damaged() const override { return damaged_; }

  void settle() override {
    for (Block& block : blocks_) {
      if (std::exchange(block.is_written, false)) block.slot = 1 - block.slot;
    }
  }

 private:
  struct Block {
    std::uint64_t sequence = 0;  // highest one written so far
    std::uint32_t slot = 0;      // of the newest durable copy
    bool is_written = false;     // the other slot has been written since
  };

  std::uint64_t place(std::uint32_t block, std::uint32_t slot) const {
    return start_ + (std::uint64_t{block} * kTableSlots + slot) * kTableBlockBytes;
  }

  const std::uint64_t start_;
  const std::uint64_t image_;
  const std::uint32_t bands_;
  std::vector<Block> blocks_;
  std::vector<std::uint32_t> damaged_;
};

}  // namespace

std::unique_ptr<PointerTable> make_pointer_table(const Layout& layout) {
  if (layout.header.version == 0) return std::make_unique<PlainTable>(layout.header);
  return std::make_unique<SlottedTable>(layout);
}

Result<> write_empty_table(const Layout& layout, const Backing& backing) {
  const auto table = make_pointer_table(layout);
  const std::vector<std::uint32_t> zeros(kTableBlockBytes / 4);
  for (std::uint32_t pass = 0; pass < kTableSlots; ++pass) {
    for (std::uint32_t block = 0; block < table->block_count(); ++block) {
      const auto [first, end] = table->bands_of(block);
      TRY(table->write(backing, block, std::span(zeros).first(end - first)));
    }
    table->settle();
  }
  return ok();
}

}  // namespace lazyfs::edi
