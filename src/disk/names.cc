#include "disk/names.h"

#include "plain/plain_device.h"

namespace lazyfs::disk {

std::optional<VolumeName> name_on(const device::Device& device) {
  const auto* const found = dynamic_cast<const plain::PlainDevice*>(&device);
  if (!found) return std::nullopt;
  return VolumeName{found->identity().uuid, found->identity().label};
}

Result<> write_name(device::Device& device, const VolumeName& name) {
  const auto* const found = dynamic_cast<const plain::PlainDevice*>(&device);
  if (!found) return ok();
  plain::Identity identity = found->identity();
  identity.uuid = name.uuid;
  identity.label = name.label;
  ++identity.generation;
  return plain::write_identity(found->backing(), identity);
}

}  // namespace lazyfs::disk
