// Changes of the map from file blocks to bands, with the bookkeeping that each change brings:
// append and delete records, and the bands' counters.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "data/appender.h"
#include "data/band_table.h"
#include "fs/file/extent_map.h"
#include "fs/item/schema.h"
#include "meta/store/store.h"

namespace lazyfs::fs {

// Changes of the bands' counters: first put into a batch, and accounted in memory once the batch
// was applied.
class BandChanges {
 public:
  void appended(BandId band, std::uint32_t blocks, std::uint32_t live, std::uint32_t records);
  void died(BandId band, std::uint32_t blocks, std::uint32_t records);
  void put_into(meta::Batch& batch) const;
  void account(data::BandTable& bands) const;

 private:
  struct Change {
    std::uint32_t appended = 0, live = 0, append_records = 0;
    std::uint32_t died = 0, delete_records = 0;
  };
  std::map<BandId, Change> changes_;
};

// Changes of one inode's map, for one batch. REQUIRES: from the first call until the batch has been
// applied no other thread changes the map (the caller holds the inode's lock exclusively).
class MapChange {
 public:
  MapChange(meta::Store& store, InodeNo inode) : store_(store), inode_(inode) {}

  // Removes [first, first + count) from the map. Blocks of extents die; references end.
  Result<> unmap(std::uint64_t first, std::uint64_t count);
  // Maps newly appended blocks in place of the former ones. At most kMaxExtentBlocks.
  Result<> map(std::uint64_t file_block, const ExtentRecord& extent);
  // Maps blocks of a shared-extent inode in place of the former ones. The caller counts the
  // reference.
  Result<> refer(std::uint64_t file_block, const ReferenceRecord& reference);
  // Removes a whole extent from the map, or adds one where nothing is mapped: its blocks change
  // their owner, together with their append record.
  Result<> give_away(const MappedExtent& extent);
  void take_over(const MappedExtent& extent);
  // Newly appended blocks that no file maps: dead from the start, so that the transaction is
  // written after a flush.
  void lost(BandAddress at, std::uint32_t blocks);

  // How many blocks more (or fewer) the inode maps.
  std::int64_t blocks_delta() const { return blocks_delta_; }
  // The references that have ended since the last call. The caller counts them down in the same
  // batch (SharedChange::remove()).
  std::vector<ReferenceRecord> take_ended_references() { return std::exchange(ended_, {}); }
  // Writes everything but the inode's own item. REQUIRES: all ended references were taken.
  void put_into(meta::Batch& batch) const;
  // REQUIRES: the batch was applied.
  void account(data::BandTable& bands) const { band_changes_.account(bands); }

 private:
  Result<> load(std::uint64_t first, std::uint64_t count);
  void drop(const MapEntry& piece);
  void put(MapEntry entry);

  meta::Store& store_;
  const InodeNo inode_;
  std::map<std::uint64_t, MapRecord> before_;  // the entries that were looked at, as in the tree
  std::map<std::uint64_t, MapRecord> after_;   // the same part of the map after the change
  std::vector<ReferenceRecord> ended_;
  struct Append {
    BandAddress at;
    AppendRecord record;
    std::vector<std::uint32_t> crcs;  // empty: lost()
  };
  std::vector<Append> appends_;
  std::vector<std::pair<BandId, DeleteRecord>> deaths_;
  BandChanges band_changes_;
  std::int64_t blocks_delta_ = 0;
};

// Records blocks of the lease as lost, after recording them for their files has failed. The next
// append to the band then follows them. If this fails too, the lease sets the band aside.
void lose_unrecorded(meta::Store& store, data::BandTable& bands, data::Lease& lease);

}  // namespace lazyfs::fs
