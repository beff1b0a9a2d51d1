#include "fuse/session/options.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <optional>
#include <set>

namespace lazyfs::fuse {
namespace {

using Reason = std::optional<std::string>;  // why a value is refused; nothing: it is accepted

struct Parser {
  Options options;
  bool devices, set_id, exec = true, entire_world;
  bool read_only = false, synchronous = false, directory_sync = false;
};

std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

Reason read_number(std::string_view text, std::uint64_t low, std::uint64_t high,
                   std::uint64_t& to) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    return quoted(text) + " is not a number";
  }
  if (number < low || number > high) {
    return quoted(text) + " is not between " + std::to_string(low) + " and " + std::to_string(high);
  }
  to = number;
  return {};
}

Reason read_size(std::string_view text, std::uint64_t low, std::size_t& to) {
  const auto size = parse_size(text);
  if (!size) return size.error();
  if (*size < low) return quoted(text) + " is less than " + std::to_string(low) + " bytes";
  to = *size;
  return {};
}

template <class T>
Reason read_choice(std::string_view text, const std::map<std::string_view, T>& choices, T& to) {
  const auto found = choices.find(text);
  if (found != choices.end()) {
    to = found->second;
    return {};
  }
  std::string known;
  for (const auto& [name, value] : choices)
    known += (known.empty() ? "" : ", ") + std::string(name);
  return quoted(text) + " is none of " + known;
}

Reason read_seconds(std::string_view text, std::chrono::milliseconds& to) {
  std::uint64_t seconds = 0;
  if (auto reason = read_number(text, 0, 86400, seconds)) return reason;
  to = std::chrono::seconds(seconds);
  return {};
}

Reason read_commit_interval(std::string_view text, std::chrono::milliseconds& to) {
  const auto reason = read_seconds(text, to);
  // 0 is the default, as for ext4.
  if (!reason && to.count() == 0) to = fs::MountOptions{}.commit_interval;
  return reason;
}

template <class T>
Reason read_unsigned(std::string_view text, std::uint64_t low, std::uint64_t high, T& to) {
  std::uint64_t number = 0;
  if (auto reason = read_number(text, low, high, number)) return reason;
  to = static_cast<T>(number);
  return {};
}

Reason read_microseconds(std::string_view text, std::uint64_t high,
                         std::chrono::microseconds& to) {
  std::uint64_t number = 0;
  if (auto reason = read_number(text, 0, high, number)) return reason;
  to = std::chrono::microseconds(number);
  return {};
}

using Flag = std::function<void(Parser&)>;
using Setting = std::function<Reason(Parser&, std::string_view)>;

// Options without a value that change something.
const std::map<std::string_view, Flag>& flags() {
  using fs::AccessTime;
  static const std::map<std::string_view, Flag> table = {
      {"ro", [](Parser& p) { p.read_only = true; }},
      {"rw", [](Parser& p) { p.read_only = false; }},
      {"dev", [](Parser& p) { p.devices = true; }},
      {"nodev", [](Parser& p) { p.devices = false; }},
      {"suid", [](Parser& p) { p.set_id = true; }},
      {"nosuid", [](Parser& p) { p.set_id = false; }},
      {"exec", [](Parser& p) { p.exec = true; }},
      {"noexec", [](Parser& p) { p.exec = false; }},
      {"sync", [](Parser& p) { p.synchronous = true; }},
      {"async", [](Parser& p) { p.synchronous = p.directory_sync = false; }},
      {"dirsync", [](Parser& p) { p.directory_sync = true; }},
      {"user", [](Parser& p) { p.devices = p.set_id = p.exec = false; }},
      {"users", [](Parser& p) { p.devices = p.set_id = p.exec = false; }},
      {"owner", [](Parser& p) { p.devices = p.set_id = false; }},
      {"group", [](Parser& p) { p.devices = p.set_id = false; }},
      {"noatime", [](Parser& p) { p.options.volume.access_time = AccessTime::kNone; }},
      {"atime", [](Parser& p) { p.options.volume.access_time = AccessTime::kRelative; }},
      {"relatime", [](Parser& p) { p.options.volume.access_time = AccessTime::kRelative; }},
      {"strictatime", [](Parser& p) { p.options.volume.access_time = AccessTime::kStrict; }},
      {"diratime", [](Parser& p) { p.options.volume.directory_access_time = true; }},
      {"nodiratime", [](Parser& p) { p.options.volume.directory_access_time = false; }},
      {"discard", [](Parser& p) { p.options.volume.discard = true; }},
      {"nodiscard", [](Parser& p) { p.options.volume.discard = false; }},
      {"remount", [](Parser& p) { p.options.remount = true; }},
      {"allow_other", [](Parser& p) { p.entire_world = true; }},
      {"noallow_other", [](Parser& p) { p.entire_world = false; }},
      {"writeback", [](Parser& p) { p.options.session.requests.writeback_cache = true; }},
      {"nowriteback", [](Parser& p) { p.options.session.requests.writeback_cache = false; }},
      {"idmap", [](Parser& p) { p.options.session.idmap = true; }},
      {"noidmap", [](Parser& p) { p.options.session.idmap = false; }},
      {"opens", [](Parser& p) { p.options.session.requests.announce_opens = true; }},
      {"debug",
       [](Parser& p) {
         p.options.session.debug = true;
         p.options.log_level = "debug";
       }},
  };
  return table;
}

