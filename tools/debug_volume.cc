#include "tools/debug_volume.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <optional>
#include <stdexcept>
#include <utility>

#include "disk/names.h"
#include "disk/open.h"
#include "fsck/repair.h"
#include "tools/overlay_device.h"
#include "tools/words.h"

namespace lazyfs {
namespace {

fs::MountOptions to_look() { return {.read_only = true, .background = false}; }

[[noreturn]] void refuse(const std::string& what, Errc why) {
  throw std::runtime_error(what + ": " + std::string(describe(why)));
}

// `uuid`: the volume's, if an identification block names it.
fsck::RepairReport repair_in_memory(device::Device& overlay,
                                    const std::optional<meta::Uuid>& uuid) {
  const auto listener = [](const std::string& text) {
    std::fprintf(stderr, "lazyfs-debug: repaired in memory: %s\n", printable(text).c_str());
  };
  const auto store = fsck::open_for_repair(
      overlay, listener, {.background = false, .new_uuid = uuid});
  if (!store) refuse(overlay.name(), store.error());
  fsck::RepairReport repaired = fsck::repair(**store, overlay, system_clock(), listener);
  if (!repaired.result) refuse(overlay.name(), repaired.result.error());
  if (const auto closed = (*store)->close(); !closed) refuse(overlay.name(), closed.error());
  return repaired;
}

void use_mounted(fs::Volume& volume, const fsck::RepairReport& repaired, const VolumeUse& use) {
  use(volume, repaired);
  ignore_error(volume.unmount(), "nothing was changed");
}

}  // namespace

std::unique_ptr<device::Device> open_to_look(const std::string& path) {
  auto device = disk::open(path, {.read_only = true, .exclusive = false});
  if (!device) refuse(path, device.error());
  return std::move(*device);
}

void use_volume(device::Device& device, bool repaired, const VolumeUse& use) {
  if (!repaired) {
    const auto volume = fs::Volume::mount(device, to_look());
    if (volume) return use_mounted(**volume, {}, use);
    std::fprintf(stderr, "lazyfs-debug: %s: %s\n", printable(device.name()).c_str(),
                 std::string(describe(volume.error())).c_str());
  }
  OverlayDevice overlay(device);
  const auto name = disk::name_on(device);
  const fsck::RepairReport report =
      repair_in_memory(overlay, name ? std::optional(name->uuid) : std::nullopt);
  const auto volume = fs::Volume::mount(overlay, to_look());
  if (!volume) refuse(device.name(), volume.error());
  use_mounted(**volume, report, use);
}

fs::Attributes find_inode(fs::Volume& volume, const std::string& where) {
  std::uint64_t number = 0;
  const auto parsed = std::from_chars(where.data(), where.data() + where.size(), number);
  if (parsed.ec == std::errc() && parsed.ptr == where.data() + where.size()) {
    const auto found = volume.lookup_inode(InodeNo{number});
    if (!found) refuse("inode " + where, found.error());
    return *found;
  }
  auto found = volume.get_attributes(fs::kRootInode);
  std::size_t at = 0;
  while (found && at < where.size()) {
    const std::size_t end = std::min(where.find('/', at), where.size());
    if (end > at) found = volume.lookup(found->inode, where.substr(at, end - at));
    at = end + 1;
  }
  if (!found) refuse(where, found.error());
  return *found;
}

}  // namespace lazyfs
