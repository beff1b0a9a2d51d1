#include "sim/load.h"

#include "base/check.h"
#include "base/size.h"

namespace lazyfs::sim {
namespace {

constexpr std::uint64_t kBlockBytesMax = std::uint64_t{UINT32_MAX} * kSectorBytes;

bool set_kind(LoadOptions& options, std::string_view value) {
  options.is_random = value.starts_with("rand");
  if (options.is_random) value.remove_prefix(4);
  options.op = value == "read" ? Op::kRead : Op::kWrite;
  return value == "read" || value == "write";
}

bool set_size(std::uint64_t& to, std::string_view value) {
  const auto size = parse_size(value);
  to = size.value_or(0);
  return size && *size > 0 && *size % kSectorBytes == 0;
}

bool set_number(std::uint64_t& to, std::string_view value) {
  const auto number = parse_size(value);
  to = number.value_or(0);
  return number.has_value();
}

bool set(LoadOptions& options, std::string_view name, std::string_view value) {
  std::uint64_t number = 0;
  if (name == "rw") return set_kind(options, value);
  if (name == "bs") return set_size(options.block_bytes, value);
  if (name == "range") return set_size(options.range_bytes, value);
  if (name == "count") return set_number(options.count, value) && options.count > 0;
  if (name == "seed") return set_number(options.seed, value);
  if (name == "sync") {
    options.is_synced = value == "1";
    return value == "0" || value == "1";
  }
  if (name == "depth") {
    if (!set_number(number, value) || number == 0 || number > 100'000) return false;
    options.depth = static_cast<std::uint32_t>(number);
    return true;
  }
  return false;
}

}  // namespace

std::expected<LoadOptions, std::string> parse_load(std::string_view text) {
  LoadOptions options;
  bool has_kind = false;
  while (!text.empty()) {
    const auto comma = text.find(',');
    const std::string_view word = text.substr(0, comma);
    text.remove_prefix(comma == text.npos ? text.size() : comma + 1);
    const auto equals = word.find('=');
    const std::string_view name = word.substr(0, equals);
    const std::string_view value =
        equals == word.npos ? std::string_view() : word.substr(equals + 1);
    has_kind = has_kind || name == "rw";
    if (!set(options, name, value)) return std::unexpected("'" + std::string(word) + "'");
  }
  if (!has_kind) return std::unexpected("rw= is missing");
  if (options.count == 0) return std::unexpected("count= is missing");
  if (options.block_bytes > kBlockBytesMax) return std::unexpected("bs= is too large");
  return options;
}

Load::Load(const LoadOptions& options, std::uint64_t disk_sectors)
    : options_(options),
      blocks_((options.range_bytes ? options.range_bytes : disk_sectors * kSectorBytes) /
              options.block_bytes),
      random_(options.seed) {
  CHECK(blocks_ > 0);
}

std::optional<Request> Load::next() {
  Request request;
  if (owes_flush_) {
    owes_flush_ = false;
    request.op = Op::kFlush;
    return request;
  }
  if (made_ == options_.count) return std::nullopt;
  const std::uint64_t block = options_.is_random ? random_.below(blocks_) : made_ % blocks_;
  ++made_;
  owes_flush_ = options_.is_synced && options_.op == Op::kWrite;
  request.op = options_.op;
  request.sectors = static_cast<std::uint32_t>(options_.block_bytes / kSectorBytes);
  request.sector = block * request.sectors;
  return request;
}

}  // namespace lazyfs::sim
