#include "fuse/requests/hole_seek.h"

namespace lazyfs::fuse {
namespace {

// More are needed only while another program fills the file.
constexpr int kHolesMax = 1000;

bool is_no_range(const Result<std::uint64_t>& found) {
  return !found && found.error() == Errc::kNoSuchRange;
}

// Writes out from `from` to the next data.
Result<> write_out_hole(const SeekableFile& file, std::uint64_t from) {
  const auto data = file.find_data(from);
  if (!data && !is_no_range(data)) return fail(data.error());
  if (!data || *data > from) file.write_out(from, data ? *data : kEndOfFile);
  return ok();
}

}  // namespace

Result<std::uint64_t> seek_data(const SeekableFile& file, std::uint64_t offset) {
  TRY(write_out_hole(file, offset));
  return file.find_data(offset);
}

Result<std::uint64_t> seek_hole(const SeekableFile& file, std::uint64_t offset) {
  auto hole = file.find_hole(offset);
  for (int holes = 0; holes < kHolesMax; ++holes) {
    if (!hole && !is_no_range(hole)) return hole;
    const std::uint64_t from = hole ? *hole : offset;
    TRY(write_out_hole(file, from));
    hole = file.find_hole(offset);
    if (hole ? *hole == from : is_no_range(hole)) return hole;
  }
  return hole;
}

}  // namespace lazyfs::fuse
