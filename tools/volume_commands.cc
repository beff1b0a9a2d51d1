#include "tools/volume_commands.h"

#include <fcntl.h>
#include <libmount/libmount.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <new>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/size.h"
#include "disk/names.h"
#include "disk/open.h"
#include "fs/volume/volume_info.h"
#include "fuse/requests/control.h"
#include "meta/store/store.h"
#include "tools/answer_in_time.h"
#include "tools/block_device_claim.h"
#include "tools/uuid.h"
#include "tools/words.h"

namespace lazyfs {
namespace {

constexpr std::chrono::seconds kListTimeout{5};  // of each mount
constexpr char kNotReachable[] = "not reachable";

struct Mount {
  std::string source, point;
};

using Table = std::unique_ptr<libmnt_table, decltype(&mnt_unref_table)>;

Table read_table() {
  Table table(mnt_new_table_from_file("/proc/self/mountinfo"), &mnt_unref_table);
  if (!table) fail_with("/proc/self/mountinfo", "cannot be read");
  return table;
}

bool is_lazyfs(const char* type) {
  const std::string_view name = type ? type : "";
  return name == "fuse.lazyfs" || name == "fuseblk.lazyfs";
}

std::vector<Mount> mounts() {
  std::vector<Mount> found;
  const Table table = read_table();
  const std::unique_ptr<libmnt_iter, decltype(&mnt_free_iter)> at(mnt_new_iter(MNT_ITER_FORWARD),
                                                                 &mnt_free_iter);
  if (!at) throw std::bad_alloc();
  libmnt_fs* entry = nullptr;
  while (mnt_table_next_fs(table.get(), at.get(), &entry) == 0) {
    if (!is_lazyfs(mnt_fs_get_fstype(entry))) continue;
    const char *source = mnt_fs_get_source(entry), *point = mnt_fs_get_target(entry);
    if (source && point) found.push_back({source, point});
  }
  return found;
}

std::string absolute(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> real(realpath(path.c_str(), nullptr),
                                                         &std::free);
  return real ? std::string(real.get()) : path;
}

// The mount of a device or image. The sources are compared as they are: a daemon mounts a real
// path, and a look at the source of another mount may wait for a filesystem that hangs.
std::optional<Mount> mount_of(const std::string& device) {
  const std::string name = absolute(device);
  for (const Mount& mount : mounts()) {
    if (mount.source == name) return mount;
  }
  return std::nullopt;
}

// The mount that `path` lies on, by the names alone: libmount's mnt_table_find_mountpoint() calls
// stat(2), to which a daemon that was shut down answers with EIO.
libmnt_fs* mount_above(const Table& table, std::string path) {
  while (!path.empty()) {
    libmnt_fs* const found = mnt_table_find_target(table.get(), path.c_str(), MNT_ITER_BACKWARD);
    if (found || path == "/") return found;
    const auto slash = path.rfind('/');
    path.resize(slash == 0 ? 1 : slash == path.npos ? 0 : slash);
  }
  return nullptr;
}

// The mount of lazyfs that `path` lies on.
std::optional<Mount> mount_with(const std::string& path) {
  const Table table = read_table();
  libmnt_fs* const found = mount_above(table, absolute(path));
  if (!found || !is_lazyfs(mnt_fs_get_fstype(found))) return std::nullopt;
  const char *source = mnt_fs_get_source(found), *point = mnt_fs_get_target(found);
  if (!source || !point) return std::nullopt;
  return Mount{source, point};
}

// Whether the file may be sent a request: a device would take it for a request of its own. The type
// is that of the kernel's own memory, because a daemon that was shut down does not answer.
bool may_ask(int fd) {
  struct statx st {};
  const int flags = AT_EMPTY_PATH | AT_STATX_DONT_SYNC;
  return statx(fd, "", flags, STATX_TYPE, &st) == 0 &&
         (S_ISREG(st.stx_mode) || S_ISDIR(st.stx_mode));
}

// The daemon's description of the volume; nullopt if `path` is on no lazyfs.
std::optional<Json> ask(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) fail_with(path, std::strerror(errno));
  fuse::InfoText answer;
  const bool is_answered = may_ask(fd) && ioctl(fd, fuse::kInfoRequest, &answer) == 0;
  close(fd);
  if (!is_answered) return std::nullopt;
  auto info = Json::parse(std::string_view(answer.text, strnlen(answer.text, sizeof answer.text)));
  if (!info || !info->is_object()) fail_with(path, "the daemon's answer is damaged");
  return info;
}

Json unknown_volume(const char* state) {
  return Json::object({{"uuid", ""}, {"label", ""}, {"state", state}});
}

// The daemon's description of a mount, as text.
std::string ask_mount(const Mount& mount) {
  return ask(mount.point).value_or(unknown_volume(kNotReachable)).dump();
}

// UUID, label and state of a mount; more only if the daemon answers.
Json volume_of(const Mount& mount) {
  try {
    const auto answer = answer_in_time(kListTimeout, [&] { return ask_mount(mount); });
    if (!answer) return unknown_volume("does not answer");
    return Json::parse(*answer).value_or(unknown_volume(kNotReachable));
  } catch (const std::runtime_error&) {
    return unknown_volume(kNotReachable);  // its daemon has died, or another user mounted it
  }
}

std::unique_ptr<device::Device> open_device(const std::string& path,
                                            const device::OpenOptions& options) {
  auto device = disk::open(path, options);
  if (!device) fail_with(path, describe(device.error()));
  return std::move(*device);
}

meta::Superblock superblock_on(const std::string& path, device::Device& device) {
  auto superblock = meta::read_superblock(device);
  if (!superblock) fail_with(path, describe(superblock.error()));
  return std::move(*superblock);
}

std::string date_text(std::uint64_t seconds) {
  if (seconds == 0) return "never";
  const auto when = static_cast<std::time_t>(seconds);
  std::array<char, 64> text{};
  std::tm local{};
  if (!localtime_r(&when, &local)) return "at an impossible time";
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S %z", &local);
  return text.data();
}

std::string features_text(const Json& features) {
  std::string text;
  for (const auto& [name, word] : features.members()) {
    if (word.number() == 0) continue;
    char hex[16];
    std::snprintf(hex, sizeof hex, "0x%llx", static_cast<unsigned long long>(word.number()));
    text += (text.empty() ? "" : ", ") + name + " " + hex;
  }
  return text.empty() ? "none beyond the format's" : text;
}

void print_line(const char* name, const std::string& value) {
  if (!value.empty()) std::printf("%-12s %s\n", name, printable(value).c_str());
}

struct Change {
  std::optional<std::string> label;
  std::optional<meta::Uuid> uuid;
};

// The identification blocks of a plain device first, then the superblock by a session of its own.
// If the power fails in between, fsck.lazyfs -y makes the superblock follow.
void apply(const std::string& path, const Change& change) {
  const BlockDeviceClaim claim(path);
  if (claim.is_busy()) fail_with(path, describe(Errc::kDeviceBusy));
  const auto device = open_device(path, {.exclusive = !claim.is_held()});
  const meta::Superblock superblock = superblock_on(path, *device);
  if (!superblock.ended_cleanly()) {
    fail_with(path, "the volume has not ended cleanly; mount and unmount it first");
  }
  const auto named = disk::write_name(*device, {change.uuid.value_or(superblock.volume_uuid()),
                                                change.label.value_or(superblock.label)});
  if (!named) fail_with(path, describe(named.error()));
  auto store = meta::Store::open(
      *device, {.background = false, .label = change.label, .new_uuid = change.uuid});
  if (!store) fail_with(path, describe(store.error()));
  if (auto closed = (*store)->close(); !closed) fail_with(path, describe(closed.error()));
}

void require_unmounted(const std::string& path) {
  const auto mount = mount_of(path);
  if (mount) fail_with(path, "mounted on " + mount->point + "; unmount it first");
  if (ask(path)) fail_with(path, "on a mounted lazyfs; name the device, and unmount it first");
}

}  // namespace

