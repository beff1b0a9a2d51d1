// The log: one line per event, to standard error or to the sink that the program chose. A line has
// the ids, sequence numbers, expected and found values that a reader needs to debug the event. Only
// log.cc includes spdlog, so that spdlog is compiled once.
#pragma once

#include <fmt/core.h>

#include <string>

namespace lazyfs::log {

enum class Level { kTrace, kDebug, kInfo, kWarn, kError, kCritical, kOff };

// Writes a line unless the log's level is higher than `level`. At most 20 warnings and errors of
// each format pass in a minute. A line for which there is no memory is left out. Thread-safe.
void write(Level level, fmt::string_view format, fmt::format_args arguments);
// Drops lines below `level` from now on. kOff drops all lines.
void set_level(Level level);
void set_level(const std::string& name);  // spdlog's names: "trace" to "critical", "off"
void flush();

// Each of these chooses the sink for all later lines. Lines of level kInfo and above are flushed at
// once.
// REQUIRES: no other thread exists yet.
void to_standard_error();
void to_syslog();       // the kernel's log if /dev/log takes no messages now
void to_file(const std::string& path);  // appends; throws spdlog's exception if open fails

// What a program has printed there needs no line in the log.
bool is_on_standard_error();

#define LAZYFS_LOG_LEVEL(name, level)                               \
  template <class... Args>                                          \
  void name(fmt::format_string<Args...> format, Args&&... args) {   \
    write(Level::level, format, fmt::make_format_args(args...));    \
  }
LAZYFS_LOG_LEVEL(trace, kTrace)
LAZYFS_LOG_LEVEL(debug, kDebug)
LAZYFS_LOG_LEVEL(info, kInfo)
LAZYFS_LOG_LEVEL(warn, kWarn)
LAZYFS_LOG_LEVEL(error, kError)
LAZYFS_LOG_LEVEL(critical, kCritical)
#undef LAZYFS_LOG_LEVEL

}  // namespace lazyfs::log
