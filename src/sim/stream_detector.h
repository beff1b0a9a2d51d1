// Decides which writes of a drive-managed disk are part of a stream: these bypass the persistent
// cache and go to their bands. Not thread-safe.
//
// Invariants:
//   T1  a run is a sequence of writes, each of which begins where the one before it ended
//   T2  a run is a stream once `stream_bytes` of it have arrived without a flush or a write into
//       the cache between them
//   T3  a run that begins somewhere new and right after a flush is taken for a synced write: up to
//       the next flush it goes to the cache however long it is, up to kSyncedBytes
//   T4  a run that had `stream_bytes` between two flushes and continues after the second is a
//       stream
#pragma once

#include <cstdint>
#include <deque>

namespace lazyfs::sim {

class StreamDetector {
 public:
  // The longest synced writes that were measured went to the cache.
  static constexpr std::uint64_t kSyncedBytes = 1ull << 30;
  static constexpr std::size_t kRuns = 8;  // runs that are remembered (a chosen value)

  struct Verdict {
    bool is_stream = false;
    bool continues = false;  // a run that is known
    bool is_synced = false;  // T3
    // The run continues over flushes, and is as long as a stream.
    bool is_synced_sequence = false;
  };

  explicit StreamDetector(std::uint64_t stream_bytes) : stream_bytes_(stream_bytes) {}

  Verdict note_write(std::uint64_t sector, std::uint64_t sectors);
  void note_flush();
  // A write other than a stream went to the cache: streams end (T2).
  void note_cache_write();

 private:
  struct Run {
    std::uint64_t end = 0;
    std::uint64_t bytes = 0;     // since the beginning, a flush or a write into the cache
    std::uint64_t unflushed = 0;  // since the beginning or a flush
    std::uint64_t in_all = 0;
    bool is_stream = false, is_synced = false, crossed_flush = false;
  };

  const std::uint64_t stream_bytes_;
  std::deque<Run> runs_;  // most recent first
  bool flushed_ = false;  // no write since the last flush
};

}  // namespace lazyfs::sim