[[noreturn]] void fail_with(const std::string& what, std::string_view why) {
  throw std::runtime_error(printable(what) + ": " + printable(why));
}

std::string mount_point_of(const std::string& path) {
  if (const auto mount = mount_of(path)) return mount->point;
  if (const auto mount = mount_with(path)) return mount->point;
  struct stat st {};
  const bool is_image_or_device =
      stat(path.c_str(), &st) == 0 && (S_ISREG(st.st_mode) || S_ISBLK(st.st_mode));
  if (is_image_or_device) fail_with(path, "it is not mounted, and lies on no mounted lazyfs");
  return path;
}

std::string only_mount_point() {
  const std::vector<Mount> all = mounts();
  if (all.size() == 1) return all.front().point;
  fail_with("MOUNTPOINT", all.empty() ? "no lazyfs is mounted"
                                      : "name one: `lazyfsctl list` prints all mounts");
}

std::optional<std::string> source_of(const std::string& path) {
  const auto mount = mount_with(path);
  return mount ? std::optional(mount->source) : std::nullopt;
}

std::optional<std::string> mounted_from(const std::string& device) {
  const auto mount = mount_of(device);
  return mount ? std::optional(mount->point) : std::nullopt;
}

Json info_of(const std::string& path) {
  Json info;
  auto answer = ask(path);
  const auto mount = answer ? mount_with(path) : mount_of(path);
  if (!answer && mount) answer = ask(mount->point);
  if (answer) {
    info = std::move(*answer);
  } else {
    const auto device = open_device(path, {.read_only = true, .exclusive = false});
    const auto superblock = superblock_on(path, *device);
    info = fs::to_json(fs::describe_volume(superblock, device->geometry()));
  }
  Json all = Json::object({{"path", path}, {"mounted_on", mount ? mount->point : ""}});
  for (const auto& [name, value] : info.members()) all[name] = value;
  return all;
}

