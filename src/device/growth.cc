#include "device/growth.h"

namespace lazyfs::device {

Result<std::uint64_t> size_to_fill(const Backing& backing, std::uint64_t bytes) {
  if (bytes == 0) return backing.size_bytes();
  if (backing.is_block_device()) return fail(Errc::kGrowSize);
  ASSIGN_OR_RETURN(const std::uint64_t size, backing.size_bytes());
  if (bytes < size) return fail(Errc::kGrowSmaller);
  TRY(backing.enlarge(bytes));
  return bytes;
}

Result<> write_steps(const Backing& backing, std::span<const GrowthStep> steps) {
  TRY(backing.sync());
  for (const GrowthStep& step : steps) {
    TRY(backing.write(step.at, step.bytes.span()));
    TRY(backing.sync());
  }
  return ok();
}

}  // namespace lazyfs::device
