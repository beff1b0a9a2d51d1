// The middle step of write-back: appends a group's pages to bands.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
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

// Appends at most kAppendBlocks at a time. With `ahead` a thread appends the next ones while the
// caller's thread records these: the disk need not wait for the metadata. Both belong to one lease,
// and blocks are recorded in the order of their RBAs.
//
// Thread-safe.
class GroupAppender {
 public:
  // `make_room`, `keep_up` and `ahead`: as in WriteBack::Hooks.
  GroupAppender(meta::Store& store, ExtentRecorder& recorder, data::BandTable& bands,
                data::Appender& appender, Counters& counters,
                const std::function<bool()>& make_room,
                const std::function<void(std::uint64_t)>& keep_up, bool ahead)
      : store_(store),
        recorder_(recorder),
        bands_(bands),
        appender_(appender),
        counters_(counters),
        make_room_(make_room),
        keep_up_(keep_up),
        ahead_(ahead) {}

  // Appends the group's pages of the stream, and records them. Errors: kNoSpace, those of the
  // device, and those of ExtentRecorder::record().
  Result<> append(WriteBackGroup& group, data::Stream stream);

 private:
  // Where the next append may go. Each attempt that finds no band tries the next possibility.
  struct Attempts;

  // How many blocks of an append were recorded, and the error if not all of them were.
  struct Recorded {
    std::uint32_t blocks = 0;
    Result<> done;
  };
  using Pages = std::span<const device::Piece>;

  Result<> record_part(const GroupMember& member, FrozenPart& part, std::size_t count,
                       const data::Placed& placed, std::size_t first);
  Recorded record(WriteBackGroup& group, data::Stream stream, const data::Placed& placed);
  std::future<Result<data::Placed>> begin_append(data::Lease& lease, Pages pages) const;
  Result<> append_once(WriteBackGroup& group, data::Stream stream,
                       Pages pages, bool anywhere, bool& band_failed);
  bool try_again(Attempts& attempts);

  meta::Store& store_;
  ExtentRecorder& recorder_;
  data::BandTable& bands_;
  data::Appender& appender_;
  Counters& counters_;
  const std::function<bool()>& make_room_;
  const std::function<void(std::uint64_t)>& keep_up_;
  const bool ahead_;
};

}  // namespace lazyfs::fs
