#include "sim/stream_detector.h"

#include <algorithm>

#include "sim/request.h"

namespace lazyfs::sim {

StreamDetector::Verdict StreamDetector::note_write(std::uint64_t sector, std::uint64_t sectors) {
  const auto known = std::ranges::find(runs_, sector, &Run::end);
  Run run;
  Verdict verdict;
  if (known != runs_.end()) {
    run = *known;
    runs_.erase(known);
    verdict.continues = true;
  } else {
    run.is_synced = flushed_;
    if (runs_.size() >= kRuns) runs_.pop_back();
  }
  flushed_ = false;
  const std::uint64_t bytes = sectors * kSectorBytes;
  run.end = sector + sectors;
  run.bytes += bytes;
  run.unflushed += bytes;
  run.in_all += bytes;
  if (run.is_synced ? run.unflushed > kSyncedBytes : run.bytes >= stream_bytes_) {
    run.is_stream = true;
  }
  verdict.is_stream = run.is_stream;
  verdict.is_synced = run.is_synced;
  verdict.is_synced_sequence = run.crossed_flush && run.in_all >= stream_bytes_;
  runs_.push_front(run);
  return verdict;
}

void StreamDetector::note_flush() {
  flushed_ = true;
  for (Run& run : runs_) {
    run.crossed_flush = true;
    run.is_stream = run.is_stream || run.unflushed >= stream_bytes_;  // T4
    run.is_synced = false;
    run.bytes = run.unflushed = 0;
  }
}

void StreamDetector::note_cache_write() {
  for (Run& run : runs_) {
    run.is_stream = false;
    run.bytes = 0;
  }
}

}  // namespace lazyfs::sim
