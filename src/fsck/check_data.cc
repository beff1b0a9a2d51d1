// The contents: reads every live block and compares its checksum. Blocks that several files share
// are read once.
#include <algorithm>

#include "base/buffer.h"
#include "base/crc32c.h"
#include "fsck/check_context.h"

namespace lazyfs::fsck {
namespace {

class DataPass {
 public:
  explicit DataPass(CheckContext& context)
      : c_(context), buffer_(std::size_t{kMaxExtentBlocks} * kBlockBytes) {}

  void finish() { name_shared(); }
  void item(const meta::Item& item) {
    if (item.key.kind != static_cast<std::uint8_t>(Kind::kExtent)) return;
    const auto extent = decode_extent(item.value);
    if (!extent) return;  // reported before
    const BandFacts* band = c_.band(extent->at.band);
    const std::uint64_t end = std::uint64_t{extent->at.rba} + extent->blocks();
    if (!band || end > band->blocks || end > band->device.write_pointer) return;  // likewise
    verify(InodeNo{item.key.owner}, item.key.offset, *extent);
  }

 private:
  void verify(InodeNo inode, std::uint64_t file_block, const ExtentRecord& extent) {
    const auto bytes = buffer_.span().first(std::size_t{extent.blocks()} * kBlockBytes);
    if (c_.device.read(extent.at, bytes)) {
      for (std::uint32_t i = 0; i < extent.blocks(); ++i) {
        compare(inode, file_block + i, extent, i,
                bytes.subspan(std::size_t{i} * kBlockBytes, kBlockBytes));
      }
    } else {
      one_by_one(inode, file_block, extent);
    }
    c_.report.verified_blocks += extent.blocks();
    c_.progress("data", c_.report.verified_blocks);
  }

  void one_by_one(InodeNo inode, std::uint64_t file_block, const ExtentRecord& extent) {
    const auto bytes = buffer_.span().first(kBlockBytes);
    for (std::uint32_t i = 0; i < extent.blocks(); ++i) {
      const auto read = c_.device.read({extent.at.band, extent.at.rba + i}, bytes);
      if (read) {
        compare(inode, file_block + i, extent, i, bytes);
      } else {
        report(inode, file_block + i, {extent.at.band, extent.at.rba + i}, describe(read.error()));
      }
    }
  }

  void compare(InodeNo inode, std::uint64_t file_block, const ExtentRecord& extent, std::uint32_t i,
               std::span<const std::byte> bytes) {
    if (crc32c(bytes) == extent.crcs[i]) return;
    report(inode, file_block, {extent.at.band, extent.at.rba + i},
           describe(Errc::kDataChecksumBad));
  }

  void report(InodeNo inode, std::uint64_t file_block, BandAddress at, std::string_view why) {
    const InodeFacts* facts = c_.find_inode(inode);
    if (facts && facts->type == kSharedType) {
      shared_.push_back({inode, file_block, at, why, false});
      if (shared_.size() >= kMaxHeldBlocks) name_shared();
      return;
    }
    tell(inode, file_block, at, why);
  }

  void tell(InodeNo inode, std::uint64_t file_block, BandAddress at, std::string_view why) {
    if (inode != told_) path_ = path_of(c_, inode);
    told_ = inode;
    c_.problem("Inode {} ({}), byte {}: the block (band {}, block {}) cannot be read: {}.",
               inode.value, path_.empty() ? "without a name" : path_, file_block * kBlockBytes,
               at.band.value, at.rba, why);
  }

  // Bad blocks of shared inodes are named by each file that refers to them: one walk for many.
  void name_shared() {
    if (shared_.empty()) return;
    std::ranges::sort(shared_, {}, &Shared::place);
    c_.visit(kFirstKey, {kVolumeOwner - 1, 255, meta::kMaxOffset}, "",
             [&](const meta::Item& item) { referring(item); });
    for (const Shared& bad : shared_) {
      if (!bad.is_named) tell(bad.inode, bad.block, bad.at, bad.why);
    }
    shared_.clear();
  }

  void referring(const meta::Item& item) {
    if (item.key.kind != static_cast<std::uint8_t>(Kind::kExtent)) return;
    const auto record = decode_map_record(item.value);
    const auto* reference = record ? std::get_if<ReferenceRecord>(&*record) : nullptr;
    if (!reference) return;
    const std::pair from(reference->shared, reference->block);
    auto bad = std::ranges::lower_bound(shared_, from, {}, &Shared::place);
    for (; bad != shared_.end() && bad->inode == reference->shared; ++bad) {
      const std::uint64_t skip = bad->block - reference->block;
      if (skip >= reference->count) return;
      bad->is_named = true;
      tell(InodeNo{item.key.owner}, item.key.offset + skip, bad->at, bad->why);
    }
  }

  static constexpr std::size_t kMaxHeldBlocks = 65536;
  struct Shared {
    InodeNo inode;
    std::uint64_t block = 0;
    BandAddress at;
    std::string_view why;  // lives for ever
    bool is_named = false;
    std::pair<InodeNo, std::uint64_t> place() const { return {inode, block}; }
  };

  CheckContext& c_;
  std::vector<Shared> shared_;
  InodeNo told_;      // the one that was named last ...
  std::string path_;  // ... and its path: to find one may take reading large directories
  AlignedBuffer buffer_;
};

}  // namespace

void check_data(CheckContext& c) {
  DataPass pass(c);
  c.visit(kFirstKey, {kVolumeOwner - 1, 255, meta::kMaxOffset}, "",
          [&](const meta::Item& item) { pass.item(item); });
  pass.finish();
  c.progress("data", c.report.verified_blocks, true);
}

}  // namespace lazyfs::fsck
