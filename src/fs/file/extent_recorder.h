// The last step of write-back: maps appended blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/result.h"
#include "base/types.h"
#include "fs/file/file_maps.h"
#include "fs/file/write_back_group.h"
#include "meta/store/store.h"

namespace lazyfs::fs {

// Consecutive blocks of a file that one append has placed.
struct AppendedSegment {
  std::uint64_t file_block = 0;
  BandAddress at;
  std::span<const std::uint32_t> crcs;  // one for each block
};

// Thread-safe.
class ExtentRecorder {
 public:
  // `make_room`: as in WriteBack::Hooks.
  ExtentRecorder(meta::Store& store, FileMaps& maps, const std::function<bool()>& make_room)
      : store_(store), maps_(maps), make_room_(make_room) {}

  // Maps the segments, which hold the next pages of `part`, with as few batches as the log allows.
  // Raises part.recorded after each.
  Result<> record(const GroupMember& member, FrozenPart& part,
                  std::span<const AppendedSegment> segments);

 private:
  Result<> record_at_once(const GroupMember& member, FrozenPart& part,
                          std::span<const AppendedSegment> segments);

  meta::Store& store_;
  FileMaps& maps_;
  const std::function<bool()>& make_room_;
};

}  // namespace lazyfs::fs
