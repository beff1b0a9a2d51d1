// One inode's extents and references, by themselves, and extents against the bands they lie in.
#pragma once

#include "fs/file/extent_map.h"
#include "fsck/repair_context.h"

namespace lazyfs::fsck {

// begin(), then the inode's extents and references in the order of their file blocks, then end();
// finish() when all inodes have gone by. Accepted blocks are in BandFacts::live.
//
// Two extents never keep the same block. An extent that its append record confirms is accepted at
// once; others wait until finish(), and get what is left, or copies of what they can read.
class ExtentRepair {
 public:
  explicit ExtentRepair(RepairContext& context) : c_(context) {}

  void begin(InodeNo inode, const InodeRecord& record);
  void item(const meta::Item& item);
  bool end() const { return maps_first_block_; }  // whether block 0 is mapped
  void finish();

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

  RepairContext& c_;
  InodeNo inode_;
  bool is_shared_ = false;
  std::uint64_t limit_ = 0;      // file blocks that the inode may map
  std::uint64_t mapped_to_ = 0;  // the file block behind the last one that stays ...
  std::uint64_t last_block_ = 0;
  MapRecord last_;  // ... of this, which lies at last_block_
  bool maps_first_block_ = false;
  std::vector<Doubtful> doubtful_;
};

}  // namespace lazyfs::fsck
