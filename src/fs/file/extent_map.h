// The map from file blocks to bands, and the bookkeeping that every change of it brings: append and
// delete records and the counters of bands. One MapChange is part of one batch.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/result.h"
#include "data/appender.h"
#include "data/band_table.h"
#include "fs/item/schema.h"
#include "meta/store/store.h"

namespace lazyfs::fs {

struct MappedExtent {
  std::uint64_t file_block = 0;
  ExtentRecord extent;
  std::uint64_t end() const { return file_block + extent.blocks(); }
};

// An extent or a reference.
struct MapEntry {
  std::uint64_t file_block = 0;
  MapRecord record;
  std::uint32_t blocks() const { return blocks_of(record); }
  std::uint64_t end() const { return file_block + blocks(); }
};

// The part of `extent` from `skip` blocks on, `blocks` long.
MappedExtent part_of(const MappedExtent& extent, std::uint32_t skip, std::uint32_t blocks);
MapEntry part_of(const MapEntry& entry, std::uint32_t skip, std::uint32_t blocks);

// What maps blocks of [first, first + count), in order, clipped to it when `clip`.
// Errors: kItemBad, also when extents overlap, and what reading the tree can give.
Result<std::vector<MapEntry>> read_map(meta::Store& store, InodeNo inode, std::uint64_t first,
                                       std::uint64_t count, bool clip = true);
// The extents among it: what is the inode's own. (What references lead to:
// fs/file/shared_extents.h.)
Result<std::vector<MappedExtent>> read_extents(meta::Store& store, InodeNo inode,
                                               std::uint64_t first, std::uint64_t count);

// How many blocks of [first, first + count) are mapped. Errors as above.
Result<std::uint64_t> count_mapped(meta::Store& store, InodeNo inode, std::uint64_t first,
                                   std::uint64_t count);

// What a batch does to the bands' counters; first into the batch, and once it is applied into
// memory.
class BandChanges {
 public:
  void appended(BandId band, std::uint32_t blocks, std::uint32_t live, std::uint32_t records);
  void died(BandId band, std::uint32_t blocks, std::uint32_t records);
  void put_into(meta::Batch& batch) const;
  void account(data::BandTable& bands) const;
  bool empty() const { return changes_.empty(); }

 private:
  struct Change {
    std::uint32_t appended = 0, live = 0, append_records = 0;
    std::uint32_t died = 0, delete_records = 0;
  };
  std::map<BandId, Change> changes_;
};

class SharedChange;

// Changes of one inode's map. The inode's exclusive lock is held from the first call until the
// batch has been applied, so that nobody else changes the map meanwhile.
class MapChange {
 public:
  // `shared`: of the same batch, told of references that end; null for an inode that has none.
  MapChange(meta::Store& store, InodeNo inode, SharedChange* shared)
      : store_(store), inode_(inode), shared_(shared) {}

  // Takes [first, first + count) out of the map; its blocks die.
  Result<> unmap(std::uint64_t first, std::uint64_t count);
  // Maps newly appended blocks in the place of what was there before. At most kMaxExtentBlocks.
  Result<> map(std::uint64_t file_block, const ExtentRecord& extent);
  // The same for blocks of a shared inode; the caller counts the reference.
  Result<> refer(std::uint64_t file_block, const ReferenceRecord& reference);
  // Takes a whole extent out of the map, or puts one in where nothing is: its blocks become
  // another inode's, with their append record.
  Result<> give_away(const MappedExtent& extent);
  void take_over(const MappedExtent& extent);
  // Newly appended blocks that nothing refers to: dead from the start.
  void lost(BandAddress at, std::uint32_t blocks);

  // How many blocks more (or fewer) the inode maps.
  std::int64_t blocks_delta() const { return blocks_delta_; }
  // Writes everything but the inode's own item.
  void put_into(meta::Batch& batch) const;
  // After the batch was applied.
  void account(data::BandTable& bands) const { band_changes_.account(bands); }

 private:
  Result<> load(std::uint64_t first, std::uint64_t count);
  Result<> die(const MapEntry& piece);
  void put(MapEntry entry);

  meta::Store& store_;
  const InodeNo inode_;
  SharedChange* const shared_;
  std::map<std::uint64_t, MapRecord> before_;  // as in the tree, of what was looked at
  std::map<std::uint64_t, MapRecord> after_;   // as it shall be
  std::vector<std::pair<BandAddress, AppendRecord>> appends_;
  std::vector<std::pair<BandId, DeleteRecord>> deaths_;
  BandChanges band_changes_;
  std::int64_t blocks_delta_ = 0;
};

// Of a lease whose blocks the tree would not take: those that are not recorded are lost, so that
// the band goes on behind them. When not even that can be recorded, the lease sets the band aside.
void lose_unrecorded(meta::Store& store, data::BandTable& bands, data::Lease& lease);

}  // namespace lazyfs::fs
