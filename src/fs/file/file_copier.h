// Copies ranges of files, by sharing blocks where that is possible.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/clock.h"
#include "data/band_table.h"
#include "fs/file/counters.h"
#include "fs/file/file_maps.h"
#include "fs/file/file_reader.h"
#include "fs/file/file_writer.h"
#include "fs/file/truncation.h"
#include "fs/file/write_back.h"
#include "fs/inode/inode.h"
#include "meta/store/store.h"

namespace lazyfs::fs {

// How blocks become shared: both files' dirty data is written back. Then one batch, under both
// files' locks, gives the source's extents, by whole append records, to a new shared-extent inode,
// and maps both files' blocks to references to it (fs/file/shared_extents.h). Source blocks that
// are references already get one reference more. A crash shows each batch done or not done; a batch
// that is too large for the log is divided.
//
// Thread-safe. Only each batch is atomic. The kernel excludes writers of the same ranges.
class FileCopier {
 public:
  struct Place {
    const InodeRef& inode;
    std::uint64_t offset = 0;
  };

  // `new_inode` gives the number of a new inode.
  FileCopier(meta::Store& store, FileMaps& maps, FileReader& reader, FileWriter& writer,
             Truncation& truncation, WriteBack& write_back, data::BandTable& bands,
             Counters& counters, Clock& clock, std::function<Result<InodeNo>()> new_inode)
      : store_(store),
        maps_(maps),
        reader_(reader),
        writer_(writer),
        truncation_(truncation),
        write_back_(write_back),
        bands_(bands),
        counters_(counters),
        clock_(clock),
        new_inode_(std::move(new_inode)) {}

  // As Volume::copy_range().
  Result<std::uint64_t> copy(Place from, Place to, std::uint64_t length, bool clear_set_id);

 private:
  struct Share;  // whole blocks to be shared

  enum class Through : std::uint8_t { kAll, kSourceEnded };

  Result<> copy_range(Place from, Place to, std::uint64_t length, bool clear_set_id,
                      std::uint64_t& done);
  Result<Through> copy_blocks(Place from, Place to, std::uint64_t end, bool clear_set_id,
                              std::uint64_t& done);
  Result<Through> write_through(Place from, Place to, std::uint64_t length, bool clear_set_id,
                                std::uint64_t& done);
  Result<std::uint64_t> share(const Share& share);
  Result<std::optional<std::uint64_t>> share_once(const Share& share, InodeNo number,
                                                  std::size_t at_most);
  static bool can_share(const Share& share, const Inode& from, const Inode& to)
      REQUIRES(from.mu, to.mu);
  Result<> change_maps(const Share& share, InodeNo number, std::span<const MapEntry> entries,
                       std::uint64_t blocks, MapChange& source, MapChange& target,
                       SharedChange& shared);
  Result<std::vector<MappedExtent>> whole_records(InodeNo inode,
                                                  std::span<const MapEntry> entries) const;

  meta::Store& store_;
  FileMaps& maps_;
  FileReader& reader_;
  FileWriter& writer_;
  Truncation& truncation_;
  WriteBack& write_back_;
  data::BandTable& bands_;
  Counters& counters_;
  Clock& clock_;
  const std::function<Result<InodeNo>()> new_inode_;
};

}  // namespace lazyfs::fs
