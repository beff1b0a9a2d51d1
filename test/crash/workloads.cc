#include "crash/workloads.h"

#include <string>

#include "base/types.h"
#include "device/memory.h"
#include "fs/item/attributes.h"
#include "test/support/units.h"

namespace lazyfs::crash {
namespace {

Operation create(std::string path) { return {.act = Act::kCreate, .path = std::move(path)}; }
Operation write(std::string path, std::uint64_t offset, std::uint64_t length,
                std::uint32_t tag = 0) {
  return {.act = Act::kWrite, .path = std::move(path), .offset = offset, .length = length,
          .tag = tag};
}
Operation truncate(std::string path, std::uint64_t size) {
  return {.act = Act::kTruncate, .path = std::move(path), .offset = size};
}
Operation range(Act act, std::string path, std::uint64_t offset, std::uint64_t length) {
  return {.act = act, .path = std::move(path), .offset = offset, .length = length};
}
Operation copy(std::string from, std::uint64_t offset, std::string to, std::uint64_t to_offset,
               std::uint64_t length) {
  return {.act = Act::kCopy, .path = std::move(from), .other = std::move(to), .offset = offset,
          .length = length, .to = to_offset};
}
Operation named(Act act, std::string path, std::string other = "") {
  return {.act = act, .path = std::move(path), .other = std::move(other)};
}
Operation set_xattr(std::string path, std::string name, std::uint64_t length) {
  return {.act = Act::kSetXattr, .path = std::move(path), .other = std::move(name),
          .length = length};
}

Operation flags(std::string path, std::uint32_t flags) {
  return {.act = Act::kChangeFlags, .path = std::move(path), .offset = flags};
}

// Gives the operations consecutive tags from `first` on.
Workload tagged(Workload workload, std::uint32_t first) {
  for (Operation& operation : workload) operation.tag = first++;
  return workload;
}

template <class T>
const T& one_of(std::mt19937_64& random, const std::vector<T>& choices) {
  return choices[random() % choices.size()];
}

}  // namespace

// ---- Volumes ------------------------------------------------------------------------------------

Workload small_setup() {
  return {
      create("/a"),
      write("/a", 0, 10'000, 1),
      create("/b"),
      write("/b", 0, 300, 2),
      named(Act::kMakeDirectory, "/d"),
      named(Act::kMakeDirectory, "/e"),
      create("/d/c"),
      write("/d/c", 0, 3 * kB, 3),
      named(Act::kLink, "/d/c", "/h"),
      named(Act::kSymlink, "/s", "d/c"),
      set_xattr("/a", "user.x", 40),
      create("/t"),
      write("/t", 0, 2 * kB, 4),
      named(Act::kSync, ""),
      write("/t", kAtEnd, 1500, 5),
      named(Act::kFsync, "/t"),  // its last block is inline
  };
}

Image small_image() { return make_image(16, 32, small_setup()); }

namespace {

Workload wearing_setup() {
  Workload setup;
  std::uint32_t tag = 1;
  const auto name = [](int i) { return "/f" + std::to_string(i); };
  for (int i = 0; i < 6; ++i) {
    setup.push_back(create(name(i)));
    setup.push_back(write(name(i), 0, 14 * kB, tag++));
    setup.push_back(named(Act::kSync, ""));
  }
  for (int i = 0; i < 6; ++i) {
    for (std::uint64_t block = 0; block < 14; block += 2) {
      setup.push_back(write(name(i), block * kB, kB, tag++));
    }
  }
  return setup;
}

}  // namespace

Image worn_image() { return make_image(26, 16, wearing_setup()); }

Image halved_image() {
  device::Geometry geometry;
  for (std::uint32_t i = 0; i < 24; ++i) geometry.band_blocks.push_back(i / 3 % 2 == 0 ? 32 : 16);
  geometry.band_kinds.assign(geometry.band_blocks.size(), device::BandKind::kShingled);
  device::MemoryDevice device(geometry);
  return make_image(device, wearing_setup());
}

Image crowded_image() {
  Workload setup;
  for (int i = 0; i < 14; ++i) {
    setup.push_back(create("/f" + std::to_string(i)));
    setup.push_back(set_xattr(setup.back().path, "user.long", 900));
    if (i % 4 == 3) setup.push_back(named(Act::kSync, ""));
  }
  return make_image(24, 16, setup);
}

Image full_image() {
  // Only the volume knows how much space is available.
  Workload setup{create("/big")};
  for (std::uint32_t block = 0; block < 400; ++block) {
    setup.push_back(write("/big", block * kB, kB, block + 1));
    if (block % 16 == 15) setup.push_back(named(Act::kSync, ""));
  }
  return make_image(20, 16, setup, Failures::kAllowed);
}

Image ragged_image() {
  Workload setup;
  for (std::uint32_t i = 0; i < 3; ++i) {
    const std::string path = "/f" + std::to_string(i);
    setup.push_back(create(path));
    for (std::uint32_t block = 0; block < 150; ++block) {
      setup.push_back(write(path, 2 * block * kB, kB, 1000 * i + block + 1));
    }
    setup.push_back(named(Act::kSync, ""));
  }
  return make_image(60, 16, setup);
}

Image mixed_image() {
  device::Geometry geometry;
  for (std::uint32_t i = 0; i < 30; ++i) {
    const bool is_conventional = i % 5 == 4 || i == 15 || i == 16;
    geometry.band_blocks.push_back(i % 7 == 6 ? 0 : 16 + i % 3 * 4);
    geometry.band_kinds.push_back(is_conventional ? device::BandKind::kConventional
                                                  : device::BandKind::kShingled);
  }
  device::MemoryDevice device(geometry, {.set_write_pointer = false, .max_open_bands = 8});
  Workload setup;
  for (std::uint32_t i = 0; i < 5; ++i) {
    const std::string path = "/f" + std::to_string(i);
    setup.push_back(create(path));
    setup.push_back(write(path, 0, 20 * kB, i + 1));
    setup.push_back(set_xattr(path, "user.long", 900));
    setup.push_back(named(Act::kSync, ""));
  }
  return make_image(device, setup);
}

// ---- All sequences ------------------------------------------------------------------------------

std::vector<Operation> alphabet() {
  return {
      create("/n"),
      create("/d/n"),
      write("/a", 0, kB),           // a whole block
      write("/a", 5000, 100),       // within a block
      write("/a", 4000, 5000),      // over an edge
      write("/b", 10, 20),          // within the tree
      write("/a", kAtEnd, 3000),    // within the last block
      write("/a", kAtEnd, 3 * kB),  // past the last block
      write("/b", kAtEnd, 900),     // moves inline data out of the tree
      write("/d/c", 6 * kB, 10),    // after a hole
      write("/n", 0, 6000),         // in a file that an earlier operation has created
      write("/n", 0, 2500),         // inline after an fsync
      write("/t", kAtEnd, 100),     // within the inline block
      write("/t", kAtEnd, 3000),    // past it: the next block is inline after an fsync
      write("/t", kAtEnd, 3 * kB),  // past it, too far for that
      truncate("/a", 0),
      truncate("/a", 4100),
      truncate("/a", kB),
      truncate("/a", 20'000),
      truncate("/b", 5),
      truncate("/t", 2 * kB + 1030),  // within the second piece of the inline block
      truncate("/t", 2 * kB),
      truncate("/t", 4 * kB),
      truncate("/b", 2 * kB),
      range(Act::kPunch, "/a", 100, 6000),  // a whole block and parts of two
      range(Act::kPunch, "/a", 8192, 50'000),
      range(Act::kPunch, "/b", 100, 100),
      range(Act::kPunch, "/t", 2 * kB, 1500),
      range(Act::kZero, "/t", kB + 100, 5000),
      range(Act::kPunch, "/d/c", 0, 3 * kB),
      range(Act::kZero, "/a", 4000, 20'000),
      range(Act::kZero, "/b", 200, 600),
      range(Act::kZero, "/a", 9000, 9000),
      range(Act::kZero, "/b", 0, 2 * kB),
      copy("/a", 0, "/n", 0, 20'000),           // the whole file, to a new file
      copy("/d/c", 0, "/a", 0, 3 * kB),         // the whole file, over a shorter file
      copy("/a", 0, "/d/c", 0, 20'000),         // over the beginning of a longer file
      copy("/d/c", kB, "/a", 5 * kB, 2 * kB),   // a part, past the end
      copy("/a", 100, "/d/c", kB + 100, 9900),  // from within a block to within the last one
      copy("/d/c", 10, "/a", 4000, 6000),       // to another offset within a block
      copy("/d/c", 0, "/d/c", 4 * kB, 2 * kB),  // within one file
      copy("/a", 0, "/b", 0, kB),               // over a file with inline data
      copy("/b", 0, "/a", kB, 300),             // from a file with inline data
      copy("/t", 0, "/n", 0, 20'000),           // whose inline block moves to a band
      copy("/a", 0, "/t", 0, 20'000),           // over an inline block
      named(Act::kLink, "/a", "/n"),
      named(Act::kLink, "/b", "/d/n"),
      named(Act::kUnlink, "/a"),
      named(Act::kUnlink, "/b"),
      named(Act::kUnlink, "/d/c"),
      named(Act::kUnlink, "/h"),
      named(Act::kUnlink, "/s"),
      named(Act::kRename, "/a", "/n"),
      named(Act::kRename, "/a", "/b"),
      named(Act::kRename, "/b", "/d/c"),
      named(Act::kRename, "/d/c", "/a"),
      named(Act::kRename, "/n", "/a"),
      named(Act::kRename, "/d", "/e"),
      named(Act::kRename, "/e", "/d/e"),
      named(Act::kRename, "/d", "/n"),
      named(Act::kExchange, "/a", "/d/c"),
      named(Act::kExchange, "/d", "/b"),
      named(Act::kWhiteout, "/a", "/n"),
      named(Act::kWhiteout, "/b", "/d/c"),
      named(Act::kWhiteout, "/d", "/e"),
      named(Act::kMakeDirectory, "/n"),
      named(Act::kMakeDirectory, "/d/n"),
      named(Act::kRemoveDirectory, "/e"),
      named(Act::kRemoveDirectory, "/n"),
      named(Act::kSymlink, "/n", "a"),
      named(Act::kSymlink, "/e/n", std::string(1500, 't')),
      set_xattr("/a", "user.x", 60),
      set_xattr("/b", "user.y", 3000),
      set_xattr("/d", "user.z", 1),
      named(Act::kRemoveXattr, "/a", "user.x"),
      {.act = Act::kChangeMode, .path = "/a", .offset = 0600},
      flags("/a", fs::kImmutable),
      flags("/a", 0),
      flags("/d", fs::kAppendOnly | fs::kNoDump),
      named(Act::kFsync, "/a"),
      named(Act::kFsync, "/b"),
      named(Act::kFsync, "/t"),
      named(Act::kFsync, "/n"),
      named(Act::kDataSync, "/a"),
      named(Act::kHold, "/a"),
      named(Act::kFsyncDirectory, "/d"),
      named(Act::kSync, ""),
      named(Act::kTick, ""),
      named(Act::kCollect, ""),
  };
}

Workload sequence(const Operation& only) { return tagged({only, named(Act::kSync, "")}, 100); }

Workload sequence(const Operation& first, Between between, const Operation& second) {
  Workload workload{first};
  if (between == Between::kTick) workload.push_back(named(Act::kTick, ""));
  if (between == Between::kFsync) workload.push_back(named(Act::kFsync, first.path));
  if (between == Between::kSync) workload.push_back(named(Act::kSync, ""));
  workload.push_back(second);
  workload.push_back(named(Act::kSync, ""));
  return tagged(std::move(workload), 100);
}

// ---- At random ----------------------------------------------------------------------------------

namespace {

const std::vector<std::string> kFiles{"/a",   "/b",   "/n",   "/h",  "/t",
                                      "/d/c", "/d/n", "/d/x", "/e/n"};
const std::vector<std::string> kFolders{"/d", "/e", "/d/x", "/n", "/e/n"};
const std::vector<std::uint64_t> kSizes{0, 1, 100, 1000, 1024, 1025, 4095, 4096, 4097,
                                        8192, 10'000, 12'288, 20'000};

// Returns whole blocks more often than other lengths.
Operation random_copy(std::mt19937_64& random, const std::vector<std::string>& files,
                      std::uint64_t blocks) {
  const std::uint64_t skip = random() % 4 == 0 ? random() % kB : 0;
  const std::uint64_t to_skip = random() % 4 == 0 ? random() % kB : skip;
  const std::uint64_t length = (1 + random() % blocks) * kB - (random() % 3 == 0 ? 700 : 0);
  return copy(one_of(random, files), random() % blocks * kB + skip, one_of(random, files),
              random() % blocks * kB + to_skip, length);
}

// Flags that refuse changes are rare: they would stop the rest of the workload.
Operation random_attribute(std::mt19937_64& random, const std::string& file,
                           const std::string& folder) {
  switch (random() % 4) {
    case 0: return named(Act::kRemoveXattr, file, "user.x");
    case 1: return {.act = Act::kChangeMode, .path = file, .offset = random() % 512};
    case 2: return flags(random() % 2 == 0 ? file : folder, random() % (fs::kAllFlags + 1));
    default: return flags(file, random() % 2 == 0 ? 0 : fs::kNoDump);
  }
}

Operation random_change(std::mt19937_64& random) {
  const std::string& file = one_of(random, kFiles);
  const std::string& other = one_of(random, kFiles);
  const std::string& folder = one_of(random, kFolders);
  const bool appends = random() % 4 == 0;
  switch (random() % 28) {
    case 24:
    case 25:
    case 26: return random_copy(random, kFiles, 4);
    case 27: return copy(file, 0, other, 0, 100'000);
    case 22:
    case 23: {
      constexpr Act kRanges[] = {Act::kPunch, Act::kZero};
      return range(kRanges[random() % 2], file, one_of(random, kSizes) + random() % 3 * 700,
                   1 + one_of(random, kSizes));
    }
    case 20: return named(Act::kHold, file);
    case 21: {
      Operation held = write("", one_of(random, kSizes), 1 + one_of(random, kSizes));
      held.act = Act::kWriteHeld;
      return held;
    }
    case 0:
    case 1: return create(file);
    case 2: return truncate(file, one_of(random, kSizes));
    case 3: return named(Act::kLink, file, other);
    case 4:
    case 5: return named(Act::kUnlink, file);
    case 6:
    case 7: return named(Act::kRename, file, other);
    case 8:
      return named(random() % 4 == 0 ? Act::kWhiteout : Act::kRename, folder,
                   one_of(random, kFolders));
    case 9: return named(Act::kExchange, file, random() % 2 == 0 ? other : folder);
    case 10: return named(Act::kMakeDirectory, folder);
    case 11: return named(Act::kRemoveDirectory, folder);
    case 12: return named(Act::kSymlink, file, std::string(1 + random() % 1500, 'l'));
    case 13: return set_xattr(file, "user.x", one_of(random, kSizes));
    case 14: return random_attribute(random, file, folder);
    default:
      return write(file, appends ? kAtEnd : one_of(random, kSizes) + random() % 3 * 700,
                   1 + one_of(random, kSizes));
  }
}

Operation random_sync(std::mt19937_64& random, const std::vector<std::string>& files) {
  switch (random() % 5) {
    case 0: return named(Act::kFsync, one_of(random, files));
    case 4: return named(Act::kDataSync, one_of(random, files));
    case 1: return named(Act::kTick, "");
    case 2: return named(Act::kFsyncDirectory, "/");
    default: return named(Act::kSync, "");
  }
}

std::vector<std::string> numbered(std::string_view prefix, int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.push_back(std::string(prefix) + std::to_string(i));
  return names;
}

}  // namespace

Workload random_workload(std::mt19937_64& random, std::size_t length) {
  Workload workload;
  while (workload.size() < length) {
    const std::uint64_t dice = random() % 16;
    workload.push_back(dice == 0   ? named(Act::kCollect, "")
                       : dice <= 3 ? random_sync(random, kFiles)
                                   : random_change(random));
  }
  return tagged(std::move(workload), 100);
}

Workload wearing_workload(std::mt19937_64& random, std::size_t length) {
  static const std::vector<std::string> files = numbered("/f", 7);
  Workload workload;
  while (workload.size() < length) {
    const std::string& file = one_of(random, files);
    switch (random() % 16) {
      case 13:
      case 14: workload.push_back(random_copy(random, files, 14)); break;
      case 15: workload.push_back(copy(file, 0, one_of(random, files), 0, 100 * kB)); break;
      case 0: workload.push_back(named(Act::kCollect, "")); break;
      case 1:
      case 2: workload.push_back(random_sync(random, files)); break;
      case 12:
        workload.push_back(range(Act::kPunch, file, random() % 14 * 3000, random() % 14 * 3000));
        break;
      case 3: workload.push_back(create(file)); break;
      case 4: workload.push_back(named(Act::kUnlink, file)); break;
      case 5: workload.push_back(truncate(file, random() % 14 * 3000)); break;
      case 6: workload.push_back(named(Act::kRename, file, one_of(random, files))); break;
      default: workload.push_back(write(file, random() % 14 * kB, (1 + random() % 5) * kB)); break;
    }
  }
  return tagged(std::move(workload), 1000);
}

Workload crowding_workload(std::mt19937_64& random, std::size_t length) {
  static const std::vector<std::string> files = numbered("/f", 28);
  const bool shrinks = random() % 2 == 0;
  Workload workload;
  while (workload.size() < length) {
    const std::string& file = one_of(random, files);
    switch (random() % 11) {
      case 10: workload.push_back(random_copy(random, files, 2)); break;
      case 0:
      case 1: workload.push_back(random_sync(random, files)); break;
      case 2: workload.push_back(named(Act::kRename, file, one_of(random, files))); break;
      case 3: workload.push_back(write(file, random() % 3 * 3000, 1 + random() % 5000)); break;
      case 4: workload.push_back(named(Act::kUnlink, file)); break;
      case 5: workload.push_back(shrinks ? named(Act::kUnlink, file) : create(file)); break;
      default:
        workload.push_back(create(file));
        workload.push_back(set_xattr(file, "user.long", 300 + random() % 700));
        break;
    }
  }
  return tagged(std::move(workload), 1000);
}

Workload filling_workload(std::mt19937_64& random, std::size_t length) {
  static const std::vector<std::string> files{"/big", "/x", "/y"};
  Workload workload;
  while (workload.size() < length) {
    const std::string& file = one_of(random, files);
    switch (random() % 12) {
      case 10:
      case 11: workload.push_back(random_copy(random, files, 100)); break;
      case 0:
      case 1: workload.push_back(random_sync(random, files)); break;
      case 2: workload.push_back(create(file)); break;
      case 3: workload.push_back(truncate(file, random() % 200 * kB)); break;
      case 4: workload.push_back(named(Act::kUnlink, random() % 4 == 0 ? "/big" : "/x")); break;
      default:
        workload.push_back(write(file, random() % 200 * kB, (1 + random() % 20) * kB));
        break;
    }
  }
  return tagged(std::move(workload), 1000);
}

Workload cutting_workload(std::mt19937_64& random, std::size_t length) {
  static const std::vector<std::string> files = numbered("/f", 4);
  Workload workload;
  while (workload.size() < length) {
    const std::string& file = one_of(random, files);
    switch (random() % 10) {
      case 8: workload.push_back(random_copy(random, files, 150)); break;
      case 9: workload.push_back(copy(file, 0, one_of(random, files), 0, 400 * kB)); break;
      case 0: workload.push_back(random_sync(random, files)); break;
      case 1: workload.push_back(named(Act::kUnlink, file)); break;
      case 2: workload.push_back(named(Act::kRename, file, one_of(random, files))); break;
      case 3: workload.push_back(create(file)); break;
      case 4: workload.push_back(named(Act::kTick, "")); break;
      case 5: workload.push_back(write(file, random() % 300 * kB, 1 + random() % 9000)); break;
      default: workload.push_back(truncate(file, random() % 300 * 4000)); break;
    }
  }
  return tagged(std::move(workload), 10'000);
}

Workload remounting_workload(std::mt19937_64& random, std::size_t length) {
  Workload workload;
  while (workload.size() < length) {
    switch (random() % 8) {
      case 0:
      case 1: workload.push_back(named(Act::kRemount, "")); break;
      case 2: workload.push_back(named(Act::kKill, "")); break;
      case 3: workload.push_back(random_sync(random, kFiles)); break;
      default: workload.push_back(random_change(random)); break;
    }
  }
  return tagged(std::move(workload), 100);
}

}  // namespace lazyfs::crash
