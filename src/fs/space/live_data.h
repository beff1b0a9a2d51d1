// The garbage collector's port: finds what is live in a band, and maps live blocks to a new place.
#pragma once

#include <vector>

#include "data/band_table.h"
#include "fs/file/map_change.h"
#include "fs/inode/inode.h"
#include "gc/port.h"
#include "meta/store/store.h"

namespace lazyfs::fs {

// Thread-safe. Inode locks are taken for one read or one batch at a time.
class LiveData final : public gc::Port {
 public:
  LiveData(meta::Store& store, InodeTable& inodes, data::BandTable& bands)
      : store_(store), inodes_(inodes), bands_(bands) {}

  Visit visit_live(BandId band, std::uint32_t from_rba, std::size_t at_least) override;
  Result<std::optional<AppendUse>> last_append_before(BandId band, std::uint32_t rba) override;
  Result<> remap_if_unchanged(const gc::LiveRun& run, BandAddress to) override;
  void record_lost(data::Lease& lease) override { lose_unrecorded(store_, bands_, lease); }
  Result<> make_durable() override { return store_.commit(); }
  bool has_failed() override { return store_.failed(); }
  Result<> erase_log(BandId band) override;
  Result<std::optional<LogTail>> log_tail(BandId band, std::uint32_t from_rba,
                                          std::size_t at_most) override;
  Result<> erase_log_tail(BandId band, std::uint32_t from_rba, std::uint32_t blocks,
                          const LogTail& tail) override;

 private:
  Result<std::vector<gc::LiveRun>> live_runs(BandId band, const meta::Item& append_item);
  Result<std::vector<MappedExtent>> extents_of(const AppendRecord& record);
  Result<> remap_once(const gc::LiveRun& run, BandAddress to);
  Result<> remap(const gc::LiveRun& run, BandAddress to, bool owner_exists);

  meta::Store& store_;
  InodeTable& inodes_;
  data::BandTable& bands_;
};

}  // namespace lazyfs::fs
