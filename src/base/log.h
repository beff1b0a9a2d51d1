// The log: one line per event, to standard error or to the sink that the program chose. A line
// holds what is needed to debug the event: ids, seq, expected and found. Formatting and sinks are
// in log.cc, so that spdlog is compiled once.
#pragma once

#include <fmt/core.h>

#include <string>

namespace lazyfs::log {

enum class Level { kTrace, kDebug, kInfo, kWarn, kError, kCritical, kOff };

// Writes a line unless the log's level is higher than `level`. Thread-safe.
void write(Level level, fmt::string_view format, fmt::format_args arguments);
// Lines below `level` are dropped from now on; kOff drops all of them.
void set_level(Level level);
void set_level(const std::string& name);  // spdlog's names: "trace" to "critical", "off"
void flush();

// Where lines go from now on; each is flushed at once. Call before there are other threads.
void to_standard_error();
void to_syslog();
void to_file(const std::string& path);  // appends; throws what spdlog throws when it cannot open it

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
