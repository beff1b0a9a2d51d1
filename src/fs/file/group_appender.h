// The middle step of write-back: appends a group's pages to bands.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "data/appender.h"
#include "data/band_table.h"
#include "data/placement.h"
#include "fs/file/counters.h"
#include "fs/file/extent_recorder.h"
#include "fs/file/write_back_group.h"
#include "meta/store/store.h"

namespace lazyfs::fs {

// Thread-safe.
class GroupAppender {
 public:
  // `make_room` and `keep_up`: as of WriteBack.
  GroupAppender(meta::Store& store, ExtentRecorder& recorder, data::BandTable& bands,
                data::Appender& appender, Counters& counters,
                const std::function<bool()>& make_room,
                const std::function<void(std::uint64_t)>& keep_up)
      : store_(store),
        recorder_(recorder),
        bands_(bands),
        appender_(appender),
        counters_(counters),
        make_room_(make_room),
        keep_up_(keep_up) {}

  // Appends the group's pages of the stream, and records them. Errors: kNoSpace, those of the
  // device, and those of ExtentRecorder::record().
  Result<> append(WriteBackGroup& group, data::Stream stream);

 private:
  // Where the next append may go. Each attempt that finds no band tries the next possibility.
  struct Attempts;

  Result<> append_once(WriteBackGroup& group, data::Stream stream,
                       std::span<const device::Piece> pages, bool anywhere, bool& band_failed);
  bool try_again(Attempts& attempts);

  meta::Store& store_;
  ExtentRecorder& recorder_;
  data::BandTable& bands_;
  data::Appender& appender_;
  Counters& counters_;
  const std::function<bool()>& make_room_;
  const std::function<void(std::uint64_t)>& keep_up_;
};

}  // namespace lazyfs::fs
