// Finds the images of tree nodes on a device, for tests that damage some of them.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

#include "base/buffer.h"
#include "base/endian.h"
#include "device/device.h"

namespace lazyfs::fsck {

struct NodeImage {
  std::uint64_t node = 0;
  int level = 0;  // 0: a leaf
  BandAddress at;
};

// The newest image of each node, by number, including nodes that have left the tree.
inline std::vector<NodeImage> newest_images(device::Device& device) {
  struct Newest {
    std::uint64_t seq = 0;
    NodeImage image;
  };
  std::map<std::uint64_t, Newest> newest;
  AlignedBuffer block(kBlockBytes);
  for (std::uint32_t band = 2; band < device.geometry().band_count(); ++band) {
    for (std::uint32_t rba = 0; rba < *device.write_pointer(BandId{band}); ++rba) {
      const BandAddress at{BandId{band}, rba};
      if (!device.read(at, block.span())) continue;
      if (std::memcmp(block.data(), "LZND", 4) != 0) continue;
      const auto seq = load_le_at<std::uint64_t>(block.span(), 8);
      const auto node = load_le_at<std::uint64_t>(block.span(), 16);
      const int level = load_le_at<std::uint8_t>(block.span(), 24);
      if (newest[node].seq <= seq) newest[node] = {seq, {node, level, at}};
    }
  }
  std::vector<NodeImage> images;
  for (const auto& [node, found] : newest) images.push_back(found.image);
  return images;
}

}  // namespace lazyfs::fsck
