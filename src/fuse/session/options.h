// What stands behind -o: options of lazyfs, generic ones of mount(8), and those of FUSE, sorted out
// so that each reaches whom it concerns. Pure: no system call is made here.
#pragma once

#include <chrono>
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "fs/volume/volume.h"
#include "fuse/requests/control.h"
#include "fuse/transport/awake.h"

namespace lazyfs::fuse {

// How the daemon speaks with the kernel.
struct SessionOptions {
  std::vector<std::string> kernel;  // for mount(2), as libfuse spells them: "ro", "nodev", ...
  bool allow_other = false;         // set for root's mounts unless `noallow_other` is given
  bool writeback_cache = false;     // the kernel gathers writes and owns size and times meanwhile
  bool announce_opens = false;      // the kernel tells of each open and close; false: never
  bool debug = false;               // libfuse prints every request
  SyncChoice sync = SyncChoice::kNone;  // which changes are durable before they are answered
  unsigned spin_microseconds = 50;  // wait so long for a request before going to sleep; 0: never
  AwakeChoice awake = AwakeChoice::kAuto;  // keep idle CPUs awake while requests come densely
  unsigned threads_max = 32;
  unsigned read_ahead_kib = 2048;  // the kernel's limit for reading ahead on this mount
};

struct Options {
  fs::MountOptions volume;
  SessionOptions session;
  bool remount = false;
  bool has_placement = false;      // it was given: a remount changes it
  std::string log_file;            // empty: syslog when in the background
  std::string log_level = "info";  // of spdlog
};

// Reads comma-separated lists as they follow -o, in their order; a later option wins. `as_root`
// gives what a disk filesystem's mount has: devices and set-user-ID work, and everybody may enter.
// The error is a sentence that names the option.
std::expected<Options, std::string> parse_options(const std::vector<std::string>& lists,
                                                  bool as_root);

// "4096", "64K", "2M", "1G", "1T" in powers of 1024. Error: what is wrong with it.
std::expected<std::uint64_t, std::string> parse_size(std::string_view text);

}  // namespace lazyfs::fuse