Reason read_gc(Parser& p, std::string_view text) {
  struct When {
    bool idle, space;
  };
  static const std::map<std::string_view, When> choices = {{"idle+space", {true, true}},
                                                           {"idle", {true, false}},
                                                           {"space", {false, true}},
                                                           {"off", {false, false}}};
  When when{};
  if (auto reason = read_choice(text, choices, when)) return reason;
  p.options.volume.gc_idle = when.idle;
  p.options.volume.gc_space = when.space;
  return {};
}

Reason read_log_level(Parser& p, std::string_view text) {
  static const std::map<std::string_view, std::string> levels = {
      {"trace", "trace"},  {"debug", "debug"}, {"info", "info"},         {"warning", "warning"},
      {"warn", "warning"}, {"error", "error"}, {"critical", "critical"}, {"off", "off"}};
  return read_choice(text, levels, p.options.log_level);
}

Reason read_path(std::string_view text, std::string& to) {
  if (!text.starts_with('/')) return quoted(text) + " is not an absolute path";
  to = text;
  return {};
}

// "spent" is the keeper's: a remount compares what the user has given.
Reason read_restart(Parser& p, std::string_view text) {
  if (text == "spent") {
    p.options.was_restarted = true;
    return {};
  }
  static const std::map<std::string_view, Restart> choices = {
      {"no", Restart::kNo}, {"once", Restart::kOnce}, {"always", Restart::kAlways}};
  return read_choice(text, choices, p.options.restart);
}

Reason read_transport(Parser& p, std::string_view text) {
  static const std::map<std::string_view, TransportChoice> choices = {
      {"auto", TransportChoice::kAuto},
      {"read", TransportChoice::kRead},
      {"io_uring", TransportChoice::kIoUring}};
  return read_choice(text, choices, p.options.session.transport.choice);
}

Reason read_spin(Parser& p, std::string_view text) {
  return read_microseconds(text, 10000, p.options.session.transport.spin);
}

Reason read_request_timeout(Parser& p, std::string_view text) {
  return read_unsigned(text, 0, UINT16_MAX, p.options.session.request_timeout_s);
}

Reason read_barrier(Parser&, std::string_view text) {
  if (text == "1") return {};
  return std::string(text) + " is not possible: all commits are flushed";
}

Reason read_errors(Parser& p, std::string_view text) {
  static const std::map<std::string_view, AfterError> choices = {
      {"remount-ro", AfterError::kRemountReadOnly},
      {"continue", AfterError::kContinue},
      {"panic", AfterError::kPanic}};
  return read_choice(text, choices, p.options.after_error);
}

