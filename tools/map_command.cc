#include "tools/map_command.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/size.h"
#include "fs/space/block_owners.h"
#include "tools/mount_point.h"
#include "tools/volume_commands.h"
#include "tools/volume_reader.h"
#include "tools/words.h"

namespace lazyfs {
namespace {

using fs::FileRun;

constexpr std::size_t kWorstListed = 10;

unsigned long long plain(std::uint64_t number) { return number; }

// The device of the volume that `path` is, or lies on. Makes a mounted volume durable.
std::string durable_device(const std::string& path) {
  const auto device = source_of(path);
  const auto mount_point = device ? mount_point_of(path) : mounted_from(path).value_or("");
  if (!mount_point.empty()) MountPoint(mount_point).sync();
  return device.value_or(path);
}

InodeNo inode_of_file(const std::string& file) {
  struct stat st {};
  if (lstat(file.c_str(), &st) != 0) fail_with(file, std::strerror(errno));
  if (!S_ISREG(st.st_mode)) fail_with(file, "not a regular file");
  if (!source_of(file)) fail_with(file, "on no mounted lazyfs");
  return InodeNo{st.st_ino};
}

std::uint64_t blocks_of(const std::vector<FileRun>& runs) {
  std::uint64_t blocks = 0;
  for (const FileRun& run : runs) blocks += run.blocks;
  return blocks;
}

std::string summary_of(std::uint64_t runs, std::uint64_t blocks) {
  std::string text = count_text(runs, "run") + ", " + size_text(blocks * kBlockBytes);
  if (runs > 1) text += ", " + size_text(blocks * kBlockBytes / runs) + " each on average";
  return text;
}

Json json_of(const FileRun& run) {
  return Json::object({{"offset", run.file_block * kBlockBytes},
                       {"band", run.at.band.value},
                       {"rba", run.at.rba},
                       {"blocks", run.blocks},
                       {"bytes", run.blocks * kBlockBytes},
                       {"shared", run.is_shared}});
}

struct Place {
  BandAddress first;
  std::uint64_t blocks = UINT32_MAX;  // to the end of the band
};

std::optional<Place> parse_place(std::string_view text) {
  const auto colon = text.find(':');
  const auto band = parse_number(text.substr(0, colon));
  const auto block = colon == text.npos ? 0 : parse_number(text.substr(colon + 1));
  if (!band || !block || *band >= UINT32_MAX || *block >= UINT32_MAX) return std::nullopt;
  Place place{{BandId{static_cast<std::uint32_t>(*band)}, static_cast<std::uint32_t>(*block)}};
  if (colon != text.npos) place.blocks = 1;
  return place;
}

// What the device lacks of the place; empty if it has the place.
std::string missing_part(const Place& place, const device::Geometry& geometry) {
  const BandAddress at = place.first;
  if (!geometry.has(at.band)) {
    return text_of("no such band: there are %u", geometry.band_count());
  }
  const std::uint32_t blocks = geometry.blocks_of(at.band);
  if (at.rba == 0 || at.rba < blocks) return "";
  return text_of("no such block: band %u has %u", at.band.value, blocks);
}

std::set<InodeNo> inodes_of(const std::vector<FileRun>& runs) {
  std::set<InodeNo> inodes;
  for (const FileRun& run : runs) inodes.insert(run.inode);
  return inodes;
}

using Paths = std::map<InodeNo, std::string>;

std::string path_in(const Paths& paths, InodeNo inode) {
  const auto found = paths.find(inode);
  return found == paths.end() ? "(without a name)" : found->second;
}

void print_summary(const std::string& path, std::uint64_t runs, std::uint64_t blocks) {
  std::printf("%s: %s\n", printable(path).c_str(), summary_of(runs, blocks).c_str());
}

void print_owners(const Place& place, const std::vector<FileRun>& owners, const Paths& paths,
                  bool json) {
  Json list = Json::array();
  if (!json) std::printf("%10s %10s %14s  %s\n", "RBA", "blocks", "file offset", "path");
  for (const FileRun& run : owners) {
    const std::string path = path_in(paths, run.inode);
    Json line = json_of(run);
    line["inode"] = run.inode.value;
    line["path"] = path;
    if (!json) {
      std::printf("%10u %10llu %14llu  %s%s\n", run.at.rba, plain(run.blocks),
                  plain(run.file_block * kBlockBytes), printable(path).c_str(),
                  run.is_shared ? " (shared)" : "");
    }
    list.push_back(std::move(line));
  }
  if (!json) return;
  const Json all = Json::object({{"band", place.first.band.value}, {"runs", list}});
  std::puts(all.dump(true).c_str());
}

struct FileShape {
  InodeNo inode;
  std::uint64_t runs = 0, blocks = 0;
};

struct VolumeShape {
  std::uint64_t files = 0, in_one_run = 0, runs = 0, blocks = 0;
  std::vector<FileShape> worst;  // most runs first
};

void add(VolumeShape& shape, InodeNo inode, const std::vector<FileRun>& runs) {
  const FileShape file{inode, runs.size(), blocks_of(runs)};
  shape.files += 1;
  shape.in_one_run += file.runs == 1;
  shape.runs += file.runs;
  shape.blocks += file.blocks;
  if (file.runs == 1) return;
  const auto place = std::ranges::upper_bound(shape.worst, file.runs, std::greater<>(),
                                              &FileShape::runs);
  shape.worst.insert(place, file);
  if (shape.worst.size() > kWorstListed) shape.worst.pop_back();
}

void print_shape(const std::string& device, const VolumeShape& shape, const Paths& paths,
                 bool json) {
  Json worst = Json::array();
  if (!json) {
    std::printf("%s: %s with data, %llu of them in one run; %s\n", printable(device).c_str(),
                count_text(shape.files, "file").c_str(), plain(shape.in_one_run),
                summary_of(shape.runs, shape.blocks).c_str());
  }
  for (const FileShape& file : shape.worst) {
    const std::string path = path_in(paths, file.inode);
    worst.push_back(Json::object(
        {{"path", path}, {"inode", file.inode.value}, {"runs", file.runs},
         {"bytes", file.blocks * kBlockBytes}}));
    if (!json) print_summary(path, file.runs, file.blocks);
  }
  if (!json) return;
  const Json all = Json::object({{"device", device},
                                 {"files", shape.files},
                                 {"files_in_one_run", shape.in_one_run},
                                 {"runs", shape.runs},
                                 {"bytes", shape.blocks * kBlockBytes},
                                 {"worst", worst}});
  std::puts(all.dump(true).c_str());
}

void frag_volume(const std::string& path, bool json) {
  const std::string device = durable_device(path);
  VolumeShape shape;
  Paths paths;
  read_volume(device, [&](meta::Store& store, device::Device&) -> Result<> {
    shape = {};
    TRY(fs::visit_files(store, [&](InodeNo inode, const std::vector<FileRun>& runs) {
      add(shape, inode, runs);
    }));
    std::set<InodeNo> inodes;
    for (const FileShape& file : shape.worst) inodes.insert(file.inode);
    ASSIGN_OR_RETURN(paths, fs::paths_of(store, inodes));
    return ok();
  });
  print_shape(device, shape, paths, json);
}

std::vector<FileRun> runs_of_file(const std::string& file, InodeNo inode) {
  std::vector<FileRun> runs;
  read_volume(durable_device(file), [&](meta::Store& store, device::Device&) -> Result<> {
    ASSIGN_OR_RETURN(runs, fs::runs_of(store, inode));
    return ok();
  });
  return runs;
}

}  // namespace

bool is_place(std::string_view text) { return parse_place(text).has_value(); }

void map_command(const std::string& file, bool json) {
  const InodeNo inode = inode_of_file(file);
  const std::vector<FileRun> runs = runs_of_file(file, inode);
  if (json) {
    Json list = Json::array();
    for (const FileRun& run : runs) list.push_back(json_of(run));
    const Json all = Json::object({{"path", file}, {"inode", inode.value}, {"extents", list}});
    std::puts(all.dump(true).c_str());
    return;
  }
  std::printf("%s: inode %llu, %s\n", printable(file).c_str(), plain(inode.value),
              runs.empty() ? "no data outside of the metadata"
                           : summary_of(runs.size(), blocks_of(runs)).c_str());
  if (runs.empty()) return;
  std::printf("%14s %8s %10s %12s\n", "file offset", "band", "RBA", "bytes");
  for (const FileRun& run : runs) {
    std::printf("%14llu %8u %10u %12llu%s\n", plain(run.file_block * kBlockBytes),
                run.at.band.value, run.at.rba, plain(run.blocks * kBlockBytes),
                run.is_shared ? " shared" : "");
  }
}

void owner_command(const std::string& path, const std::string& text, bool json) {
  const auto parsed = parse_place(text);
  if (!parsed) fail_with(text, "not BAND or BAND:BLOCK");
  const Place place = *parsed;
  std::vector<FileRun> owners;
  Paths paths;
  std::string missing;
  read_volume(durable_device(path), [&](meta::Store& store, device::Device& device) -> Result<> {
    missing = missing_part(place, device.geometry());
    if (!missing.empty()) return ok();
    ASSIGN_OR_RETURN(owners, fs::owners_of(store, place.first, place.blocks));
    ASSIGN_OR_RETURN(paths, fs::paths_of(store, inodes_of(owners)));
    return ok();
  });
  if (!missing.empty()) fail_with(text, missing);
  if (owners.empty() && !json) {
    std::printf("%s: no file has blocks there\n", text.c_str());
    return;
  }
  print_owners(place, owners, paths, json);
}

void frag_command(const std::string& path, bool json) {
  struct stat st {};
  const bool is_file = lstat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode) && source_of(path);
  if (!is_file) return frag_volume(path, json);
  const InodeNo inode = inode_of_file(path);
  const std::vector<FileRun> runs = runs_of_file(path, inode);
  if (!json) {
    print_summary(path, runs.size(), blocks_of(runs));
    return;
  }
  const Json all = Json::object({{"path", path},
                                 {"inode", inode.value},
                                 {"runs", runs.size()},
                                 {"bytes", blocks_of(runs) * kBlockBytes}});
  std::puts(all.dump(true).c_str());
}

}  // namespace lazyfs
