// Files of one test.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>

namespace lazyfs {

// A new folder, which the destructor removes with all that it holds. The folder is in the working
// directory and not in /tmp: /tmp may be a tmpfs, and some tests need direct I/O.
class TestFolder {
 public:
  TestFolder() {
    std::string pattern = (std::filesystem::current_path() / "lazyfs-test-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) std::abort();
    path_ = pattern;
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

// Overwrites a part of an existing file.
inline void overwrite_file(const std::string& path, std::uint64_t at,
                           std::span<const std::byte> bytes) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(at));
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  ASSERT_TRUE(file.good());
}

}  // namespace lazyfs
