// A text file, plain or compressed by xz, read line by line. Not thread-safe.
#pragma once

#include <expected>
#include <memory>
#include <optional>
#include <string>

namespace lazyfs::sim {

class TextFile {
 public:
  // The error says why the file cannot be opened.
  static std::expected<std::unique_ptr<TextFile>, std::string> open(const std::string& path);
  virtual ~TextFile() = default;

  // Returns the next line without its newline, or nothing at the end. The error says why reading
  // failed.
  std::expected<std::optional<std::string>, std::string> line();

 protected:
  // Returns up to some thousand bytes; none at the end.
  virtual std::expected<std::string, std::string> chunk() = 0;

 private:
  std::string text_;
  std::size_t at_ = 0;
};

}  // namespace lazyfs::sim
