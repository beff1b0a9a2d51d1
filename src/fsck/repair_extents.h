// Repairs one inode's extents and references, and extents against the bands they lie in.
#pragma once

#include "fs/file/extent_map.h"
#include "fsck/extent_items.h"

namespace lazyfs::fsck {

// Accepted blocks are in BandFacts::live. Two extents never keep the same block: an extent that its
// append record confirms is accepted at once; finish() gives the others the blocks that are left,
// and copies of those that another extent has and they can read.
class ExtentRepair final : public ExtentItems {
 public:
  explicit ExtentRepair(Context& context) : c_(context) {}

  void begin(InodeNo inode, const std::optional<InodeRecord>& record) override;
  void item(const meta::Item& item) override;
  // What the inode maps is counted later: repair_counts.cc.
  ExtentTotals end() const override { return {.maps_first_block = maps_first_block_}; }
  void finish() override;

  // Outside of all that: gives the inode copies of what can be read of an extent of another one.
  void copy(InodeNo inode, const MappedExtent& from, meta::Batch& batch);
  void lost(InodeNo inode, std::uint64_t file_block, std::uint32_t blocks, std::string_view why);

 private:
  struct Doubtful {
    InodeNo inode;
    std::uint64_t file_block = 0;
  };
  std::optional<MapRecord> cut(std::uint64_t file_block, const MapRecord& record);
  bool is_readable(std::uint64_t file_block, const ExtentRecord& extent);
  bool is_confirmed(std::uint64_t file_block, const ExtentRecord& extent);
  bool is_free(const ExtentRecord& extent);
  void accept(const ExtentRecord& extent);
  std::optional<BandAddress> place_for(std::uint32_t blocks);
  bool append_copy(const MappedExtent& run, std::span<const std::byte> bytes, meta::Batch& batch);

  Context& c_;
  InodeNo inode_;
  bool is_shared_ = false;
  std::uint64_t limit_ = 0;      // file blocks that the inode may map
  std::uint64_t mapped_to_ = 0;  // the file block after the last one that stays ...
  std::uint64_t last_block_ = 0;
  MapRecord last_;  // ... of this, which lies at last_block_
  bool maps_first_block_ = false;
  std::vector<Doubtful> doubtful_;
};

}  // namespace lazyfs::fsck
