// Copies ranges of files, by sharing blocks where that is possible.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "fs/file/core.h"
#include "fs/file/file_reader.h"
#include "fs/file/file_writer.h"
#include "fs/namespace/inode_numbers.h"
#include "fs/file/write_back.h"

namespace lazyfs::fs {

// How blocks come to be shared: what is dirty in the two files is written back; then, under both
// files' locks and in one batch, the source's extents go to a new shared inode, by whole append
// records, and both files refer to it (fs/file/shared_extents.h).
// Parts that already are references get one
// more. A crash shows each such batch done or not done; where the log is too small for one batch
// there are several.
//
// Thread-safe. Towards writers of the same ranges nothing here is atomic but a batch: the kernel
// keeps those away.
class FileCopier {
 public:
  struct Place {
    const InodeRef& inode;
    std::uint64_t offset = 0;
  };

  FileCopier(const Core& core, FileReader& reader, FileWriter& writer, WriteBack& write_back,
             InodeNumbers& numbers)
      : core_(core), reader_(reader), writer_(writer), write_back_(write_back), numbers_(numbers) {}

  // As Volume::copy_range().
  Result<std::uint64_t> copy(Place from, Place to, std::uint64_t length, bool clear_set_id);

 private:
  struct Share;  // whole blocks to be shared

  Result<> copy_range(Place from, Place to, std::uint64_t length, bool clear_set_id,
                      std::uint64_t& done);
  Result<> write_through(Place from, Place to, std::uint64_t length, bool clear_set_id,
                         std::uint64_t& done);
  Result<std::uint64_t> share(const Share& share);
  Result<std::optional<std::uint64_t>> share_once(const Share& share, InodeNo number,
                                                  std::size_t at_most);
  bool can_share(const Share& share) const;
  Result<> change_maps(const Share& share, InodeNo number, std::span<const MapEntry> entries,
                       std::uint64_t blocks, MapChange& source, MapChange& target,
                       SharedChange& shared);
  Result<std::vector<MappedExtent>> whole_records(InodeNo inode,
                                                  std::span<const MapEntry> entries) const;

  const Core& core_;
  FileReader& reader_;
  FileWriter& writer_;
  WriteBack& write_back_;
  InodeNumbers& numbers_;
};

}  // namespace lazyfs::fs