// Options of the form name=value that change something.
const std::map<std::string_view, Setting>& settings() {
  using fs::CleanChoice;
  using Text = std::string_view;
  static const std::map<Text, data::Placement> placements = {
      {"first", data::Placement::kFirstFit},
      {"best", data::Placement::kBestFit},
      {"age", data::Placement::kAgeFit},
      {"random", data::Placement::kRandom}};
  static const std::map<Text, CleanChoice> cleans = {
      {"whole", CleanChoice::kWhole},
      {"tail", CleanChoice::kTail},
      {"auto", CleanChoice::kAuto},
      {"greedy", CleanChoice::kGreedy}};
  static const std::map<Text, CpuLatencyChoice> latencies = {
      {"auto", CpuLatencyChoice::kAuto},
      {"on", CpuLatencyChoice::kOn},
      {"off", CpuLatencyChoice::kOff}};
  constexpr std::uint64_t kCacheMin = std::uint64_t{1} << 20;
  static const std::map<Text, Setting> table = {
      {"commit",
       [](Parser& p, Text t) {
         return read_commit_interval(t, p.options.volume.commit_interval);
       }},
      {"cache",
       [](Parser& p, Text t) { return read_size(t, kCacheMin, p.options.volume.cache_bytes); }},
      {"dirty",
       [](Parser& p, Text t) { return read_size(t, kCacheMin, p.options.volume.dirty_bytes); }},
      {"placement",
       [](Parser& p, Text t) {
         return read_choice(t, placements, p.options.volume.placement);
       }},
      {"clean", [](Parser& p, Text t) { return read_choice(t, cleans, p.options.volume.clean); }},
      {"gc", read_gc},
      {"gc_low",
       [](Parser& p, Text t) { return read_unsigned(t, 0, 100, p.options.volume.gc_low_percent); }},
      {"gc_high",
       [](Parser& p, Text t) {
         return read_unsigned(t, 0, 100, p.options.volume.gc_high_percent);
       }},
      {"gc_idle",
       [](Parser& p, Text t) { return read_seconds(t, p.options.volume.gc_idle_after); }},
      {"gc_rate", [](Parser& p, Text t) { return read_size(t, 0, p.options.volume.gc_idle_rate); }},
      {"loglevel", read_log_level},
      {"awake",
       [](Parser& p, Text t) {
         return read_choice(t, latencies, p.options.session.transport.cpu_latency);
       }},
      {"transport", read_transport},
      {"logfile", [](Parser& p, Text t) { return read_path(t, p.options.log_file); }},
      {"on_error", [](Parser& p, Text t) { return read_path(t, p.options.error_program); }},
      {"errors", read_errors},
      {"panic_trigger",
       [](Parser& p, Text t) { return read_path(t, p.options.panic_trigger); }},
      {"barrier", read_barrier},
      {"restart", read_restart},
      {"spin", read_spin},
      {"threads",
       [](Parser& p, Text t) {
         return read_unsigned(t, 2, 1024, p.options.session.transport.threads_max);
       }},
      {"request_timeout", read_request_timeout},
      {"readahead",
       [](Parser& p, Text t) {
         return read_unsigned(t, 4, 1 << 20, p.options.session.read_ahead_kib);
       }},
  };
  return table;
}

// Options of other filesystems that ask for something that lazyfs does not do.
Reason impossible(std::string_view name) {
  static const std::map<std::string_view, std::string> reasons = {
      {"nobarrier", "all commits are flushed"},
      {"noacl", "access control lists are heeded"},
      {"nouser_xattr", "extended attributes are kept"},
      {"quota", "lazyfs keeps no quotas"},
      {"usrquota", "lazyfs keeps no quotas"},
      {"grpquota", "lazyfs keeps no quotas"}};
  const auto found = reasons.find(name);
  if (found == reasons.end()) return {};
  return "option " + quoted(name) + ": is not possible: " + found->second;
}

// Options that change nothing here: those that mount(8) and other filesystems know, and those that
// /proc/mounts shows of any mount by FUSE (mount(8) passes them to a remount).
bool harmless(std::string_view name) {
  static const std::set<std::string_view> names = {
      "defaults", "auto",       "noauto",        "nofail",   "_netdev",
      "nouser",   "nousers",    "noowner",       "nogroup",  "norelatime",
      "lazytime", "nolazytime", "nostrictatime", "iversion", "noiversion",
      "silent",   "loud",       "nomand",        "nonempty", "default_permissions",
      "comment",  "uhelper",    "helper",        "user_id",  "group_id",
      "blksize",  "max_read",   "acl",           "user_xattr", "noquota"};
  return names.contains(name) || name.starts_with("x-") || name.starts_with("X-");
}

