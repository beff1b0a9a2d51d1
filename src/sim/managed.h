// A drive-managed shingled disk: the host may write anywhere. Streams go to their bands; all other
// writes are appended to a persistent cache, and a cleaner merges them with their bands when the
// disk is idle, always, or when the cache or its map is full. Not thread-safe.
//
// Invariants, besides those of Disk:
//   S1  an undecided run of writes waits in the memory of the drive until it is a stream, or
//       ends, or a flush comes
//   S2  the map never has more extents than map_extents, and the log never holds more than
//       cache_sectors, except for the cleaner's earnings (L2) and one request
//   S3  after a flush nothing waits in memory
#pragma once

#include <optional>

#include "sim/bands.h"
#include "sim/cleaner.h"
#include "sim/mechanical_disk.h"
#include "sim/persistent_cache.h"
#include "sim/stream_detector.h"

namespace lazyfs::sim {

enum class CleaningTime : std::uint8_t {
  kIdle,    // and when it must
  kAlways,  // a piece after each batch of writes too
};

struct ManagedParameters : PlatterParameters {
  std::uint32_t band_tracks = 0;
  std::uint64_t cache_sectors = 0;  // at the outer edge of the first zone
  std::uint64_t map_extents = 0;
  std::uint64_t stream_bytes = 0;
  // A command, and one in `slow_each` that takes longer.
  double command_ms = 0, slow_command_ms = 0;
  std::uint32_t slow_each = 1;
  // Writes reach the cache in batches of at most so many writes. A batch takes `batch_ms` for each
  // `batch_bytes`, at least once, besides its transfer.
  std::uint32_t batch_writes = 0;
  std::uint64_t batch_bytes = 0;
  double batch_ms = 0;
  // Sectors of a synced run beyond `flush_waste_sectors` are transferred so many times.
  double synced_transfers = 1;
  std::uint64_t flush_waste_sectors = 0;
  std::uint32_t map_write_flushes = 0;  // the map is written out each so many flushes
  double map_write_ms = 0;
  CleaningTime cleaning_time = CleaningTime::kIdle;
  double idle_ms = 0;         // without a request, before the disk cleans
  // Slices of cleaning while the host waits for space; one in `long_slice_each` is longer.
  double slice_ms = 0, long_slice_ms = 0;
  std::uint32_t long_slice_each = 1;
  // For kAlways: after a batch the disk cleans for the batch's time, times this share, times 0.5
  // with an empty cache and an ever larger factor as the cache fills up.
  double always_share = 0;
  CleaningParameters cleaning;
};

class ManagedDisk final : public MechanicalDisk {
 public:
  explicit ManagedDisk(ManagedParameters parameters);

  double serve(double now_ms, const Request& request) override;
  double settle(double now_ms) override;
  DiskCounters counters() const override;
  const Bands& bands() const { return bands_; }

 private:
  struct Run {  // contiguous writes that wait in memory
    std::uint64_t sector = 0, end = 0;
    bool is_synced = false;
  };
  struct Batch {  // appended to the log, and not on the platters yet
    std::uint64_t writes = 0, bytes = 0;
    double transfer_ms = 0;
  };
  double read(double now_ms, const Request& request);
  double read_piece(double now_ms, const PersistentCache::Piece& piece);
  double write(double now_ms, const Request& request);
  double flush(double now_ms);
  double discard(double now_ms, const Request& request);
  double stream(double now_ms, std::uint64_t sector, std::uint64_t sectors);
  double cache_run(double now_ms);
  double cache_part(double now_ms, std::uint64_t sector, std::uint64_t sectors, double transfers);
  // How many times the sectors of a synced run are transferred, on average.
  double synced_transfers(std::uint64_t sectors) const;
  double close_batch(double now_ms);
  double wait_for_space(double now_ms, std::uint64_t sector, std::uint64_t sectors);
  // Of the log or of the map, whichever is fuller. A band counts as a whole until it is clean, so
  // this may exceed 1.
  double cache_fill() const;
  bool is_full(std::uint64_t extents, std::uint64_t sectors) const;
  // The disk's own work up to `now_ms`, when a request comes. Returns when the request can begin:
  // later than `now_ms` if what waited in memory is still on its way to the cache.
  double work_while_idle(double now_ms);
  double command_ms();
  double slice_ms();

  const ManagedParameters parameters_;
  const Bands bands_;
  StreamDetector detector_;
  PersistentCache cache_;
  Cleaner cleaner_;
  std::optional<Run> run_;
  Batch batch_;
  // End of the last request, or of the idle work that wrote what waited in memory to the cache.
  double free_ms_ = 0;
  std::uint64_t stream_end_ = UINT64_MAX;  // a stream's write here needs no seek
  bool wrote_cache_ = false, wrote_stream_ = false;  // since the last flush
  std::uint64_t commands_ = 0, flushes_ = 0, slices_ = 0;
  DiskCounters counters_;
};

}  // namespace lazyfs::sim
