#include "data/verified_read.h"

#include "base/check.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "base/test_hook.h"

namespace lazyfs::data {
namespace {

// The first block that does not match its checksum, or crcs.size().
std::size_t first_wrong(std::span<const std::uint32_t> crcs, std::span<const std::byte> bytes) {
  for (std::size_t i = 0; i < crcs.size(); ++i) {
    if (crc32c(bytes.subspan(i * kBlockBytes, kBlockBytes)) != crcs[i]) return i;
  }
  return crcs.size();
}

}  // namespace

Result<> read_verified(device::Device& device, BandAddress from,
                       std::span<const std::uint32_t> crcs, std::span<std::byte> to) {
  CHECK(to.size() == crcs.size() * kBlockBytes);
  TRY(device.read(from, to));
  if (rule_is_disabled(Rule::kVerifyData)) return ok();
  std::size_t wrong = first_wrong(crcs, to);
  if (wrong == crcs.size()) return ok();
  device.forget_copies(from.band);
  TRY(device.read(from, to));
  wrong = first_wrong(crcs, to);
  if (wrong == crcs.size()) {
    log::warn("band {} blocks from {} on: were wrong when they were read first", from.band.value,
              from.rba);
    return ok();
  }
  log::error("band {} block {}: checksum is {:08x}, expected {:08x}", from.band.value,
             from.rba + wrong, crc32c(to.subspan(wrong * kBlockBytes, kBlockBytes)), crcs[wrong]);
  return fail(Errc::kDataChecksumBad);
}

}  // namespace lazyfs::data
