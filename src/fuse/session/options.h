// The options that follow -o: those of lazyfs, generic ones of mount(8), and those of FUSE, each
// sorted to the part that it concerns. Pure: no system call is made here.
#pragma once

#include <chrono>
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "fs/volume/volume.h"
#include "fuse/requests/context.h"
#include "fuse/transport/transport.h"

namespace lazyfs::fuse {

// How the daemon mounts, and speaks with the kernel.
struct SessionOptions {
  std::vector<std::string> kernel;  // for mount(2), as libfuse spells them: "ro", "nodev", ...
  bool allow_other = false;         // set for root's mounts unless `noallow_other` is given
  bool idmap = false;               // idmapped mounts of it are possible
  bool debug = false;               // every request is logged
  unsigned read_ahead_kib = 2048;   // the kernel's limit for reading ahead on this mount
  unsigned request_timeout_s = 0;   // the kernel then ends the mount; 0: never
  RequestSettings requests;
  TransportOptions transport{.cpu_latency = CpuLatencyChoice::kAuto};
};

// What happens when the daemon dies without unmounting.
enum class Restart : std::uint8_t {
  kNo,      // the mount stays, and all calls fail
  kOnce,    // it is mounted again; not when that daemon dies too
  kAlways,  // it is mounted again each time
};

// What happens, besides the end of all writes, when an error has made the filesystem read-only.
enum class AfterError : std::uint8_t {
  kRemountReadOnly,  // the mount is made read-only
  kContinue,         // nothing: readers continue
  kPanic,            // the machine crashes
};

struct Options {
  fs::MountOptions volume;
  SessionOptions session;
  bool remount = false;
  std::string log_file;            // empty: syslog when in the background
  std::string error_program;       // started when an error has made the filesystem read-only
  AfterError after_error = AfterError::kRemountReadOnly;
  // A file that makes the kernel panic when "c" is written to it. Tests have another one.
  std::string panic_trigger = "/proc/sysrq-trigger";
  std::string log_level = "info";  // of spdlog
  Restart restart = Restart::kNo;
  bool was_restarted = false;  // kOnce has happened
};

// The names of all options that change something, one on a line.
std::string list_options();

// Reads comma-separated lists as they follow -o, in their order; a later option wins. With
// `as_root` the defaults are those of a disk filesystem: devices and set-user-ID work, and every
// user has access. The error is a sentence that names the option.
// `in_force`: the values of options that are not given. Exceptions: ro, sync, dirsync, noatime,
// nodiratime, and the options for the kernel alone (dev, suid, exec) follow the lists only, as
// mount(8) expects of a remount.
std::expected<Options, std::string> parse_options(const std::vector<std::string>& lists,
                                                  bool as_root, const Options& in_force = {});

// "4096", "64K", "2M", "1G", "1T" in powers of 1024. Error: what is wrong with the text.
std::expected<std::uint64_t, std::string> parse_size(std::string_view text);

}  // namespace lazyfs::fuse
