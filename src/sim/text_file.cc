#include "sim/text_file.h"

#include <lzma.h>

#include <array>
#include <cstdio>
#include <utility>

namespace lazyfs::sim {
namespace {

constexpr std::size_t kChunkBytes = 1 << 16;
constexpr std::string_view kXzMagic("\xFD" "7zXZ\0", 6);
// A line of a trace has at most some hundred bytes.
constexpr std::size_t kLineBytesMax = 1 << 16;

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

class PlainText final : public TextFile {
 public:
  explicit PlainText(File file) : file_(std::move(file)) {}

 private:
  std::expected<std::string, std::string> chunk() override {
    std::string bytes(kChunkBytes, '\0');
    bytes.resize(std::fread(bytes.data(), 1, bytes.size(), file_.get()));
    if (std::ferror(file_.get())) return std::unexpected("cannot be read");
    return bytes;
  }

  const File file_;
};

class XzText final : public TextFile {
 public:
  explicit XzText(File file) : file_(std::move(file)) {
    ready_ = lzma_stream_decoder(&stream_, UINT64_MAX, LZMA_CONCATENATED) == LZMA_OK;
  }
  ~XzText() override { lzma_end(&stream_); }

 private:
  std::expected<std::string, std::string> chunk() override {
    std::string bytes(kChunkBytes, '\0');
    stream_.next_out = reinterpret_cast<std::uint8_t*>(bytes.data());
    stream_.avail_out = bytes.size();
    // Each turn consumes input or fills the output; at the end of the input LZMA_FINISH ends it.
    while (ready_ && !ended_ && stream_.avail_out == bytes.size()) {
      if (stream_.avail_in == 0 && !std::feof(file_.get())) {
        stream_.next_in = input_.data();
        stream_.avail_in = std::fread(input_.data(), 1, input_.size(), file_.get());
        if (std::ferror(file_.get())) return std::unexpected("cannot be read");
      }
      const auto action = std::feof(file_.get()) ? LZMA_FINISH : LZMA_RUN;
      const lzma_ret status = lzma_code(&stream_, action);
      ended_ = status == LZMA_STREAM_END;
      ready_ = ended_ || status == LZMA_OK;
    }
    if (!ready_) return std::unexpected("the compressed data are damaged or cut off");
    bytes.resize(bytes.size() - stream_.avail_out);
    return bytes;
  }

  const File file_;
  std::array<std::uint8_t, kChunkBytes> input_;
  lzma_stream stream_ = LZMA_STREAM_INIT;
  bool ready_ = false, ended_ = false;
};

}  // namespace

std::expected<std::unique_ptr<TextFile>, std::string> TextFile::open(const std::string& path) {
  File file(std::fopen(path.c_str(), "rbe"));
  if (!file) return std::unexpected("cannot be opened");
  std::array<char, kXzMagic.size()> start{};
  const std::size_t got = std::fread(start.data(), 1, start.size(), file.get());
  std::rewind(file.get());
  const bool is_xz = std::string_view(start.data(), got) == kXzMagic;
  if (is_xz) return std::make_unique<XzText>(std::move(file));
  return std::make_unique<PlainText>(std::move(file));
}

std::expected<std::optional<std::string>, std::string> TextFile::line() {
  while (true) {
    const auto newline = text_.find('\n', at_);
    if (newline != text_.npos) {
      std::string found = text_.substr(at_, newline - at_);
      at_ = newline + 1;
      return found;
    }
    text_.erase(0, at_);
    at_ = 0;
    if (text_.size() > kLineBytesMax) return std::unexpected("the line is too long");
    auto more = chunk();
    if (!more) return std::unexpected(more.error());
    if (more->empty()) {
      if (text_.empty()) return std::nullopt;
      return std::exchange(text_, std::string());
    }
    text_ += *more;
  }
}

}  // namespace lazyfs::sim
