#include "disk/copies.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>

#include "disk/open.h"
#include "edi/copies.h"
#include "plain/plain_device.h"

namespace lazyfs::disk {
namespace {

using plain::PlainDevice;

Result<std::vector<std::string>> damaged_identities(const PlainDevice& device) {
  std::vector<std::string> damaged;
  const auto found = plain::find_identity(device.backing());
  if (!found && found.error() == Errc::kDeviceRead) return fail(found.error());
  if (!found || !found->first_is_good || found->identity != device.identity()) {
    damaged.push_back(fmt::format("The identification block at byte {} is damaged.",
                                  plain::kIdentityAt));
  }
  if (!found || !found->copy_is_current) {
    damaged.push_back(fmt::format(
        "The copy of the identification block at byte {} is damaged, or not the newest.",
        plain::copy_at(device.identity().volume_bytes)));
  }
  return damaged;
}

}  // namespace

Result<DamagedCopies> damaged_copies(device::Device& device) {
  DamagedCopies copies;
  if (const auto* const image = image_of(device)) {
    copies.never_written = edi::damaged_headers(*image);
    ASSIGN_OR_RETURN(copies.often_written, edi::damaged_slots(*image));
    std::ranges::move(edi::older_headers(*image), std::back_inserter(copies.often_written));
  } else if (const auto* const found = dynamic_cast<const PlainDevice*>(&device)) {
    ASSIGN_OR_RETURN(copies.never_written, damaged_identities(*found));
  }
  return copies;
}

Result<std::vector<std::string>> mend_copies(device::Device& device) {
  if (auto* const image = image_of(device)) return edi::mend_copies(*image);
  std::vector<std::string> repairs;
  const auto* const found = dynamic_cast<const PlainDevice*>(&device);
  if (!found) return repairs;
  ASSIGN_OR_RETURN(const auto damaged, damaged_identities(*found));
  if (damaged.empty()) return repairs;
  TRY(plain::write_identity(found->backing(), found->identity()));
  repairs.push_back("The identification block and its copy were rewritten.");
  return repairs;
}

}  // namespace lazyfs::disk