Reason apply(Parser& parser, std::string_view option) {
  const std::size_t equals = option.find('=');
  const std::string_view name = option.substr(0, equals);
  if (harmless(name) || option == "barrier") return {};
  if (auto reason = impossible(name)) return reason;
  if (equals == std::string_view::npos) {
    if (const auto flag = flags().find(name); flag != flags().end()) {
      flag->second(parser);
      return {};
    }
    if (settings().contains(name)) return "option " + quoted(name) + ": needs a value";
  } else if (const auto setting = settings().find(name); setting != settings().end()) {
    const auto reason = setting->second(parser, option.substr(equals + 1));
    return reason ? "option " + quoted(name) + ": " + *reason : reason;
  } else if (flags().contains(name)) {
    return "option " + quoted(name) + ": takes no value";
  }
  return "option " + quoted(option) + ": not known; man lazyfs lists them";
}

// A remount that does not name them takes back noatime and nodiratime, like the other flags that
// the kernel shows: mount(8) repeats what is shown, and leaves them out for atime and diratime.
void forget_shown_flags(Options& options) {
  auto& access_time = options.volume.access_time;
  if (access_time == fs::AccessTime::kNone) access_time = fs::AccessTime::kRelative;
  options.volume.directory_access_time = true;
  options.session.kernel.clear();
}

Options finish(Parser parser, bool as_root) {
  auto& kernel = parser.options.session.kernel;
  kernel.push_back(parser.read_only ? "ro" : "rw");
  // Only root may ask the kernel for these two.
  if (as_root) kernel.push_back(parser.devices ? "dev" : "nodev");
  if (as_root) kernel.push_back(parser.set_id ? "suid" : "nosuid");
  if (!parser.exec) kernel.push_back("noexec");
  if (parser.synchronous) kernel.push_back("sync");
  if (parser.directory_sync) kernel.push_back("dirsync");
  parser.options.session.requests.sync = parser.synchronous      ? SyncChoice::kAll
                                : parser.directory_sync ? SyncChoice::kNames
                                                        : SyncChoice::kNone;
  if (parser.options.volume.access_time == fs::AccessTime::kNone) kernel.push_back("noatime");
  if (!parser.options.volume.directory_access_time) kernel.push_back("nodiratime");
  parser.options.session.allow_other = parser.entire_world;
  parser.options.volume.read_only = parser.read_only;
  return std::move(parser.options);
}

}  // namespace

std::string list_options() {
  std::set<std::string> names;
  for (const auto& [name, flag] : flags()) names.emplace(name);
  for (const auto& [name, setting] : settings()) names.insert(std::string(name) + "=VALUE");
  std::string list;
  for (const std::string& name : names) list += name + "\n";
  return list;
}

std::expected<std::uint64_t, std::string> parse_size(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (error == std::errc::result_out_of_range)
    return std::unexpected(quoted(text) + " is too large");
  if (error != std::errc()) return std::unexpected(quoted(text) + " is not a size");
  if (unit.empty()) return number;
  constexpr std::string_view kUnits = "KMGT";
  const std::size_t power = kUnits.find(static_cast<char>(std::toupper(unit.front())));
  if ((unit.size() > 1 && unit.substr(1) != "iB") || power == std::string_view::npos) {
    return std::unexpected(quoted(text) + " is not a size: K, M, G or T may follow the number");
  }
  const unsigned shift = 10 * (static_cast<unsigned>(power) + 1);
  if (number > (UINT64_MAX >> shift)) return std::unexpected(quoted(text) + " is too large");
  return number << shift;
}

std::expected<Options, std::string> parse_options(const std::vector<std::string>& lists,
                                                  bool as_root, const Options& in_force) {
  Parser parser{.options = in_force,
                .devices = as_root,
                .set_id = as_root,
                .entire_world = in_force.session.allow_other || as_root};
  forget_shown_flags(parser.options);
  for (const std::string& list : lists) {
    std::string_view rest = list;
    while (!rest.empty()) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      const std::string_view option = rest.substr(0, comma);
      rest.remove_prefix(std::min(comma + 1, rest.size()));
      if (option.empty()) continue;
      if (auto reason = apply(parser, option)) return std::unexpected(*reason);
    }
  }
  const auto& volume = parser.options.volume;
  if (volume.gc_high_percent > volume.gc_low_percent) {
    return std::unexpected("option 'gc_high' (" + std::to_string(volume.gc_high_percent) +
                           ") must not be above 'gc_low' (" +
                           std::to_string(volume.gc_low_percent) + ")");
  }
  return finish(std::move(parser), as_root);
}

}  // namespace lazyfs::fuse
