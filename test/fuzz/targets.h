// Fuzz targets: everything that reads bytes from a disk. Each target takes any bytes and makes its
// reader's input of them, with correct checksums, so that the code after the checksums is reached.
// A target that finds an error ends the process.
//
// libfuzzer.cc makes a fuzzer of each, for clang, which run.sh runs; keep.sh takes the inputs that
// they found into corpus/, and replay_test.cc runs those.
#pragma once

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <span>

namespace lazyfs::fuzz {

using Bytes = std::span<const std::byte>;

void superblock(Bytes input);
void log(Bytes input);    // the first byte says which kind of block; checkpoints of several blocks
void node(Bytes input);   // a tree node, which is then changed as a tree does
void items(Bytes input);  // the first byte is the item's kind
void edi(Bytes input);    // the header of an image: decoded, and opened as a file
void image(Bytes input);  // a volume with changes: checked, mounted and read, repaired (image.cc)

struct Target {
  const char* name;
  void (*run)(Bytes input);
};
inline constexpr Target kTargets[] = {
    {"superblock", superblock}, {"log", log}, {"node", node},
    {"items", items},           {"edi", edi}, {"image", image},
};

inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz target: not so: %s\n", what);
  std::abort();
}

}  // namespace lazyfs::fuzz
