// The commands of lazyfsctl about volumes, mounted or not: info, list, label, uuid.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace lazyfs {

// Throws std::runtime_error("what: why").
[[noreturn]] void fail_with(const std::string& what, std::string_view why);

// Each throws std::runtime_error with "what: why".

// `path`: a device, an image, or any file or directory on a mount.
void print_info(const std::string& path, bool as_json);
// What print_info() prints: fs::to_json(VolumeInfo), and path and mounted_on before it.
Json info_of(const std::string& path);
// Every mount that this process sees.
void print_mounts(bool as_json);

// The mount point of the lazyfs that is mounted from `path`, or that `path` is on; `path` itself if
// it is a directory elsewhere. Throws if it is an image or a device that is not mounted.
std::string mount_point_of(const std::string& path);

// The mount point of the only lazyfs that this process sees. Throws if it sees none, or several.
std::string only_mount_point();

// The device or image of the lazyfs that `path` is on.
std::optional<std::string> source_of(const std::string& path);

// The mount point of the lazyfs that is mounted from the device or image.
std::optional<std::string> mounted_from(const std::string& device);

// Both print the present value if no new one is given. A new value needs a volume that is not
// mounted and has ended cleanly. The UUID "random" makes a random one; the label "" removes the
// label.
void label_command(const std::string& path, const std::optional<std::string>& value);
void uuid_command(const std::string& path, const std::optional<std::string>& value);

}  // namespace lazyfs