void print_info(const std::string& path, bool as_json) {
  const Json info = info_of(path);
  if (as_json) {
    std::puts(info.dump(true).c_str());
    return;
  }
  print_line("UUID", info["uuid"].text());
  print_line("Label", info["label"].text());
  print_line("Format", std::to_string(info["format"].number()));
  print_line("Features", features_text(info["features"]));
  print_line("Size", size_text(info["bytes"].number()) + " in " +
                         std::to_string(info["bands"].number()) + " bands of up to " +
                         size_text(info["largest_band_bytes"].number()) + ", " +
                         std::to_string(info["log_bands"].number()) + " of them metadata log");
  print_line("State", info["state"].text());
  print_line("Mounted on", info["mounted_on"].text());
  print_line("Options", info["options"].text());
  print_line("Made", date_text(info["created"].number()));
  print_line("Mounted", date_text(info["mounted"].number()) + ", " +
                            count_text(info["mounts"].number(), "time"));
  print_line("Checked", date_text(info["checked"].number()));
}

void print_mounts(bool as_json) {
  Json list = Json::array();
  for (const Mount& mount : mounts()) {
    const Json volume = volume_of(mount);
    list.push_back(Json::object({{"device", mount.source},
                                 {"mounted_on", mount.point},
                                 {"uuid", volume["uuid"]},
                                 {"label", volume["label"]},
                                 {"state", volume["state"]}}));
  }
  if (as_json) {
    std::puts(Json::object({{"mounts", list}}).dump(true).c_str());
    return;
  }
  for (const Json& mount : list.items()) {
    const auto text = [&](const char* name) { return printable(mount[name].text()); };
    const std::string label = text("label");
    std::printf("%s on %s (%s)%s%s UUID %s\n", text("device").c_str(),
                text("mounted_on").c_str(), text("state").c_str(),
                label.empty() ? "" : " label ", label.c_str(), text("uuid").c_str());
  }
}

void label_command(const std::string& path, const std::optional<std::string>& value) {
  if (!value) {
    std::puts(printable(info_of(path)["label"].text()).c_str());
    return;
  }
  if (value->size() > meta::kMaxLabelBytes) fail_with(path, "the label is longer than 63 bytes");
  require_unmounted(path);
  apply(path, {.label = *value});
}

void uuid_command(const std::string& path, const std::optional<std::string>& value) {
  if (!value) {
    std::puts(info_of(path)["uuid"].text().c_str());
    return;
  }
  const auto uuid = *value == "random" ? new_uuid() : parse_uuid(*value);
  if (!uuid || *uuid == meta::Uuid{}) {
    fail_with(*value, "not a UUID of the form " + std::string(kUuidForm) + ", nor \"random\"");
  }
  require_unmounted(path);
  apply(path, {.uuid = *uuid});
}

}  // namespace lazyfs
