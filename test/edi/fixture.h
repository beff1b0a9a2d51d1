// Image files that the test removes at its end, and blocks of known contents.
#pragma once

#include <gtest/gtest.h>

#include <fstream>

#include "base/buffer.h"
#include "edi/create.h"
#include "edi/image.h"
#include "test/support/test_folder.h"

namespace lazyfs::edi {

inline AlignedBuffer blocks_of(std::size_t count, unsigned char fill) {
  AlignedBuffer buffer(count * kBlockBytes);
  std::fill(buffer.span().begin(), buffer.span().end(), std::byte{fill});
  return buffer;
}

class ImageTest : public ::testing::Test {
 protected:
  static constexpr BandId kBand{2};

  std::string path(const std::string& name = "disk.edi") const { return folder_ / name; }

  void make(CreateOptions options) {
    ASSERT_TRUE(create(path(), options));
  }
  void make_again(CreateOptions options) {
    options.overwrite = true;
    make(std::move(options));
  }
  static CreateOptions uniform(std::uint32_t bands, std::uint32_t blocks,
                               std::uint32_t format = 1) {
    return {.format = format, .zones = {{bands, blocks}}};
  }
  std::unique_ptr<Image> open_or_die(OpenOptions options = {}) {
    auto image = open_image(path(), options);
    if (!image) ADD_FAILURE() << name_of(image.error());
    return image ? *std::move(image) : nullptr;
  }
  Errc open_error(OpenOptions options = {}) {
    auto image = open_image(path(), options);
    return image ? Errc::kInternal : image.error();
  }

  // Inverts a bit.
  void flip(std::uint64_t at, unsigned bit = 0) {
    std::fstream file(path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const char byte = static_cast<char>(file.get() ^ (1 << bit));
    file.seekp(static_cast<std::streamoff>(at));
    file.put(byte);
    ASSERT_TRUE(file.good());
  }

  const TestFolder folder_;
};

}  // namespace lazyfs::edi
