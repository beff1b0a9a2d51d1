// Reads all newest images of nodes in the order of their addresses, in long runs, and validates
// each. An image that is damaged is read twice.
#pragma once

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "device/device.h"
#include "meta/log/log.h"
#include "meta/log/second_read.h"
#include "meta/tree/node_page.h"

namespace lazyfs::meta {

using LiveImage = std::pair<NodeNo, Log::Location>;

class ImageScan {
 public:
  ImageScan(device::Device& device, std::uint32_t fs_tag)
      : device_(device), fs_tag_(fs_tag), buffer_(kRunBlocks * kBlockBytes) {}

  // Calls visit(image, sound, page) for each image. visit() may use the page only if `sound` has a
  // value, and only during the call.
  template <class Visit>
  void run(std::vector<LiveImage> live, Visit visit) {
    std::ranges::sort(live, {}, [](const LiveImage& node) { return node.second.address; });
    for (std::size_t begin = 0; begin < live.size();) {
      std::size_t end = begin + 1;
      while (end < live.size() && end - begin < kRunBlocks &&
             live[end].second.address.packed() ==
                 live[begin].second.address.packed() + (end - begin)) {
        ++end;
      }
      visit_run(std::span(live).subspan(begin, end - begin), visit);
      begin = end;
    }
  }

 private:
  static constexpr std::size_t kRunBlocks = 256;

  template <class Visit>
  void visit_run(std::span<const LiveImage> run, Visit& visit) {
    const auto bytes = buffer_.span().first(run.size() * kBlockBytes);
    const auto read = device_.read(run.front().second.address, bytes);
    if (!read && run.size() > 1) {
      for (std::size_t i = 0; i < run.size(); ++i) visit_run(run.subspan(i, 1), visit);
      return;
    }
    for (std::size_t i = 0; i < run.size(); ++i) {
      const auto& [node, place] = run[i];
      const std::span<std::byte, kBlockBytes> image(bytes.data() + i * kBlockBytes, kBlockBytes);
      auto sound = read ? validate_node(image, node, place.seq, fs_tag_) : read;
      if (!sound) {
        sound = read_again(device_, place.address, image);
        if (sound) sound = validate_node(image, node, place.seq, fs_tag_);
      }
      visit(run[i], sound, ConstNodePage(image.data()));
    }
  }

  device::Device& device_;
  const std::uint32_t fs_tag_;
  AlignedBuffer buffer_;
};

}  // namespace lazyfs::meta
