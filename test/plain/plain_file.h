// A sparse file for the layout of a plain block device. The test removes it at its end.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "plain/create.h"
#include "plain/plain_device.h"
#include "test/support/loop_device.h"

namespace lazyfs::plain {

class PlainFile {
 public:
  explicit PlainFile(std::uint64_t bytes) {
    path_ = test_directory() + "/lazyfs-plain-XXXXXX";
    close(mkstemp(path_.data()));
    std::filesystem::resize_file(path_, bytes);
  }
  PlainFile(PlainFile&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  ~PlainFile() {
    if (!path_.empty()) std::filesystem::remove(path_);
  }
  const std::string& path() const { return path_; }

  std::uint64_t allocated_bytes() const {
    struct stat st {};
    return stat(path_.c_str(), &st) == 0 ? static_cast<std::uint64_t>(st.st_blocks) * 512 : 0;
  }
  void overwrite(std::uint64_t at, std::size_t length, char byte = 0) {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at));
    file << std::string(length, byte);
  }
  std::string bytes(std::uint64_t at, std::size_t length) const {
    std::ifstream file(path_, std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    std::string bytes(length, '\0');
    file.read(bytes.data(), static_cast<std::streamsize>(length));
    return bytes;
  }

 private:
  std::string path_;
};

}  // namespace lazyfs::plain
