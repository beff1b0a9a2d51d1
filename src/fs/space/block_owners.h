// Which blocks a file has, and which files have a block, by the tree. For administrators.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "meta/store/store.h"

namespace lazyfs::fs {

// Blocks of a file that lie one after the other in one band.
struct FileRun {
  InodeNo inode;
  std::uint64_t file_block = 0;
  BandAddress at;
  std::uint64_t blocks = 0;
  bool is_shared = false;  // with other files, or was once
  friend bool operator==(const FileRun&, const FileRun&) = default;
};

// Each function reads the tree in many steps. Errors: kItemBad, and those of reading the tree.
// REQUIRES: the store does not change meanwhile.

// The runs of a file, in file order. An inline block, which the tree holds itself, is no run.
Result<std::vector<FileRun>> runs_of(meta::Store& store, InodeNo inode);

// The runs of all files in the `blocks` blocks from `first` on, in the order of the band; a shared
// run once for each file. Runs are cut at the limits of the range.
Result<std::vector<FileRun>> owners_of(meta::Store& store, BandAddress first, std::uint64_t blocks);

// Calls `visit` for each file that has runs.
using VisitFile = std::function<void(InodeNo, const std::vector<FileRun>&)>;
Result<> visit_files(meta::Store& store, const VisitFile& visit);

// One path from the root ("/a/b") of each wanted inode that has a name. Memory: some 100 bytes for
// each directory of the volume.
Result<std::map<InodeNo, std::string>> paths_of(meta::Store& store,
                                                const std::set<InodeNo>& wanted);

}  // namespace lazyfs::fs
