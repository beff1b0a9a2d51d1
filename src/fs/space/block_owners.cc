#include "fs/space/block_owners.h"

#include <sys/stat.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "fs/file/extent_map.h"
#include "fs/item/schema.h"
#include "fs/space/visit_items.h"

namespace lazyfs::fs {
namespace {

constexpr std::size_t kMaxDepth = 4096;  // of directories: a damaged tree may have circles
constexpr meta::Key kLastOfFiles{kMaxInode, 255, meta::kMaxOffset};

bool is_of(const meta::Item& item, Kind kind) {
  return item.key.kind == static_cast<std::uint8_t>(kind);
}

bool continues(const FileRun& a, const FileRun& b) {
  return a.inode == b.inode && a.is_shared == b.is_shared &&
         a.file_block + a.blocks == b.file_block &&
         a.at.band == b.at.band && a.at.rba + a.blocks == b.at.rba;
}

void append(std::vector<FileRun>& runs, FileRun run) {
  if (!runs.empty() && continues(runs.back(), run)) {
    runs.back().blocks += run.blocks;
  } else {
    runs.push_back(run);
  }
}

// Adds what a kExtent item maps.
Result<> append_entry(meta::Store& store, const meta::Item& item, std::vector<FileRun>& runs) {
  const InodeNo inode{item.key.owner};
  ASSIGN_OR_RETURN(const MapRecord record, decode_map_record(item.value));
  if (const auto* extent = std::get_if<ExtentRecord>(&record)) {
    append(runs, {inode, item.key.offset, extent->at, extent->blocks()});
    return ok();
  }
  const auto& reference = std::get<ReferenceRecord>(record);
  ASSIGN_OR_RETURN(const auto extents,
                   read_extents(store, reference.shared, reference.block, reference.count));
  for (const MappedExtent& mapped : extents) {
    append(runs, {inode, item.key.offset + (mapped.file_block - reference.block), mapped.extent.at,
                  mapped.extent.blocks(), true});
  }
  return ok();
}

Result<bool> is_shared_inode(meta::Store& store, InodeNo inode) {
  ASSIGN_OR_RETURN(const auto value, store.get(key_of(inode, Kind::kInode)));
  if (!value) return false;  // it was deleted
  ASSIGN_OR_RETURN(const InodeRecord record, decode_inode(*value));
  return record.mode == kSharedMode;
}

// The part of `run` inside of the blocks, if there is one.
std::optional<FileRun> clip(FileRun run, BandAddress first, std::uint64_t blocks) {
  const std::uint64_t begin = std::max<std::uint64_t>(run.at.rba, first.rba);
  const std::uint64_t end = std::min<std::uint64_t>(run.at.rba + run.blocks, first.rba + blocks);
  if (run.at.band != first.band || begin >= end) return std::nullopt;
  const std::uint64_t skipped = begin - run.at.rba;
  return FileRun{run.inode, run.file_block + skipped,
                 {run.at.band, static_cast<std::uint32_t>(begin)}, end - begin, run.is_shared};
}

// The inodes that own live blocks of the range, by the band's log of appends.
Result<std::set<InodeNo>> inodes_in(meta::Store& store, BandAddress first, std::uint64_t blocks) {
  std::set<InodeNo> inodes;
  std::uint64_t from = first.rba;
  ASSIGN_OR_RETURN(const auto before, store.last_in(key_of(first.band, Kind::kAppendRecord),
                                                    key_of(first.band, Kind::kAppendRecord, from)));
  if (before) from = before->key.offset;
  TRY(visit_items(store, key_of(first.band, Kind::kAppendRecord, from),
                  key_of(first.band, Kind::kAppendRecord, first.rba + blocks - 1),
                  [&](const meta::Item& item) -> Result<> {
                    ASSIGN_OR_RETURN(const AppendRecord record, decode_append_record(item.value));
                    if (record.inode.value != 0) inodes.insert(record.inode);
                    return ok();
                  }));
  return inodes;
}

struct Entry {
  InodeNo directory;
  std::string name;
};

std::optional<std::string> path_from(const std::map<InodeNo, Entry>& entries, InodeNo inode) {
  std::string path;
  for (std::size_t depth = 0; inode != kRootInode; ++depth) {
    const auto found = entries.find(inode);
    if (found == entries.end() || depth == kMaxDepth) return std::nullopt;
    path = "/" + found->second.name + path;
    inode = found->second.directory;
  }
  return path.empty() ? "/" : path;
}

}  // namespace

Result<std::vector<FileRun>> runs_of(meta::Store& store, InodeNo inode) {
  std::vector<FileRun> runs;
  TRY(visit_items(store, key_of(inode, Kind::kExtent),
                  key_of(inode, Kind::kExtent, meta::kMaxOffset),
                  [&](const meta::Item& item) { return append_entry(store, item, runs); }));
  return runs;
}

Result<> visit_files(meta::Store& store, const VisitFile& visit) {
  std::vector<FileRun> runs;
  InodeNo inode;
  bool is_file = false;
  const auto finish = [&] {
    if (is_file && !runs.empty()) visit(inode, runs);
    runs.clear();
    is_file = false;
  };
  TRY(visit_items(store, key_of(kRootInode, Kind::kInode), kLastOfFiles,
                  [&](const meta::Item& item) -> Result<> {
                    if (item.key.owner != inode.value) finish();
                    inode = InodeNo{item.key.owner};
                    if (is_of(item, Kind::kInode)) {
                      ASSIGN_OR_RETURN(const InodeRecord record, decode_inode(item.value));
                      is_file = record.mode != kSharedMode;
                    }
                    if (!is_file || !is_of(item, Kind::kExtent)) return ok();
                    return append_entry(store, item, runs);
                  }));
  finish();
  return ok();
}

Result<std::vector<FileRun>> owners_of(meta::Store& store, BandAddress first,
                                       std::uint64_t blocks) {
  std::vector<FileRun> owners;
  const auto add = [&](InodeNo, const std::vector<FileRun>& runs) {
    for (const FileRun& run : runs) {
      if (const auto part = clip(run, first, blocks)) owners.push_back(*part);
    }
  };
  ASSIGN_OR_RETURN(const std::set<InodeNo> inodes, inodes_in(store, first, blocks));
  bool has_shared = false;
  for (const InodeNo inode : inodes) {
    ASSIGN_OR_RETURN(const bool is_shared, is_shared_inode(store, inode));
    has_shared = has_shared || is_shared;
  }
  if (has_shared) {  // only the files know that they refer to it
    TRY(visit_files(store, add));
  } else {
    for (const InodeNo inode : inodes) {
      ASSIGN_OR_RETURN(const auto runs, runs_of(store, inode));
      add(inode, runs);
    }
  }
  std::ranges::sort(owners, {}, [](const FileRun& run) {
    return std::tuple(run.at.rba, run.inode.value, run.file_block);
  });
  return owners;
}

Result<std::map<InodeNo, std::string>> paths_of(meta::Store& store,
                                                const std::set<InodeNo>& wanted) {
  std::map<InodeNo, Entry> entries;
  TRY(visit_items(store, key_of(kRootInode, Kind::kInode), kLastOfFiles,
                  [&](const meta::Item& item) -> Result<> {
                    if (!is_of(item, Kind::kDentryName)) return ok();
                    ASSIGN_OR_RETURN(const auto names, decode_dentries(item.value));
                    for (const DentryRecord& name : names) {
                      const bool is_directory = name.type == S_IFDIR >> 12;
                      if (!is_directory && !wanted.contains(name.inode)) continue;
                      entries.try_emplace(name.inode, InodeNo{item.key.owner}, name.name);
                    }
                    return ok();
                  }));
  std::map<InodeNo, std::string> paths;
  for (const InodeNo inode : wanted) {
    if (auto path = path_from(entries, inode)) paths.emplace(inode, *std::move(path));
  }
  return paths;
}

}  // namespace lazyfs::fs
