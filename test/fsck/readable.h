// The readable contents of a volume: mounts it for reading, and visits every name.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <map>
#include <string>
#include <vector>

#include "test/fsck/sample_volume.h"
#include "fs/volume/volume.h"

namespace lazyfs::fsck {

// Contents by inode: of files and symbolic links that can be read from their beginning to their
// end. The device's store must not be open for writing.
class Readable {
 public:
  using Contents = std::map<std::uint64_t, std::string>;

  static Contents of(device::Device& device) {
    FixedClock clock;
    const auto volume = Volume::mount(device, {.read_only = true, .background = false}, clock);
    Readable readable;
    if (!volume) return {};
    readable.visit(**volume, kRootInode, 0);
    ignore_error((*volume)->unmount(), "nothing was written");
    return readable.contents_;
  }

 private:
  static constexpr int kMaxDepth = 16;  // a damaged tree may have cycles

  void visit(Volume& volume, InodeNo directory, int depth) {
    if (depth > kMaxDepth) return;
    const auto entries = volume.read_directory(directory, 0, 100'000);
    if (!entries) return;
    for (const DirectoryEntry& entry : *entries) {
      const auto attributes = volume.lookup(directory, entry.name);
      if (!attributes) continue;
      if (S_ISDIR(attributes->mode)) visit(volume, attributes->inode, depth + 1);
      if (S_ISREG(attributes->mode)) read(volume, *attributes);
      if (S_ISLNK(attributes->mode)) {
        const auto target = volume.read_link(attributes->inode);
        if (target) contents_[attributes->inode.value] = *target;
      }
      volume.forget(attributes->inode, 1);
    }
  }

  void read(Volume& volume, const Attributes& attributes) {
    if (attributes.size > 1 << 24) return;
    std::string bytes(attributes.size, '?');
    const auto done = volume.read(attributes.inode, 0, std::as_writable_bytes(std::span(bytes)));
    if (done && *done == bytes.size()) contents_[attributes.inode.value] = bytes;
  }

  Contents contents_;
};

}  // namespace lazyfs::fsck
