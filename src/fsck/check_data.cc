// The contents: reads every live block and compares its checksum. Blocks that several files share
// are read once.
#include <algorithm>

#include "base/crc32c.h"
#include "base/large_pages.h"
#include "fsck/passes.h"
#include "fsck/path.h"

namespace lazyfs::fsck {
namespace {

class DataPass {
 public:
  explicit DataPass(Context& context) : c_(context) {}

  void finish() { name_shared(); }
  void item(const meta::Item& item) {
    if (item.key.kind != static_cast<std::uint8_t>(Kind::kExtent)) return;
    const auto extent = decode_extent(item.value);
    if (!extent) return;  // reported before
    const BandFacts* band = c_.band(extent->at.band);
    const std::uint64_t end = std::uint64_t{extent->at.rba} + extent->blocks();
    if (!band || end > band->blocks || end > band->device.write_pointer) return;  // reported before
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
    c_.progress("data", {c_.report.verified_blocks, c_.report.live_blocks});
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
    report_block(inode, file_block, at, why);
  }

  void report_block(InodeNo inode, std::uint64_t file_block, BandAddress at, std::string_view why) {
    if (inode != last_inode_) path_ = find_path(inode);
    last_inode_ = inode;
    c_.problem("Inode {} ({}), byte {}: the block (band {}, block {}) cannot be read: {}",
               inode.value, path_, file_block * kBlockBytes, at.band.value, at.rba, why);
  }

  std::string find_path(InodeNo inode) {
    if (++paths_ > kMaxPaths) return "path not looked up";
    std::string path = path_of(c_, inode);
    return path.empty() ? "without a name" : path;
  }

  // Reports bad blocks of shared-extent inodes under each file that refers to them. One walk
  // reports many blocks.
  void name_shared() {
    if (shared_.empty()) return;
    std::ranges::sort(shared_, {}, &Shared::place);
    c_.visit(kFirstKey, kLastInodeKey, "",
             [&](const meta::Item& item) { referring(item); });
    for (const Shared& bad : shared_) {
      if (!bad.is_named) report_block(bad.inode, bad.block, bad.at, bad.why);
    }
    shared_.clear();
  }

  void referring(const meta::Item& item) {
    const auto reference = reference_of(item);
    if (!reference) return;
    const std::pair from(reference->shared, reference->block);
    auto bad = std::ranges::lower_bound(shared_, from, {}, &Shared::place);
    for (; bad != shared_.end() && bad->inode == reference->shared; ++bad) {
      const std::uint64_t skip = bad->block - reference->block;
      if (skip >= reference->count) return;
      bad->is_named = true;
      report_block(InodeNo{item.key.owner}, item.key.offset + skip, bad->at, bad->why);
    }
  }

  static constexpr std::size_t kMaxHeldBlocks = 65536;
  static constexpr std::uint64_t kMaxPaths = 1000;  // each takes reading whole directories
  struct Shared {
    InodeNo inode;
    std::uint64_t block = 0;
    BandAddress at;
    std::string_view why;  // of describe(): static
    bool is_named = false;
    std::pair<InodeNo, std::uint64_t> place() const { return {inode, block}; }
  };

  Context& c_;
  std::vector<Shared> shared_;
  InodeNo last_inode_;  // the inode of the last report
  std::string path_;    // its path
  std::uint64_t paths_ = 0;
  LargePages buffer_{kLargePageBytes};
  static_assert(kLargePageBytes >= std::size_t{kMaxExtentBlocks} * kBlockBytes);
};

}  // namespace

void check_data(Context& c) {
  DataPass pass(c);
  c.visit(kFirstKey, kLastInodeKey, "",
          [&](const meta::Item& item) { pass.item(item); });
  pass.finish();
  c.progress_now("data", {c.report.verified_blocks, c.report.live_blocks});
}

}  // namespace lazyfs::fsck
