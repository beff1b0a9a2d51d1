// What garbage collection needs of the filesystem whose blocks it moves. fs implements the port
// (fs/space/live_data.h); gc itself knows neither items nor inodes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "data/appender.h"

namespace lazyfs::gc {

// Consecutive live blocks of one owner that one append brought to a band.
struct LiveRun {
  InodeNo owner;  // a file, or the inode that holds shared extents
  std::uint64_t file_block = 0;
  BandAddress at;
  std::vector<std::uint32_t> crcs;  // CRC-32C of each block
  std::uint32_t blocks() const { return static_cast<std::uint32_t>(crcs.size()); }
};

// Thread-safe. "Log" is a band's append log and delete log (docs/garbage-collection.md).
class Port {
 public:
  virtual ~Port() = default;

  // ---- what is live ----
  struct Visit {
    std::vector<LiveRun> runs;
    std::uint32_t next_rba = 0;  // where the next visit begins
    bool is_end = false;         // no append record follows
    bool is_damaged = false;     // metadata could not be read: `runs` may lack live blocks
  };
  // Visits append record by append record, from `from_rba` on, until it has found `at_least` live
  // blocks or has reached the band's end. Passes over what cannot be read. REQUIRES: the band is
  // pinned.
  virtual Visit visit_live(BandId band, std::uint32_t from_rba, std::size_t at_least) = 0;
  struct AppendUse {
    std::uint32_t rba = 0;  // of the append record
    std::uint64_t live_blocks = 0;
  };
  // The last append record that begins before `rba`.
  virtual Result<std::optional<AppendUse>> last_append_before(BandId band, std::uint32_t rba) = 0;

  // ---- moving ----
  // In one batch: blocks of `run` that the owner still maps to the old place are mapped to `to`;
  // the other copies are recorded as lost. Accounts both in the band table.
  virtual Result<> remap_if_unchanged(const LiveRun& run, BandAddress to) = 0;
  // Records the blocks of the lease that are not recorded yet as lost, so that the band can take
  // further appends. If even that fails, the lease sets its band aside.
  virtual void record_lost(data::Lease& lease) = 0;
  // Commits: every change made before is durable afterwards.
  virtual Result<> make_durable() = 0;
  // Whether the metadata log has failed, so that no change can be made any more.
  virtual bool has_failed() = 0;

  // ---- bands' logs ----
  // Erases both logs of the band and its summary.
  virtual Result<> erase_log(BandId band) = 0;
  struct LogTail {
    std::uint64_t dead_blocks = 0;
    std::uint32_t append_records = 0, delete_records = 0;
  };
  // Sums up the band's records from `from_rba` on; nullopt when there are more than `at_most` of
  // either kind.
  virtual Result<std::optional<LogTail>> log_tail(BandId band, std::uint32_t from_rba,
                                                  std::size_t at_most) = 0;
  // Erases the records of log_tail() and takes them and `blocks` out of the band's summary, in one
  // batch. Error: kBatchTooLarge.
  virtual Result<> erase_log_tail(BandId band, std::uint32_t from_rba, std::uint32_t blocks,
                                  const LogTail& tail) = 0;
};

}  // namespace lazyfs::gc
